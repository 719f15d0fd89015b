"""The saga: a worker is killed after it has charged a card, and the order is cancelled before anybody knows."""

from __future__ import annotations

from ..actors.clerk import Lacks
from ..stage.acts import Kill, SkipBackoff
from ..stage.flow_acts import Checkout, Clerk, Regret
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step

A, B = "worker-A", "worker-B"
STORY = (
    "A checkout charges a card (step 1 of the ledger) and can undo it (step 2). worker-A is killed when the bank has"
    " the charge and before its answer is recorded. Then the customer cancels. That the charge had begun was recorded"
    " before it was made, so worker-B gives the money back."
)


def saga() -> Drill:
    """With the record that the step has begun, and without."""
    return Drill(
        Scene("saga", "The charge undone", STORY, "charge undone", _steps(""), PROOFS),
        Scene("saga", "The charge undone", STORY, "charge stays", _steps("begun"), HARM),
        "the record that a step has begun",
    )


def _steps(lacks: Lacks) -> tuple[Step, ...]:
    end = Fact("the checkout is cancelled", CANCELLED)
    return (
        Step(
            "The shop takes order 9182 and starts its checkout in the same transaction.",
            (Checkout(),),
            (Event("enqueued", "shop"),),
        ),
        Step(
            "worker-A charges the card. The bank has it, and the answer is on its way.",
            (Clerk(A, held=True, lacks=lacks),),
            (Event("card_charged", A),),
        ),
        Step(
            "worker-A is killed (SIGKILL) before it can record the charge. The customer cancels the order.",
            (Kill(A), Regret()),
            (Event("order_cancelled", "shop", {"cancel": "asked"}),),
        ),
        Step(
            "worker-B starts, and sweeps the lease when the grace period ends.",
            (Clerk(B, lacks=lacks),),
            (Event("leases_swept", B),),
        ),
        Step(
            "worker-B reads that the charge had begun: it may have been made, so it is refunded."
            if not lacks
            else "worker-B finds no charge on record, so there is nothing to undo.",
            (SkipBackoff(),),
            (Event("card_refunded", B, {"charge": "in doubt"}), end) if not lacks else (end,),
        ),
    )


CANCELLED = "SELECT count(*) = 1 FROM tenure.inbox WHERE kind = 'checkout' AND status = 'cancelled'"
CHARGED = "SELECT count(*) = 1 FROM tenure.ledger WHERE step = 1"
PROOFS = (
    Proof("charged_once", "the card was charged once", CHARGED),
    Proof("refunded", "the charge was refunded once", "SELECT count(*) = 1 FROM tenure.ledger WHERE step = 2"),
    Proof("nets_to_nothing", "charges and refunds are equal", "SELECT sum(3 - 2 * step) = 0 FROM tenure.ledger"),
    Proof("is_cancelled", "the checkout ended as cancelled", CANCELLED),
)
HARM = (
    PROOFS[0],
    Proof("the_charge_stays", "and never refunded", "SELECT count(*) = 0 FROM tenure.ledger WHERE step = 2"),
    PROOFS[3],
)
