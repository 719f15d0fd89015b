"""The lease race: a worker is stopped past its lease, another takes over, the first comes back and must not write."""

from __future__ import annotations

from collections.abc import Callable

from .. import questions, verbs
from ..model import Enqueued, NewRow
from .actor import DrillFailed
from .stage import Said, Stage
from .verdict import Check, Verdict

NAME = "lease-race"
EXPIRY_SECONDS_MAX = 10.0
RECEIPT = NewRow("send_receipt", {"order_id": 9182}, key="order:9182", idempotency_key="receipt-9182")

# No key at all: a duplicate must be able to show.
LEDGER = """
CREATE TABLE tenure.ledger (
  job_id     uuid        NOT NULL,
  worker     text        NOT NULL,
  token      bigint      NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""


def lease_race(url: str, tell: Callable[[Said], None], *, lease_seconds: float = 1.0, fenced: bool = True) -> Verdict:
    """Play it once; without the fence it is the control, which holds when the duplicate really happens."""
    checks: tuple[Check, ...] = ()
    trouble = None
    stage = Stage(url, tell)
    try:
        with stage:
            row = _play(stage, lease_seconds, fenced)
            checks = _checks(stage, row) if fenced else _control_checks(stage)
    except DrillFailed as failed:
        trouble = str(failed)
    return Verdict(NAME, "one effect" if fenced else "duplicate shown", checks, stage.seconds, trouble)


def _play(stage: Stage, lease_seconds: float, fenced: bool) -> Enqueued:
    a = stage.cast("worker-A", lease_seconds=lease_seconds, fenced=fenced)
    b = stage.cast("worker-B", fenced=fenced)
    stage.build(LEDGER)
    row = stage.run(verbs.enqueue(RECEIPT))
    stage.say("producer", "enqueued", key=RECEIPT.key, job_id=str(row.id))

    a.tell("work")
    stage.expect(a, "execution_started")
    a.pause()
    stage.say("drill", "worker_paused", worker=a.name, signal="SIGSTOP", pid=a.pid, lease_seconds=lease_seconds)
    a.tell("answer")  # what its handler waits for arrives while it stands still

    _wait_for_expiry(stage, lease_seconds)
    b.tell("work")
    stage.expect(b, "leases_swept")
    _skip_backoff(stage, row)
    b.tell("answer")
    stage.expect(b, "worker_exit")

    stage.say("drill", "worker_resumed", worker=a.name, signal="SIGCONT", pid=a.pid)
    a.resume()
    stage.expect(a, "worker_exit")
    return row


def _wait_for_expiry(stage: Stage, lease_seconds: float) -> None:
    """The database says when a lease is over; nobody here counts seconds."""
    seconds = lease_seconds + EXPIRY_SECONDS_MAX
    (stuck, *_) = stage.until(lambda: stage.run(questions.stuck(1)), "the end of worker-A's lease", seconds)
    stage.say("drill", "lease_expired", worker=stuck.claimed_by)


def _skip_backoff(stage: Stage, row: Enqueued) -> None:
    """A swept row waits two seconds or more before its next attempt: right for production, idle time in a race."""
    ((seconds,),) = stage.sql(
        "UPDATE tenure.live AS i SET available_at = clock_timestamp() FROM tenure.live AS was"
        " WHERE i.id = %s AND was.id = i.id AND i.status = 'pending'"
        " RETURNING extract(epoch FROM was.available_at - clock_timestamp())::float8",
        row.id,
    )
    stage.say("drill", "backoff_skipped", seconds=round(seconds, 1))


def _ledger(stage: Stage) -> list[tuple[str, int]]:
    return [(worker, token) for worker, token in stage.sql("SELECT worker, token FROM tenure.ledger ORDER BY token")]


def _exits(stage: Stage) -> dict[str, str]:
    return {said.who: said.fields["reason"] for said in stage.reported("worker_exit")}


def _checks(stage: Stage, row: Enqueued) -> tuple[Check, ...]:
    ledger, exits, stands = _ledger(stage), _exits(stage), stage.run(questions.row(row.id))
    blocked = [said.fields["reason"] for said in stage.reported("stale_write_blocked")]
    wrote = [worker for worker, _ in ledger]
    return (
        Check("one_ledger_entry", "one ledger entry", len(ledger) == 1),
        Check("token_is_2", "its token is 2, so a reclaim really happened", [token for _, token in ledger] == [2]),
        Check("row_is_completed", "row is completed", stands is not None and stands.status == "completed"),
        Check(
            "worker_a_wrote_nothing",
            "worker-A exited stale, wrote nothing",
            exits.get("worker-A") == "stale" and "worker-A" not in wrote,
        ),
        Check("one_stale_write_blocked", "one stale write was blocked", blocked == ["token_mismatch"]),
    )


def _control_checks(stage: Stage) -> tuple[Check, ...]:
    ledger, exits = _ledger(stage), _exits(stage)
    return (
        Check("two_ledger_entries", "two ledger entries for one order", len(ledger) == 2),
        Check("both_tokens_wrote", "tokens 1 and 2 both wrote", [token for _, token in ledger] == [1, 2]),
        Check(
            "both_report_success",
            "both workers report success",
            exits == {"worker-A": "success", "worker-B": "success"},
        ),
        Check("nothing_was_blocked", "nothing was blocked", not stage.reported("stale_write_blocked")),
    )
