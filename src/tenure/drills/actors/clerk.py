"""A real worker in its own process that carries checkouts: workflows that charge a card, wait for the parcel and tell.

Its control lacks one guard of the engine: the line that a step has begun, or the place of a step in its run.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from ... import events, postgres, sql
from ...app.inbox import Inbox
from ...shapes.flow import Flow, Flows, Workflow
from ...shapes.flow.core import Core
from ...shapes.flow.effects import Doing
from ...verbs.steps import Step
from ...worker.worker import Worker
from . import protocol, shop
from .at_work import heed, say_news, short_terms, work

Lacks = Literal["", "begun", "place"]  # the guard that this one goes without
WAIT_SECONDS = 0.02
CHARGED, REFUNDED = 1, 2  # the steps of the ledger
FIND = "SELECT n FROM tenure.ledger WHERE order_id = %s AND step = %s LIMIT 1"
ROW = "SELECT id, lease_generation FROM tenure.live WHERE partition_key = %s LIMIT 1"


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a clerk needs to know."""

    held: bool = False  # after the charge, until the drill sends its answer
    charge: str = "charge"  # what its code calls the step
    lacks: Lacks = ""


class WithoutBegun(Core):
    """Does not write down that a step has begun."""

    def write(self, *steps: Step) -> Doing:
        """Record the others."""
        return (yield from super().write(*(each for each in steps if each.state != "begun")))


class ByName(Core):
    """Knows a step by its name alone, wherever it stands."""

    def ask(self, path: str, n: int, name: str) -> Step | None:
        """What is recorded under this name."""
        self.reach(path, n)
        return next((each for each in self.records.values() if each.name == name), None)

    def check_end(self) -> None:
        """Whatever else is recorded is not looked at."""


CORES: dict[Lacks, type[Core]] = {"": Core, "begun": WithoutBegun, "place": ByName}


class Checkout:
    """The workflow and what its steps do outside of it: no fence can roll that back."""

    def __init__(self, part: Part, gate: threading.Event) -> None:
        self._part, self._gate = part, gate
        self.inbox = Inbox(schema=part.schema)
        flows = Flows(self.inbox, core=CORES[part.lacks])
        self.workflow = checkout_of(flows, part.charge, self.charge, self.refund, self.tell)

    def charge(self, order_id: int) -> int:
        """The bank has it when this returns; that may never be written down."""
        self._book(order_id, CHARGED)
        protocol.say({"event": "card_charged", "worker": self._part.name, "order": order_id})
        while self._part.held and not self._gate.is_set():
            time.sleep(WAIT_SECONDS)
        return order_id

    def refund(self, charged: int | None, order_id: int) -> None:
        """Give the money back, also where nobody knows whether it was taken: the bank knows."""
        with self._outside() as bank:
            taken = bank.execute(self._sql(FIND), [order_id, CHARGED]).fetchone()
        if taken:
            self._book(order_id, REFUNDED)
        said = "in doubt" if charged is None else "known"
        protocol.say({"event": "card_refunded", "worker": self._part.name, "order": order_id, "charge": said})

    def tell(self, order_id: int) -> None:
        """An e-mail for the customer."""
        with self._outside() as outside:
            _, token = self._row(outside, order_id)
            outside.execute(self._sql(shop.POST), [order_id, f"shipped-{order_id}", self._part.name, token])
        protocol.say({"event": "mail_sent", "worker": self._part.name, "order": order_id})

    def _book(self, order_id: int, step: int) -> None:
        with self._outside() as bank:
            id, token = self._row(bank, order_id)
            bank.execute(self._sql(shop.WRITE), [order_id, step, id, self._part.name, token])

    def _row(self, conn: postgres.QueueConnection, order_id: int) -> tuple[Any, ...]:
        (found,) = conn.execute(self._sql(ROW), [f"order:{order_id}"]).fetchall()
        return found

    def _outside(self) -> closing[postgres.QueueConnection]:
        name = f"tenure shop {self._part.name}"
        return closing(postgres.connect(self._part.url, application_name=name))

    def _sql(self, text: str) -> bytes:
        return sql.in_schema(text, self._part.schema).encode()


def checkout_of(
    flows: Flows, step: str = "charge", charge: Any = None, refund: Any = None, tell: Any = None
) -> Workflow:
    """The workflow; the shop, which only starts it, needs none of its functions."""

    @flows.workflow("checkout", name="order:{order_id}", key="order:{order_id}")
    def checkout(flow: Flow, order_id: int) -> None:
        flow.step(step, charge, order_id, undo=refund)
        flow.wait_for("shipped", timeout_seconds=3600.0)
        flow.step("tell", tell, order_id)

    return checkout


def main() -> None:
    """Work until told to stop."""
    part, gate = protocol.part_of(Part), threading.Event()
    heed(lambda _: gate.set())
    bus, made = events.Bus(), Checkout(part, gate)
    bus.subscribe(say_news, each_job=True)
    work(Worker(made.inbox, short_terms(part, made.inbox), bus))


if __name__ == "__main__":
    main()
