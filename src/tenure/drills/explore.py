"""The lease-race explorer: set the stall, the lease and the guard, run it, and see what stops the stale write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..errors import BadSettings
from .actors.racer import Guard
from .explanation import Harm, explanation
from .stage.acts import Answer, AnyAct, Cast, Enqueue, Kill, Pause, Resume, SkipBackoff, Work
from .stage.said import Said
from .stage.scene import Event, Fact, Proof, Scene, Step, perform
from .stage.stage import Stage
from .stage.verdict import Verdict

A, B = "worker-A", "worker-B"
MARGIN_SECONDS = 0.5  # a write in time has at least so much of its lease left
BUSY_SECONDS = 60.0  # the second holder's lease: longer than the run
SECONDS_MAX = 30.0

SHOWS: dict[Harm, str] = {
    "no race": "no race",
    "stopped": "stale write stopped",
    "stolen": "stale write won",
    "duplicate": "duplicate shown",
}
# What the matrix runs with every guard, by name.
SITUATIONS: dict[str, dict[str, Any]] = {
    "short stall": {"lease_seconds": 2.0, "stall_seconds": 0.2},
    "renewed": {"lease_seconds": 0.6, "stall_seconds": 1.2, "stall": "slow", "renews": True},
    "B is busy": {"lease_seconds": 0.3, "stall_seconds": 0.4},
    "B is done": {"lease_seconds": 0.3, "stall_seconds": 0.4, "second": "done"},
    "same name, busy": {"lease_seconds": 0.3, "stall_seconds": 0.4, "taker": "same"},
    "same name, done": {"lease_seconds": 0.3, "stall_seconds": 0.4, "taker": "same", "second": "done"},
}
STALL_OVER = """
SELECT COALESCE(bool_or(claimed_at < clock_timestamp() - {seconds:.3f} * interval '1 second'), false)
FROM (SELECT claimed_at FROM tenure.live WHERE lease_generation = 1 AND claimed_at IS NOT NULL
      UNION ALL SELECT claimed_at FROM tenure.attempts WHERE lease_generation = 1) AS first_claim"""


class Explore(Struct, frozen=True, forbid_unknown_fields=True):
    """What the reader sets: who stands still for how long, and what is checked before a late write counts."""

    guard: Guard = "fence"
    lease_seconds: Annotated[float, Meta(ge=0.2, le=10)] = 1.0
    stall_seconds: Annotated[float, Meta(ge=0, le=15)] = 2.0
    stall: Literal["frozen", "slow"] = "frozen"  # the whole process stands still, or only its handler
    renews: bool = False
    taker: Literal["another", "same"] = "another"  # who takes over: another name, or a process under the same one
    second: Literal["busy", "done"] = "busy"  # what it does when the first comes back

    def __post_init__(self) -> None:
        left = round(self.lease_seconds - self.stall_seconds, 3)
        if 0 < left < MARGIN_SECONDS and not self.kept:
            raise BadSettings(
                f"stall_seconds={self.stall_seconds:g} ends less than {MARGIN_SECONDS:g} s before"
                f" lease_seconds={self.lease_seconds:g}: which comes first would be chance: set them further apart"
            )

    @property
    def kept(self) -> bool:
        """The lease is renewed during the stall: only a process that runs can do that."""
        return self.renews and self.stall == "slow"

    @property
    def raced(self) -> bool:
        """Does the lease end before the stall does?"""
        return self.stall_seconds >= self.lease_seconds and not self.kept

    def scene(self) -> Scene:
        """The run, and the result it must have."""
        harm = expected(self)
        steps = (*_first(self), *(_race(self) if self.raced else _no_race(self)))
        return Scene("explore", "The lease-race explorer", _story(self), SHOWS[harm], steps, PROOFS[harm])


def expected(explore: Explore) -> Harm:
    """The expected result of this combination, by reasoning; the run is compared with it."""
    if not explore.raced:
        return "no race"
    if explore.guard == "none":
        return "duplicate"
    if explore.second == "done" or explore.guard in ("generation", "fence"):
        return "stopped"
    if explore.guard == "downstream":
        return "duplicate"  # nothing newer has written yet, so the older fence passes, and then the newer one
    if explore.guard == "lease_time" or explore.taker == "same":
        return "stolen"  # the lease or the name that is checked belongs to the second holder
    return "stopped"


def explore(url: str, asked: Explore, tell: Callable[[Said], None]) -> tuple[Verdict, dict[str, Any]]:
    """Run it on its own stage: the verdict, and what happened in words."""
    words = dict[str, Any]()
    verdict = perform(url, asked.scene(), tell, lambda stage: words.update(explained(stage, asked)))
    return verdict, words


def explained(stage: Stage, explore: Explore) -> dict[str, Any]:
    """What the run showed, read from the ledger and the feed, never from what was expected."""
    written = stage.sql("SELECT worker, token FROM tenure.ledger ORDER BY n LIMIT 10")
    harm = seen(stage)
    return {
        "harm": harm,
        "stopped_by": explore.guard if harm == "stopped" else None,
        "explanation": explanation(explore, harm, _reason(stage)),
        "written": [{"worker": worker, "token": token} for worker, token in written],
    }


def seen(stage: Stage) -> Harm | None:
    """The result according to the ledger; None if the run did not get so far."""
    tokens = [token for (token,) in stage.sql("SELECT token FROM tenure.ledger ORDER BY token LIMIT 10")]
    reclaimed = bool(stage.reported("lease_acquired", B))
    if tokens == [1, 2]:
        return "duplicate"
    if tokens == [2]:
        return "stopped" if _blocked(stage) == [A] else None
    if tokens == [1]:
        return "no race" if not reclaimed else "stolen" if _blocked(stage) == [B] else None
    return None


# -- the steps


def _first(explore: Explore) -> tuple[Step, ...]:
    second = Cast(B, explore.guard, BUSY_SECONDS, claims_as=A if explore.taker == "same" else None)
    return (
        Step(
            f"worker-A claims the row with token 1, under a lease of {explore.lease_seconds:g} s.",
            (Cast(A, explore.guard, explore.lease_seconds, explore.renews), second, Enqueue(), Work(A)),
            (Event("execution_started", A),),
        ),
    )


def _race(explore: Explore) -> tuple[Step, ...]:
    named = " under worker-A's own name" if explore.taker == "same" else ""
    done = explore.second == "done"
    taken = Step(
        f"The lease ran out. worker-B claims the row{named}, with token 2{', and completes it' if done else ''}.",
        (SkipBackoff(), Answer(B)) if done else (SkipBackoff(),),
        (Event("worker_exit", B),) if done else (Event("execution_started", B),),
    )
    wakes = Step(
        f"{'worker-A' if done else 'While worker-B is at work, worker-A'} goes on where it stood, and writes.",
        _goes_on(explore),
        (Event("worker_exit", A),),
    )
    last = Step("worker-B ends its work, and writes.", (Answer(B),), (Event("worker_exit", B),))
    swept = Event("leases_swept", B, seconds_max=SECONDS_MAX)
    return (_stalls(explore, swept), taken, _until_over(explore), wakes) + (() if done else (last,))


def _no_race(explore: Explore) -> tuple[Step, ...]:
    return (
        _stalls(explore),
        _until_over(explore),
        Step("worker-A goes on within its lease, and writes.", _goes_on(explore), (Event("worker_exit", A),)),
        Step("Nothing is left for worker-B.", (Kill(B),)),
    )


def _stalls(explore: Explore, *expect: Event) -> Step:
    how = "is stopped in the middle of it" if explore.stall == "frozen" else "waits for a slow answer"
    acts: tuple[AnyAct, ...] = (Pause(A), Work(B)) if explore.stall == "frozen" else (Work(B),)
    return Step(f"worker-A {how}. worker-B asks for the row all the while.", acts, expect)


def _until_over(explore: Explore) -> Step:
    over = Fact("the end of the stall", STALL_OVER.format(seconds=explore.stall_seconds), SECONDS_MAX)
    return Step(f"{explore.stall_seconds:g} s after its claim, the stall ends.", (), (over,))


def _goes_on(explore: Explore) -> tuple[AnyAct, ...]:
    return (Answer(A), Resume(A)) if explore.stall == "frozen" else (Answer(A),)


def _story(explore: Explore) -> str:
    return (
        f"worker-A claims a row for {explore.lease_seconds:g} s and"
        f" {'is stopped' if explore.stall == 'frozen' else 'waits'} for {explore.stall_seconds:g} s; worker-B wants the"
        f" row. When worker-A goes on, its write counts under the guard {explore.guard!r}."
    )


# -- the proofs


def _exits(stage: Stage) -> dict[str, str]:
    return {said.who: said.fields["reason"] for said in stage.reported("worker_exit")}


def _blocked(stage: Stage) -> list[str]:
    return [said.who for said in stage.reported("stale_write_blocked")]


def _reason(stage: Stage) -> str:
    return next((str(said.fields["reason"]) for said in stage.reported("stale_write_blocked")), "")


def _wrote(tokens: str, sentence: str) -> Proof:
    query = f"SELECT COALESCE(array_agg(token ORDER BY token), '{{}}') = '{{{tokens}}}' FROM tenure.ledger"  # noqa: S608
    return Proof("who_wrote", sentence, query)


def _ended(exits: dict[str, str], sentence: str) -> Proof:
    return Proof("who_was_told_what", sentence, lambda stage: _exits(stage) == exits)


NOTHING_LEFT = Proof("no_row_left", "no row is left behind", "SELECT count(*) = 0 FROM tenure.live")
PROOFS: dict[Harm, tuple[Proof, ...]] = {
    "no race": (
        _wrote("1", "one ledger entry, with token 1"),
        _ended({A: "success"}, "worker-A was told success"),
        Proof("nobody_took_it", "worker-B never held the row", lambda stage: not stage.reported("lease_acquired", B)),
        NOTHING_LEFT,
    ),
    "stopped": (
        _wrote("2", "one ledger entry, with token 2"),
        _ended({A: "stale", B: "success"}, "worker-A was told that it is stale"),
        Proof("one_was_blocked", "one stale write was blocked", lambda stage: _blocked(stage) == [A]),
        NOTHING_LEFT,
    ),
    "stolen": (
        _wrote("1", "one ledger entry, with the stale token 1"),
        _ended({A: "success", B: "stale"}, "the stale worker was told success, the rightful one was refused"),
        NOTHING_LEFT,
    ),
    "duplicate": (
        _wrote("1,2", "two ledger entries for one order, tokens 1 and 2"),
        _ended({A: "success", B: "success"}, "both workers were told success"),
        Proof("nothing_was_blocked", "nothing was blocked", lambda stage: not _blocked(stage)),
        NOTHING_LEFT,
    ),
}
