"""Which ranges of ordered keys may begin in the inbox that they have moved to, by what others still have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

MOVED = "the range of its key has moved here"  # how the reason of a row that waits for its range begins
SILENT = "not answer whether rows of it are left"  # in the reason of one that waits for an inbox that is away


class Waiting(NamedTuple):
    """A range that is not at home here, or that rows here wait for."""

    range: int
    placed: int | None  # by which move it is here; None: it has left again
    rows: int
    moment: datetime


class Left(NamedTuple):
    """What another inbox still has of a range."""

    range: int
    at_work: str | None  # a key of it whose rows do not wait, or that is kept for an operator
    since: datetime | None  # rows of it wait there, too: since when
    fence: int


class Step(NamedTuple):
    """What may begin of one range: all that came before `upto`; free: nobody else has rows of it."""

    range: int
    placed: int | None
    free: bool
    upto: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """What is adopted now, above which fence, and why other ranges wait."""

    steps: list[Step] = field(default_factory=list)
    theirs: int = 0
    reasons: dict[int, str] = field(default_factory=dict)


def decide(waiting: Sequence[Waiting], left: Mapping[str, Sequence[Left]], silent: Sequence[str]) -> Decision:
    """Rows begin when those that came before them, to other inboxes, have ended. Who is silent may have some."""
    theirs = max((each.fence for found in left.values() for each in found), default=0)
    decision = Decision(theirs=theirs)
    for asked in waiting:
        others = {inbox: each for inbox, found in left.items() for each in found if each.range == asked.range}
        at_work = [inbox for inbox, each in others.items() if each.at_work is not None]
        if silent:
            decision.reasons[asked.range] = f"{MOVED}, and {_inboxes(silent)} {SILENT}"
            continue
        if at_work:
            has = f"{_inboxes(at_work, 'has', 'have')} rows of it to work off, as of key {others[at_work[0]].at_work}"
            decision.reasons[asked.range] = f"{MOVED}, and {has}"
            continue
        earlier = [(each.since, inbox) for inbox, each in others.items() if each.since is not None]
        upto = min([asked.moment, *(since for since, _ in earlier)])
        decision.steps.append(Step(asked.range, asked.placed, not earlier and asked.placed is not None, upto))
        if earlier:
            names = [inbox for _, inbox in sorted(earlier)]
            decision.reasons[asked.range] = f"{MOVED}, and rows of it wait in {_inboxes(names, '', '').strip()}, too"
    return decision


def _inboxes(names: Sequence[str], one: str = "does", many: str = "do") -> str:
    return f"inbox {names[0]} {one}" if len(names) == 1 else f"inboxes {', '.join(names)} {many}"
