"""The lease race: a worker is stopped past its lease, another takes over, the first comes back and must not write."""

from __future__ import annotations

from ..actors.racer import Guard
from ..stage.acts import Answer, Cast, Enqueue, Pause, Resume, SkipBackoff, Work
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step
from ..stage.stage import Stage

A, B = "worker-A", "worker-B"
LEASE_SECONDS = 1.0
LEASE_END_SECONDS_MAX = 70.0
EXPIRED = "SELECT count(*) > 0 FROM tenure.live WHERE status = 'processing' AND lease_expires_at < clock_timestamp()"
STORY = (
    "worker-A claims a row and is stopped (SIGSTOP) in the middle of it. Its lease runs out, worker-B claims the row"
    " with token 2 and completes it. Then worker-A goes on: its write must be refused."
)


def lease_race() -> Drill:
    """The race with the fence, and without."""
    return Drill(
        _scene("one effect", _steps("fence"), PROOFS), _scene("duplicate shown", _steps("none"), HARM), "the fence"
    )


def _scene(shows: str, steps: tuple[Step, ...], proofs: tuple[Proof, ...]) -> Scene:
    props = Props(lease_seconds=LEASE_SECONDS)
    return Scene("lease-race", "The stale worker", STORY, shows, steps, proofs, props, settable=("lease_seconds",))


def _steps(guard: Guard) -> tuple[Step, ...]:
    last = Event("stale_write_blocked" if guard == "fence" else "ledger_written", A)
    return (
        Step(
            "The shop takes an order. worker-A claims its receipt under a lease, with token 1.",
            (Cast(A, guard), Cast(B, guard, 60.0), Enqueue(), Work(A)),
            (Event("execution_started", A),),
        ),
        Step(
            "worker-A is stopped in the middle of it, as a long pause of a virtual machine would stop it.",
            (Pause(A), Answer(A)),
            (Fact("the end of worker-A's lease", EXPIRED, LEASE_END_SECONDS_MAX),),
        ),
        Step(
            "Its lease ran out on the database's clock. worker-B sweeps, and the row is free again.",
            (Work(B),),
            (Event("leases_swept", B),),
        ),
        Step(
            "worker-B claims the row with token 2 and completes it.",
            (SkipBackoff(), Answer(B)),
            (Event("worker_exit", B),),
        ),
        Step(
            "worker-A goes on where it stood and tries to write, with token 1.",
            (Resume(A),),
            (last, Event("worker_exit", A)),
        ),
    )


def _exits(stage: Stage) -> dict[str, str]:
    return {said.who: said.fields["reason"] for said in stage.reported("worker_exit")}


def _blocked(stage: Stage) -> list[str]:
    return [said.fields["reason"] for said in stage.reported("stale_write_blocked")]


PROOFS = (
    Proof("one_ledger_entry", "one ledger entry", "SELECT count(*) = 1 FROM tenure.ledger"),
    Proof(
        "token_is_2",
        "its token is 2, so a reclaim really happened",
        "SELECT COALESCE(array_agg(token), '{}') = '{2}' FROM tenure.ledger",
    ),
    Proof("row_is_completed", "row is completed", "SELECT count(*) = 1 FROM tenure.inbox WHERE status = 'completed'"),
    Proof(
        "worker_a_wrote_nothing",
        "worker-A exited stale, wrote nothing",
        lambda stage: _exits(stage).get(A) == "stale" and not stage.reported("ledger_written", A),
    ),
    Proof(
        "one_stale_write_blocked",
        "one stale write was blocked",
        lambda stage: _blocked(stage) == ["token_mismatch"],
    ),
)
HARM = (
    Proof("two_ledger_entries", "two ledger entries for one order", "SELECT count(*) = 2 FROM tenure.ledger"),
    Proof(
        "both_tokens_wrote",
        "tokens 1 and 2 both wrote",
        "SELECT array_agg(token ORDER BY token) = '{1,2}' FROM tenure.ledger",
    ),
    Proof(
        "both_report_success",
        "both workers report success",
        lambda stage: _exits(stage) == {A: "success", B: "success"},
    ),
    Proof("nothing_was_blocked", "nothing was blocked", lambda stage: not _blocked(stage)),
)
