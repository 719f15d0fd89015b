"""The rolling deploy: workers are drained and replaced one by one while orders keep coming, at no cost."""

from __future__ import annotations

from ..stage.acts import Answer, Drain, Kill, Orders, SkipBackoff, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step
from ..stage.stage import Stage

A, B, C, D = "worker-A", "worker-B", "worker-C", "worker-D"
STORY = (
    "A new version is rolled out: two workers, one after the other, are asked to leave (SIGTERM) in mid-work, and"
    " others take their place. They finish what they hold and claim no more: no row is lost, or done or tried twice."
)
PROPS = Props(lease_seconds=60.0, handler_seconds=0.1, slots=2, drain_seconds=45.0)  # however slowly it is read


def drain() -> Drill:
    """Asked to leave, and, as the control, killed."""
    return Drill(
        Scene("drain", "The rolling deploy", STORY, "no attempt spent", STEPS, PROOFS, PROPS, crowd=True),
        Scene("drain", "The rolling deploy", STORY, "attempts spent", KILLED, HARM, PROPS, crowd=True),
        "the drain",
    )


def _gone(worker: str, exit_code: int) -> Event:
    return Event("worker_gone", "drill", {"worker": worker, "exit_code": exit_code})


BEGIN = Step(
    "Twenty orders. worker-A and worker-B hold two rows each and are in the middle of them.",
    (Orders(20), Start(A, gated=True), Start(B, gated=True)),
    (
        Event("mail_sent", A),
        Event("mail_sent", B),
        Fact("four rows are held", "SELECT count(*) = 4 FROM tenure.live WHERE status = 'processing'"),
    ),
)
ALL_DONE = Fact("30 receipts in the ledger", "SELECT count(*) = 30 FROM tenure.ledger")
STEPS = (
    BEGIN,
    Step(
        "worker-A is asked to leave, worker-C takes its place, five orders come.",
        (Drain(A), Start(C), Orders(5)),
        (Event("worker_draining", A, {"held": 2}), Event("worker_started", C)),
    ),
    Step(
        "worker-A finishes the two rows it holds, claims no more, and leaves.",
        (Answer(A),),
        (Event("worker_exit", A, {"reason": "drained"}), _gone(A, 0)),
    ),
    Step(
        "Now worker-B: asked to leave, replaced by worker-D, five orders come.",
        (Drain(B), Start(D), Orders(5)),
        (Event("worker_draining", B, {"held": 2}), Event("worker_started", D)),
    ),
    Step(
        "It finishes and leaves, and the new ones do the rest.",
        (Answer(B),),
        (Event("worker_exit", B, {"reason": "drained"}), _gone(B, 0), ALL_DONE),
    ),
)
KILLED = (
    BEGIN,
    Step(
        "worker-A is killed instead, worker-C takes its place, five orders come.",
        (Kill(A), Start(C), Orders(5)),
        (_gone(A, -9), Event("worker_started", C)),
    ),
    Step(
        "Now worker-B: killed, replaced by worker-D, five orders come.",
        (Kill(B), Start(D), Orders(5)),
        (_gone(B, -9), Event("worker_started", D)),
    ),
    Step(
        "The rows that the two held wait for the end of the grace period, and have used up an attempt.",
        (),
        (Fact("four attempts are lost", "SELECT count(*) = 4 FROM tenure.attempts WHERE outcome = 'expired'"),),
    ),
    Step("The new ones do it again.", (SkipBackoff(),), (ALL_DONE,)),
)


def _left_in_good_order(stage: Stage) -> bool:
    reasons = {said.who: said.fields["reason"] for said in stage.reported("worker_exit")}
    codes = {said.fields["worker"]: said.fields["exit_code"] for said in stage.reported("worker_gone")}
    return reasons == {A: "drained", B: "drained"} and codes == {A: 0, B: 0}


def _finished_what_they_held(stage: Stage) -> bool:
    done = dict(stage.sql("SELECT worker, count(*) FROM tenure.ledger GROUP BY worker"))
    return done.get(A) == done.get(B) == 2 and not stage.reported("job_released")


EVERY_ORDER = Proof(
    "every_order_once",
    "30 orders, one ledger entry each",
    "SELECT count(*) = 30 AND count(DISTINCT order_id) = 30 FROM tenure.ledger",
)
PROOFS = (
    EVERY_ORDER,
    Proof("no_attempt_spent", "no row needed a second attempt", "SELECT max(attempts) = 1 FROM tenure.inbox"),
    Proof("no_row_left", "no row is left behind", "SELECT count(*) = 30 FROM tenure.inbox WHERE status = 'completed'"),
    Proof("finished_what_they_held", "both finished the two rows they held", _finished_what_they_held),
    Proof("left_in_good_order", "both left drained, with exit code 0", _left_in_good_order),
)
HARM = (
    Proof(
        "attempts_spent",
        "four rows needed a second attempt",
        "SELECT count(*) = 4 FROM tenure.inbox WHERE attempts > 1",
    ),
    EVERY_ORDER,
)
