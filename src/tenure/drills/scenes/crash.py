"""Crash and dedupe: a worker is killed between its e-mail and its ledger entry, and another finishes the row."""

from __future__ import annotations

from ..stage.acts import Enqueue, Kill, SkipBackoff, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Proof, Scene, Step

A, B = "worker-A", "worker-B"
LEASE_SECONDS = 30.0  # long, so that it cannot be the reason of the take-over
STORY = (
    "worker-A sends the e-mail and is killed before it writes the ledger. worker-B takes over. The ledger is inside the"
    " fence and cannot be written twice; the e-mail is outside, and only its idempotency key keeps it from going twice."
)


def crash() -> Drill:
    """The e-mail with its key, and without."""
    return Drill(
        _scene(PROOFS, "one e-mail", dedupe=True),
        _scene(HARM, "second e-mail shown", dedupe=False),
        "the key of the e-mail",
    )


def _scene(proofs: tuple[Proof, ...], shows: str, *, dedupe: bool) -> Scene:
    props = Props(lease_seconds=LEASE_SECONDS, handler_seconds=0.2, dedupe=dedupe)
    settable = ("handler_seconds",)
    return Scene("crash", "Crash and dedupe", STORY, shows, _steps(dedupe), proofs, props, settable=settable)


def _steps(dedupe: bool) -> tuple[Step, ...]:
    mail = "The e-mail's key says: sent already." if dedupe else "The e-mail has no key, so it goes again."
    return (
        Step(
            "The shop takes an order. worker-A claims its receipt and sends the e-mail.",
            (Enqueue(), Start(A, gated=True)),
            (Event("mail_sent", A),),
        ),
        Step("worker-B starts too.", (Start(B),), (Event("worker_started", B),)),
        Step(
            "worker-A is killed (SIGKILL) before it writes the ledger. It cannot clean up.",
            (Kill(A),),
            (Event("worker_seen", B, {"seen": "gone"}),),
        ),
        Step(
            "Its session is away for the grace period of a second: worker-B ends a lease that had half a minute left.",
            (),
            (Event("leases_swept", B, {"reason": "worker_gone"}),),
        ),
        Step(
            f"worker-B claims the row with token 2. {mail}",
            (SkipBackoff(),),
            (
                Event("lease_acquired", B, {"token": 2}),
                Event("mail_already_sent" if dedupe else "mail_sent", B, {"token": 2}),
                Event("job_completed", B, {"token": 2}),
            ),
        ),
    )


ONE_ENTRY = Proof("one_ledger_entry", "one ledger entry", "SELECT count(*) = 1 FROM tenure.ledger")
BY_B = Proof(
    "written_by_worker_b",
    "written by worker-B, with token 2",
    "SELECT COALESCE(bool_and(worker = 'worker-B' AND token = 2), false) FROM tenure.ledger",
)
PROOFS = (
    Proof(
        "one_mail",
        "one e-mail, sent by worker-A",
        "SELECT COALESCE(array_agg(worker) = '{worker-A}', false) FROM tenure.mailbox",
    ),
    ONE_ENTRY,
    BY_B,
    Proof("row_is_completed", "row is completed", "SELECT count(*) = 1 FROM tenure.inbox WHERE status = 'completed'"),
)
HARM = (
    Proof("two_mails", "two e-mails for one order", "SELECT count(*) = 2 FROM tenure.mailbox"),
    Proof("one_ledger_entry", "one ledger entry: the fence guards Postgres, not the mailbox", ONE_ENTRY.holds),
    BY_B,
)
