"""One worker, one receipt: the happy path, from the order's own transaction to the fenced write."""

from __future__ import annotations

from ..stage.acts import Enqueue, Start
from ..stage.scene import Drill, Event, Proof, Scene, Step

A = "worker-A"


def receipt() -> Drill:
    """Nothing goes wrong here: it is what the other scenes are compared with."""
    return Drill(
        Scene(
            "receipt",
            "One worker, one receipt",
            "The shop takes an order and enqueues its receipt in the same transaction. A worker claims it, sends the"
            " e-mail, writes the ledger, and completes the row in the transaction of that write.",
            "one receipt",
            STEPS,
            PROOFS,
            settable=("handler_seconds",),
        )
    )


STEPS = (
    Step(
        "The shop takes order 9182. The order and its row in the inbox commit together.",
        (Enqueue(),),
        (Event("enqueued", "shop"),),
    ),
    Step("A worker starts: a real process, with a lease of three seconds.", (Start(A),), (Event("worker_started", A),)),
    Step("It claims the row. The lease and token 1 prove that it may write.", (), (Event("lease_acquired", A),)),
    Step("The handler sends the e-mail and takes its time.", (), (Event("mail_sent", A),)),
    Step(
        "The ledger entry and the completion of the row commit in one transaction.",
        (),
        (Event("ledger_written", A), Event("job_completed", A)),
    ),
)
PROOFS = (
    Proof("one_ledger_entry", "one ledger entry", "SELECT count(*) = 1 FROM tenure.ledger"),
    Proof("one_mail", "one e-mail", "SELECT count(*) = 1 FROM tenure.mailbox"),
    Proof("token_is_1", "written with token 1", "SELECT bool_and(token = 1) FROM tenure.ledger"),
    Proof("row_is_completed", "row is completed", "SELECT count(*) = 1 FROM tenure.inbox WHERE status = 'completed'"),
)
