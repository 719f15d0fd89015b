"""The rollback: an order that was never taken has no receipt, because its row was in the same transaction."""

from __future__ import annotations

from ..stage.acts import ORDER, Enqueue, Rollback, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Proof, Scene, Step

A = "worker-A"
NEXT = ORDER + 1
STORY = (
    "The shop takes an order, enqueues its receipt, and rolls back. Both were in one transaction, so neither is there:"
    " what to look at is what does not come. Enqueued elsewhere, as to a broker, the row would have stayed."
)


def rollback() -> Drill:
    """The row in the order's transaction, and outside it."""
    return Drill(
        _scene(PROOFS, "nothing came", together=True),
        _scene(HARM, "receipt for no order", together=False),
        "the common transaction",
    )


def _scene(proofs: tuple[Proof, ...], shows: str, *, together: bool) -> Scene:
    props, settable = Props(handler_seconds=0.1), ("handler_seconds",)
    return Scene("rollback", "The rollback", STORY, shows, _steps(together), proofs, props, settable=settable)


def _steps(together: bool) -> tuple[Step, ...]:
    rolled_back = (
        "The shop takes order 9182, enqueues its receipt, changes its mind and rolls back."
        if together
        else "The shop takes order 9182 and rolls back; its receipt was enqueued in a transaction of its own."
    )
    came = () if together else (Event("mail_sent", A, {"order": ORDER}), Event("ledger_written", A, {"order": ORDER}))
    return (
        Step("A worker waits for rows.", (Start(A),), (Event("worker_started", A),)),
        Step(rolled_back, (Rollback(together=together),), (Event("order_rolled_back", "shop"), *came)),
        Step(
            "Then order 9183 comes and is kept.",
            (Enqueue(NEXT),),
            (Event("ledger_written", A, {"order": NEXT}), Event("job_completed", A)),
        ),
    )


NO_ORDER = Proof("no_order", "there is no order 9182", "SELECT count(*) = 0 FROM tenure.orders WHERE id = 9182")
PROOFS = (
    NO_ORDER,
    Proof(
        "no_row",
        "no row of it in the inbox",
        "SELECT count(*) = 0 FROM tenure.inbox WHERE partition_key = 'order:9182'",
    ),
    Proof("no_mail", "no e-mail about it", "SELECT count(*) = 0 FROM tenure.mailbox WHERE order_id = 9182"),
    Proof(
        "the_next_one_came",
        "order 9183 has its receipt",
        "SELECT array_agg(order_id) = '{9183}' FROM tenure.ledger",
    ),
)
HARM = (
    NO_ORDER,
    Proof(
        "a_mail_all_the_same",
        "an e-mail about it all the same",
        "SELECT count(*) = 1 FROM tenure.mailbox WHERE order_id = 9182",
    ),
    Proof("a_ledger_entry", "and a ledger entry", "SELECT count(*) = 1 FROM tenure.ledger WHERE order_id = 9182"),
)
