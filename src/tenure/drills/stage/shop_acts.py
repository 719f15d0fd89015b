"""Acts of the shop: take orders, enqueue their rows, redrive dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from ... import postgres, verbs
from ...model.rows import Enqueued, NewRow
from ...verbs import operators
from ..actors.shop import CURE
from .act import Act
from .crowd import at_once

if TYPE_CHECKING:
    from .stage import Stage

ORDER = 9182
TAKE = "INSERT INTO tenure.orders (id) VALUES (%s) ON CONFLICT DO NOTHING"
WAITING = """
SELECT id, extract(epoch FROM available_at - clock_timestamp())::float8 FROM tenure.live
WHERE status = 'pending' AND available_at > clock_timestamp() LIMIT 1000"""
Kind = Literal["send_receipt", "ship_order", "poison"]
Order = Annotated[int, Meta(ge=1, le=1_000_000)]


class Enqueue(Act, frozen=True):
    """Take an order and enqueue its row in the order's own transaction; `keyed` sends its idempotency key along."""

    order: Order = ORDER
    kind: Kind = "send_receipt"
    keyed: bool = True
    ordered: bool = False
    step: Annotated[int, Meta(ge=0, le=100)] = 0
    fails: Annotated[int, Meta(ge=0, le=100)] = 0  # how many of its first attempts fail

    def do(self, stage: Stage) -> None:
        """The order and its row commit together, or not at all."""
        with stage.conn.transaction():
            stage.sql(TAKE, self.order)
            answer = stage.run(verbs.enqueue(self.row))
        self.tell(stage, answer)

    def tell(self, stage: Stage, answer: Enqueued) -> None:
        """Report the outcome."""
        event = "enqueued" if answer.outcome == "enqueued" else "enqueue_deduplicated"
        more = {"step": self.step} if self.step else {}
        stage.say(
            "shop", event, key=f"order:{self.order}", job_id=str(answer.id), kind=self.kind, order=self.order, **more
        )

    @property
    def row(self) -> NewRow:
        """The row to enqueue."""
        payload = {"order_id": self.order}
        if self.kind == "ship_order":
            payload |= {"step": self.step, "fails": self.fails}
        return NewRow(
            self.kind,
            payload,
            key=f"order:{self.order}",
            idempotency_key=f"{self.kind}-{self.order}-{self.step}" if self.keyed else None,
            ordered=self.ordered,
            max_attempts=3 if self.kind == "poison" else 5,
        )


class Orders(Act, frozen=True):
    """Take several orders at once, each in a transaction of its own."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    first: Order = 1

    def do(self, stage: Stage) -> None:
        """One after the other, from the first free number."""
        ((taken,),) = stage.sql("SELECT COALESCE(max(id), 0) FROM tenure.orders WHERE id < %s", ORDER)
        first = max(self.first, taken + 1)
        for order in range(first, first + self.n):
            Enqueue(order).do(stage)
        stage.say("shop", "orders_taken", rows=self.n, first=first, last=first + self.n - 1)


class Crowd(Act, frozen=True):
    """The same order from several transactions at the same moment, like callers that got no answer and try again."""

    n: Annotated[int, Meta(ge=2, le=8)] = 4
    order: Order = ORDER
    keyed: bool = True

    def do(self, stage: Stage) -> None:
        """Each on its own connection and thread, started together."""
        stage.sql(TAKE, self.order)
        each = Enqueue(self.order, keyed=self.keyed)
        answers = at_once(self.n, stage.connect, lambda conn: postgres.run(conn, verbs.enqueue(each.row), stage.schema))
        for answer in sorted(answers, key=lambda answer: answer.outcome != "enqueued"):
            each.tell(stage, answer)


class Rollback(Act, frozen=True):
    """Take an order, enqueue its row, and roll the order back; `together` is the guard: both in one transaction."""

    order: Order = ORDER
    together: bool = True

    def do(self, stage: Stage) -> None:
        """The shop changes its mind after it has enqueued."""
        row = verbs.enqueue(Enqueue(self.order).row)
        stage.conn.execute("BEGIN")
        stage.sql("INSERT INTO tenure.orders (id) VALUES (%s)", self.order)
        if self.together:
            stage.run(row)
        stage.conn.execute("ROLLBACK")
        if not self.together:
            stage.run(row)  # as with a separate broker: the rollback does not reach it
        stage.say("shop", "order_rolled_back", order=self.order, together=self.together)


class SkipBackoff(Act, frozen=True, tag="skip_backoff"):
    """Make scheduled rows due now: a drill need not wait for a backoff."""

    def do(self, stage: Stage) -> None:
        """As an operator does; the skipped seconds are reported."""
        waiting = dict(stage.sql(WAITING))
        if stage.run(operators.retry_now(list(waiting))):
            stage.say("drill", "backoff_skipped", seconds=round(max(waiting.values()), 1))


class Redrive(Act, frozen=True):
    """Bring every dead letter back with fresh attempts."""

    def do(self, stage: Stage) -> None:
        """As an operator does."""
        ids = [id for (id,) in stage.sql("SELECT id FROM tenure.dead LIMIT 1000")]
        stage.say("shop", "redriven", rows=len(stage.run(verbs.redrive(ids))))


class Cure(Act, frozen=True):
    """Repair what makes orders fail."""

    def do(self, stage: Stage) -> None:
        """From now on the handler can succeed."""
        stage.sql(CURE)
        stage.say("shop", "poison_cured")
