"""Acts on a workflow: start a checkout, clerks who carry it, a scanner that signals it, a customer who cancels it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from ...app.inbox import Inbox
from ...shapes.flow import Flows, Workflow
from ..actors import clerk
from .act import Act, Name
from .shop_acts import ORDER, TAKE, Order

if TYPE_CHECKING:
    from .stage import Stage


class Checkout(Act, frozen=True):
    """Take an order and start its checkout in the order's own transaction."""

    order: Order = ORDER

    def do(self, stage: Stage) -> None:
        """The order and the workflow commit together, or not at all."""
        with stage.conn.transaction():
            stage.sql(TAKE, self.order)
            answer = _workflow(stage).start(stage.conn, order_id=self.order)
        key = f"order:{self.order}"
        stage.say("shop", "enqueued", key=key, job_id=str(answer.id), kind="checkout", order=self.order)


class Clerk(Act, frozen=True):
    """Start a worker that carries checkouts; `held`: it stands still after the charge, until its answer."""

    worker: Name
    held: bool = False
    charge: Annotated[str, Meta(min_length=1, max_length=20)] = "charge"  # what its code calls the step
    lacks: clerk.Lacks = ""

    def do(self, stage: Stage) -> None:
        """A process with a real worker."""
        part = {"held": self.held, "charge": self.charge, "lacks": self.lacks}
        stage.employ("clerk", clerk.Part, self.worker, **part)


class Scan(Act, frozen=True):
    """Scan the parcel: signal `shipped` in the scanner's transaction. Not kept: only who listens hears it."""

    order: Order = ORDER
    kept: bool = True

    def do(self, stage: Stage) -> None:
        """It reports what became of the signal."""
        with stage.conn.transaction():
            told = _workflow(stage).of(f"order:{self.order}").signal(stage.conn, "shipped", {"parcel": 1})
            if not self.kept:
                stage.sql("DELETE FROM tenure.signals")
        stage.say("shop", "parcel_scanned", order=self.order, signal=told.outcome if self.kept else "not kept")


class Regret(Act, frozen=True):
    """Cancel the order: ask its checkout to undo what it has done."""

    order: Order = ORDER

    def do(self, stage: Stage) -> None:
        """Whoever holds it next does the rest."""
        _, told = _workflow(stage).of(f"order:{self.order}").cancel(stage.conn, "the customer cancelled the order")
        stage.say("shop", "order_cancelled", order=self.order, cancel=told)


def _workflow(stage: Stage) -> Workflow:
    return clerk.checkout_of(Flows(Inbox(schema=stage.schema)))
