"""The relay: a worker is killed after the broker took its event and before the row was completed."""

from __future__ import annotations

from ..stage.acts import Kill, SkipBackoff
from ..stage.broker import missing_broker
from ..stage.scene import Drill, Event, Proof, Scene, Step
from ..stage.shape_acts import Broker, Consume, Publish, Relay

A, B = "worker-A", "worker-B"
STORY = (
    "The shop publishes an event in the order's transaction. worker-A sends it to NATS JetStream and is killed before"
    " it can say so. worker-B cannot know, and sends it again. It carries the row's id, so the broker keeps one."
)


def relay() -> Drill:
    """With the id of the event, and without."""
    return Drill(
        Scene("relay", "Killed after send", STORY, "one event", _steps(event_id=True), PROOFS),
        Scene("relay", "Killed after send", STORY, "second event shown", _steps(event_id=False), HARM),
        "the id of the event",
        missing_broker(),
    )


def _steps(*, event_id: bool) -> tuple[Step, ...]:
    again = "the broker knows its id and drops it." if event_id else "without an id, so the broker keeps it, too."
    answer = "duplicate" if event_id else "sent"
    return (
        Step(
            "The shop takes an order and publishes order.paid in the same transaction.",
            (Broker(), Publish()),
            (Event("event_published", "shop"),),
        ),
        Step(
            "worker-A sends it. The broker has it and confirms.",
            (Relay(A, held=True, event_id=event_id),),
            (Event("event_sent", A, {"answer": "sent"}),),
        ),
        Step(
            "worker-A is killed (SIGKILL) before it can complete the row. worker-B starts.",
            (Kill(A), Relay(B, event_id=event_id)),
            (Event("worker_started", B),),
        ),
        Step("The grace period ends, and worker-B sweeps the lease.", (), (Event("leases_swept", B),)),
        Step(
            f"worker-B sends it again: {again}",
            (SkipBackoff(),),
            (Event("event_sent", B, {"answer": answer}), Event("job_completed", B)),
        ),
        Step("A consumer reads the stream and sends an e-mail for every event.", (Consume(),), (Event("stream_read"),)),
    )


SENT_TWICE = Proof("sent_twice", "it was sent twice", lambda stage: len(stage.reported("event_sent")) == 2)
COMPLETED = Proof(
    "row_is_completed",
    "its row is completed, by worker-B with token 2",
    "SELECT COALESCE(bool_and(status = 'completed' AND lease_generation = 2), false) FROM tenure.inbox",
)
PROOFS = (
    Proof("one_event", "one event in the stream, one e-mail", "SELECT count(*) = 1 FROM tenure.mailbox"),
    SENT_TWICE,
    COMPLETED,
)
HARM = (
    Proof("two_events", "two events in the stream, two e-mails", "SELECT count(*) = 2 FROM tenure.mailbox"),
    SENT_TWICE,
    COMPLETED,
)
