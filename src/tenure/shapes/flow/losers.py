"""What becomes of branches that lost a race: their waits are closed, signals that they did not use are kept, and their
children are cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...postgres.runner import run
from ...verbs.flows import children
from ...verbs.lifecycle import cancel
from ...verbs.steps import Step, put_back
from .core import Core
from .effects import Ask, Call, Doing, Fenced, Recall
from .lines import Branch
from .tries import DEFAULT
from .undoing import goes_before, is_of, place_of

WAIT = "wait:"
LOST = "another branch was first"
AT_ONCE_MAX = 1000  # signals received in one microsecond that keep their order
NOT_DONE = ("sleep", "first", "parallel")  # records of nothing that could be undone, with a small number as their hash
SMALL_MAX = 1000  # how many branches there are; the hash of the arguments of an author's step is a digest


def closed_waits(core: Core, losers: Sequence[Branch]) -> list[Step]:
    """The waits of theirs that are recorded and open, as they are recorded from now on; not those for children yet."""
    return [
        step._replace(
            state="cancelled", tries=max(1, step.tries), result=None, error=LOST
        )  # it had failed, if redriven
        for step in core.records.values()
        if step.state == "retrying" or (step.state == "waiting" and not step.name.startswith("group:"))
        if any(is_of(each.roots, step.path, step.n) and not _slept_out(core, each, step) for each in losers)
    ]


def _slept_out(core: Core, branch: Branch, step: Step) -> bool:
    """Whether the branch went on after this sleep, which stays recorded as waiting then: one more record would cost.

    It is not closed, for the way to all that the branch did afterwards leads past it.
    """
    if step.name != "sleep":
        return False
    return _recorded_after(core, branch, step, step.until or 0.0) or (step.over and _asked_after(core, branch, step))


def unseen(core: Core, losers: Sequence[Branch]) -> bool:
    """Whether a loser did something in an attempt before that it has not come to in this one, for it was stopped first.

    What is to be undone or cancelled of it is known when it is walked through, in the next attempt.
    """
    return any(
        any(is_of(each.roots, *place) for each in losers)
        for place, step in core.records.items()
        if place not in core.asked and not _marks(step) and not step.name.startswith((WAIT, "patch:"))
    )


def _marks(step: Step) -> bool:
    """Whether it is a record of ours, and not of an author's step that is named so."""
    return step.name in NOT_DONE and 0 <= step.args_hash <= SMALL_MAX


def orphaned(core: Core, losers: Sequence[Branch]) -> Doing:
    """Cancel the children of losers that have not ended; those that are flows undo what they did.

    After the race is recorded, and their waits are closed after it: an attempt that dies in between is followed by one
    that finds them open, and asks once more.
    """
    places = [
        (path, n)
        for path, n in sorted(core.families)
        if any(is_of(each.roots, path, n) for each in losers) and not _over(core, path, n)
    ]
    if not places:
        return
    found = {(step.path, step.n): step for step in (yield Recall(core.instance.run))}
    for path, n in places:
        sent = found.get((path, n))
        if sent is not None and sent.state == "done":  # else it was closed before they were sent
            group = int(sent.result or 0)
            ids, _ = yield Ask(children(group))
            yield Ask(cancel(ids, reason=LOST))
            core.riders.append(Step(path, n + 1, f"group:{group}", "cancelled", error=LOST))


def _over(core: Core, path: str, n: int) -> bool:
    """Whether its children were cancelled before, or it has seen their ends."""
    waits = core.records.get((path, n + 1))
    return (path, n + 2) in core.records or (waits is not None and waits.state == "cancelled")


def unused_signals(core: Core, losers: Sequence[Branch]) -> list[Step]:
    """Waits of losers that a signal came to, and after which their code has asked for nothing more."""
    came = [step for step in core.records.values() if step.name.startswith(WAIT) and step.state == "done"]
    return [
        step
        for branch in losers
        for step in came
        if is_of(branch.roots, step.path, step.n) and not _went_on(core, branch, step)
    ]


def _went_on(core: Core, branch: Branch, step: Step) -> bool:
    """Whether something of the branch follows this step, which was met when it was recorded."""
    return _recorded_after(core, branch, step, step.recorded_at) or _asked_after(core, branch, step)


def _recorded_after(core: Core, branch: Branch, step: Step, met_at: float) -> bool:
    """Whether its records say so."""
    return _follows(core, branch, step, (place for place, other in core.records.items() if other.recorded_at > met_at))


def _asked_after(core: Core, branch: Branch, step: Step) -> bool:
    """Whether it has asked for something since in this attempt."""
    since = core.met.get((step.path, step.n), len(core.asked))
    return _follows(core, branch, step, (place for place, before in core.asked.items() if before >= since))


def _follows(core: Core, branch: Branch, step: Step, places: Iterable[tuple[str, int]]) -> bool:
    here = place_of(step.path, step.n)
    return any(
        is_of(branch.roots, *place)
        and goes_before(here, place_of(*place))
        and not _runs_beside(core, (step.path, step.n), place)
        for place in places
    )


def _runs_beside(core: Core, one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether both were given as they are to one parallel or first: the higher number does not come later there."""
    lines = core.lines.get(other, {})
    return any(lines.get(fork, branch) != branch for fork, branch in core.lines.get(one, {}).items())


def _number(core: Core, step: Step) -> int:
    """Below 0, and as signals were received: by the time, and among those of one moment by their places."""
    at_once = sorted((other.path, other.n) for other in core.records.values() if other.recorded_at == step.recorded_at)
    return round(step.recorded_at * 1e6) * AT_ONCE_MAX + at_once.index((step.path, step.n)) % AT_ONCE_MAX - 2**62


def given_back(core: Core, race: Step, losers: Sequence[Branch], schema: str) -> Fenced | None:
    """Record who won, and put back the signals that its losers did not use, in one transaction; None if they used all.

    Both came before the race was decided, so one of them came to a branch that is not wanted any more.
    """
    unused = unused_signals(core, losers)
    if not unused:
        return None

    signals = [(_number(core, step), step.name.removeprefix(WAIT), step.result or "null") for step in unused]

    async def kept(tx: Any) -> Any:
        await run(tx, put_back(core.instance.id, signals), schema)
        return msgspec.json.decode(race.result or "null")

    call = Call(race.path, race.n, race.name, kept, (), {}, DEFAULT, None, fenced=True)
    return Fenced(call._replace(args_hash=race.args_hash), 1)
