"""The deploy: a step of a workflow is renamed while an instance waits in the middle of it."""

from __future__ import annotations

from ..stage.acts import Drain, SkipBackoff
from ..stage.flow_acts import Checkout, Clerk, Scan
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step

A, B, C = "worker-A", "worker-B", "worker-C"
STORY = (
    "A checkout has charged the card and waits for its parcel. Meanwhile new code is deployed, in which that step has"
    " another name. A step is known by its place and checked by its name, so the change is caught before anything runs"
    " again, and the right code goes on where the old one stopped."
)


def deploy() -> Drill:
    """With steps known by their place, and by their name alone."""
    return Drill(
        Scene("deploy", "The changed definition", STORY, "change caught", (*BEFORE, *AFTER), PROOFS),
        Scene("deploy", "The changed definition", STORY, "second charge shown", (*BEFORE, *TWICE), HARM),
        "the place of a step",
    )


WAITS = Fact(
    "the checkout waits for its parcel",
    "SELECT count(*) = 1 FROM tenure.live AS i JOIN tenure.steps AS s ON s.row_id = i.id"
    " WHERE i.status = 'pending' AND s.name = 'wait:shipped' AND s.state = 'waiting'",
)
BEFORE = (
    Step(
        "The shop starts a checkout. worker-A charges the card; then the checkout sleeps until the parcel is scanned.",
        (Checkout(), Clerk(A)),
        (Event("card_charged", A), WAITS),
    ),
)


def _deployed(lacks: str) -> Step:
    return Step(
        "worker-A drains. worker-B comes with new code: somebody has renamed the step `charge` to `debit`.",
        (Drain(A), Clerk(B, charge="debit", lacks="place" if lacks else "")),
        (Event("worker_gone", "drill", {"worker": A}), Event("worker_started", B)),
    )


AFTER = (
    _deployed(""),
    Step(
        "The parcel is scanned. worker-B finds `charge` recorded where its code asks for `debit`: nothing runs.",
        (Scan(),),
        (Event("parcel_scanned", "shop"), Event("job_released", B)),
    ),
    Step(
        "The right code is deployed: worker-B drains, worker-C comes.",
        (Drain(B), Clerk(C)),
        (Event("worker_gone", "drill", {"worker": B}), Event("worker_started", C)),
    ),
    Step(
        "The row comes back by itself. worker-C goes on after the wait and tells the customer.",
        (SkipBackoff(),),
        (Event("mail_sent", C), Event("job_completed", C)),
    ),
)
TWICE = (
    _deployed("place"),
    Step(
        "The parcel is scanned. worker-B finds no record called `debit`, so it charges the card again.",
        (Scan(),),
        (Event("card_charged", B), Event("mail_sent", B), Event("job_completed", B)),
    ),
)

COMPLETED = Proof(
    "is_completed",
    "the checkout is completed",
    "SELECT count(*) = 1 FROM tenure.inbox WHERE kind = 'checkout' AND status = 'completed'",
)
PROOFS = (
    Proof("charged_once", "the card was charged once", "SELECT count(*) = 1 FROM tenure.ledger"),
    Proof(
        "caught_at_its_step",
        "worker-B named the step that differs",
        lambda stage: any("definition differs" in said.fields["error"] for said in stage.reported("job_released", B)),
    ),
    Proof("at_no_cost", "no attempt was spent on it", "SELECT bool_and(attempts <= 1) FROM tenure.inbox"),
    COMPLETED,
)
HARM = (
    Proof("charged_twice", "the card was charged twice", "SELECT count(*) = 2 FROM tenure.ledger WHERE step = 1"),
    COMPLETED,
)
