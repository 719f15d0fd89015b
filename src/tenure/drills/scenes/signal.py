"""The signal: a parcel is scanned before its checkout waits for that."""

from __future__ import annotations

from ..stage.acts import Answer
from ..stage.flow_acts import Checkout, Clerk, Scan
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step

A = "worker-A"
STORY = (
    "A checkout charges the card and then waits for the signal that the parcel is on its way. The scanner is faster: it"
    " signals while the card is still being charged. The signal is kept until the checkout asks for it."
)


def signal() -> Drill:
    """With signals that are kept, and without."""
    return Drill(
        Scene("signal", "The early signal", STORY, "signal not lost", _steps(kept=True), PROOFS),
        Scene("signal", "The early signal", STORY, "signal lost", _steps(kept=False), HARM),
        "the queue of signals",
    )


def _steps(*, kept: bool) -> tuple[Step, ...]:
    return (
        Step(
            "The shop takes order 9182 and starts its checkout.",
            (Checkout(),),
            (Event("enqueued", "shop"),),
        ),
        Step(
            "worker-A charges the card; the bank takes its time.",
            (Clerk(A, held=True),),
            (Event("card_charged", A),),
        ),
        Step(
            "The parcel is scanned. Nobody waits for that yet: the signal is kept."
            if kept
            else "The parcel is scanned. Nobody waits for that yet, and only those hear it who listen.",
            (Scan(kept=kept),),
            (Event("parcel_scanned", "shop", {"signal": "queued" if kept else "not kept"}),),
        ),
        Step(
            "The bank answers. The checkout asks for the signal, has it at once, and tells the customer."
            if kept
            else "The bank answers. The checkout goes to sleep until it hears of the parcel, for an hour at most.",
            (Answer(A),),
            (Event("mail_sent", A), Event("job_completed", A))
            if kept
            else (Fact("the checkout waits for the signal", WAITS),),
        ),
    )


WAITS = "SELECT count(*) = 1 FROM tenure.steps WHERE name = 'wait:shipped' AND state = 'waiting'"
CHARGED = Proof("charged_once", "the card was charged once", "SELECT count(*) = 1 FROM tenure.ledger")
PROOFS = (
    CHARGED,
    Proof("the_customer_knows", "the customer was told, once", "SELECT count(*) = 1 FROM tenure.mailbox"),
    Proof(
        "is_completed",
        "the checkout is completed",
        "SELECT count(*) = 1 FROM tenure.inbox WHERE kind = 'checkout' AND status = 'completed'",
    ),
    Proof("none_is_left", "the signal was used up", "SELECT count(*) = 0 FROM tenure.signals"),
)
HARM = (
    CHARGED,
    Proof("nobody_was_told", "the customer was not told", "SELECT count(*) = 0 FROM tenure.mailbox"),
    Proof("it_sleeps", "the checkout sleeps, though its parcel is on its way", WAITS),
)
