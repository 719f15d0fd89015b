"""The late commit: an event with a lower number becomes visible after one with a higher number was read."""

from __future__ import annotations

from ..actors.scribe import Reads
from ..stage.scene import Drill, Event, Proof, Scene, Step
from ..stage.shape_acts import Scribe, Tell

A, B, C = "worker-A", "worker-B", "worker-C"
LATE, EARLY, NEXT = 9182, 9183, 9184
STORY = (
    "worker-A appends an event and takes its time to commit; worker-B appends the next one and commits at once. A"
    " reader that remembers the last number it saw misses the first for ever. The journal reads no further than the"
    " lowest open writer."
)


def late_commit() -> Drill:
    """Read below the horizon, and by the sequence alone."""
    return Drill(
        Scene("late-commit", "The late commit", STORY, "no event missed", _steps("horizon"), PROOFS),
        Scene("late-commit", "The late commit", STORY, "event missed", _steps("sequence"), HARM),
        "the horizon",
    )


def _read(positions: list[int]) -> Event:
    return Event("events_read", C, {"positions": positions})


def _steps(reads: Reads) -> tuple[Step, ...]:
    safe = reads == "horizon"
    return (
        Step(
            "worker-A appends an event, gets number 1, and does not commit yet.",
            (Scribe(A), Scribe(B), Scribe(C, reads), Tell(A, "append", LATE)),
            (Event("event_appended", A, {"position": 1}),),
        ),
        Step(
            "worker-B appends an event of another order, gets number 2, and commits.",
            (Tell(B, "append", EARLY), Tell(B, "commit")),
            (Event("event_appended", B, {"position": 2}), Event("event_committed", B)),
        ),
        Step(
            "worker-C reads: nothing yet, for number 1 is still to come."
            if safe
            else "worker-C reads what is there: number 2. It remembers that it has read up to 2.",
            (Tell(C, "read"),),
            (_read([] if safe else [2]),),
        ),
        Step(
            "worker-A commits number 1. worker-B appends number 3 and commits.",
            (Tell(A, "commit"), Tell(B, "append", NEXT), Tell(B, "commit")),
            (Event("event_committed", A), Event("event_committed", B)),
        ),
        Step(
            "worker-C reads on: 1, 2, 3. Nothing is missing."
            if safe
            else "worker-C reads on after 2: number 3. Number 1 is in the journal, and worker-C will never see it.",
            (Tell(C, "read"),),
            (_read([1, 2, 3] if safe else [3]),),
        ),
    )


ALL_THERE = "SELECT count(*) = 3 FROM tenure.journal"
PROOFS = (
    Proof("all_are_there", "three events are in the journal", ALL_THERE),
    Proof(
        "none_is_missed",
        "worker-C has read every one of them, once",
        "SELECT count(l.job_id) = 3 AND count(DISTINCT l.job_id) = 3"
        " FROM tenure.journal AS j LEFT JOIN tenure.ledger AS l ON l.job_id = j.id",
    ),
    Proof(
        "in_order",
        "in the order of their numbers",
        "SELECT COALESCE(array_agg(step ORDER BY n) = '{1,2,3}', false) FROM tenure.ledger",
    ),
)
HARM = (
    PROOFS[0],
    Proof(
        "one_is_missed",
        "worker-C has read 2 and 3, and not 1",
        "SELECT COALESCE(array_agg(step ORDER BY n) = '{2,3}', false) FROM tenure.ledger",
    ),
    Proof(
        "it_is_committed",
        "order 9182 is in the journal all the same",
        "SELECT count(*) = 1 FROM tenure.journal WHERE stream = 'order:9182'",
    ),
)
