"""Worlds to try the claims in: what lies in the tables, who works there, and what happens, as values that shrink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from tenure.model.outcome import Completed, DeadLetter, Outcome, Release, Retry, Snooze
from tenure.model.rows import BUCKETS

HOUR = 3600.0
OUTCOMES: dict[str, Outcome] = {
    "complete": Completed(),
    "retry": Retry("again", after_seconds=0.0),
    "retry later": Retry("again", after_seconds=0.7),
    "snooze": Snooze(0.7),
    "release": Release(),
    "dead letter": DeadLetter("poison"),
}
Limits = Literal["none", "running", "per key", "rate", "all"]
LIMITS: dict[str, dict[str, Any]] = {
    "none": {"clear": True},
    "running": {"max_running": 2, "clear": True},
    "per key": {"max_per_key": 1, "clear": True},
    "rate": {"rate_per_second": 1.0, "burst": 2, "clear": True},
    "all": {"max_running": 2, "max_per_key": 1, "rate_per_second": 1.0, "burst": 2},
}
SHARES: dict[str, list[tuple[int, ...] | None]] = {
    "whole": [None],
    "halves": [tuple(range(0, BUCKETS, 2)), tuple(range(1, BUCKETS, 2))],
    "few": [tuple(range(24)), tuple(range(24, BUCKETS))],
    "nothing": [()],
}


@dataclass(frozen=True)
class Member:
    """A worker of the fleet."""

    queues: tuple[str, ...] = ("a",)
    slots: int = 2
    hears: bool = True


@dataclass(frozen=True)
class Setting:
    """What is there before anything happens."""

    members: tuple[Member, ...] = (Member(),)
    share: str = "whole"
    foreign: int = 0  # queues that nobody here serves, with a row for later in each
    snapshot: bool = False  # somebody holds a snapshot: every dead version stays
    limit: str = "none"  # of queue a
    seed: int = 0


@dataclass(frozen=True)
class Send:
    """Rows of one statement: `rows` for each of `keys` keys of one bucket from `first` on, or without keys."""

    queue: str = "a"
    bucket: int = 0
    first: int = 0
    keys: int = 0
    rows: int = 1
    ordered: bool = False
    hold: bool = False
    priority: int = 0
    delay: float = 0.0
    note: bool = True


@dataclass(frozen=True)
class End:
    """A handler returns; without a pick, all of them."""

    how: str
    pick: int | None = None


@dataclass(frozen=True)
class Expire:
    """A lease is over, and a sweep ends it."""

    pick: int


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: float


Meanwhile = Send | End | Expire | Wait


@dataclass(frozen=True)
class Late:
    """Rows in a transaction that stays open for so long, after what happens meanwhile."""

    send: Send
    seconds: float
    meanwhile: tuple[Meanwhile, ...] = ()


@dataclass(frozen=True)
class Locked:
    """Somebody has locked a pending row, or what claims know of a key; like Late, with what happens meanwhile."""

    pick: int
    seconds: float
    what: Literal["row", "head", "arrivals"] = "row"
    meanwhile: tuple[Meanwhile, ...] = ()


@dataclass(frozen=True)
class Operate:
    """What an operator does."""

    what: Literal["redrive", "free", "cancel", "pause", "resume"]
    queue: str = "a"
    pick: int = 0
    note: bool = True


@dataclass(frozen=True)
class Limit:
    """An operator sets limits."""

    kind: str
    queue: str = "a"
    note: bool = True


@dataclass(frozen=True)
class ClockStep:
    """The database's clock steps, by an administrator or by a promotion."""

    seconds: float


@dataclass(frozen=True)
class Deal:
    """The ring is dealt anew."""

    share: str


Step = Send | Late | Locked | End | Expire | Operate | Limit | ClockStep | Deal | Wait

_queues = st.sampled_from(["a", "a", "b"])
_notes = st.booleans()
_picks = st.integers(0, 5)
_pauses = st.sampled_from([0.05, 0.6, 1.1, 3.5])
sends = st.builds(
    lambda queue, bucket, first, keys, rows, ordered, hold, priority, delay, note: Send(
        queue,
        bucket,
        first,
        keys,
        rows,
        ordered and keys > 0,
        hold and ordered and keys > 0,
        0 if ordered and keys > 0 else priority,
        delay,
        note,
    ),
    _queues,
    st.integers(0, 1),
    st.sampled_from([0, 0, 1, 6, 7]),
    st.sampled_from([0, 1, 1, 2, 6, 7]),
    st.sampled_from([1, 1, 2, 9]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([0.0, 0.0, 0.0, -10.0, -HOUR, 0.7, 3.4, HOUR]),
    _notes,
)
ends = st.builds(End, st.sampled_from(sorted(OUTCOMES)), st.one_of(st.none(), _picks))
meanwhile: st.SearchStrategy[tuple[Meanwhile, ...]] = st.lists(
    st.one_of(sends, ends, st.builds(Wait, _pauses), st.builds(Expire, _picks)), max_size=4
).map(tuple)
steps: st.SearchStrategy[Step] = st.one_of(
    sends,
    sends,
    sends,
    ends,
    st.builds(Wait, _pauses),
    st.builds(Limit, st.sampled_from(sorted(LIMITS)), _queues, _notes),
    st.builds(Late, sends, _pauses, meanwhile),
    st.builds(Locked, _picks, _pauses, st.sampled_from(["row", "head", "arrivals"]), meanwhile),
    st.builds(Expire, _picks),
    st.builds(Operate, st.sampled_from(["redrive", "free", "cancel", "pause", "resume"]), _queues, _picks, _notes),
    st.builds(ClockStep, st.sampled_from([-300.0, 300.0])),
    st.builds(Deal, st.sampled_from(sorted(SHARES))),
)
members = st.builds(
    Member,
    st.sampled_from([("a",), ("a",), ("a", "b"), ("b",)]),
    st.sampled_from([1, 2, 2, 5]),
    st.sampled_from([True, False]),
)
fleets = st.builds(
    Setting,
    st.lists(members, min_size=1, max_size=2).map(tuple),
    st.sampled_from(["whole", "whole", *sorted(SHARES)]),
    st.sampled_from([0, 0, 9]),
    st.booleans(),
    st.sampled_from(["none", "none", *sorted(LIMITS)]),
    st.integers(0, 999),
)

# The shortest world of each old fault.
SCENES: dict[str, tuple[Setting, list[Step]]] = {
    "D1": (
        Setting(),
        [
            Send(keys=8, ordered=True, delay=HOUR),
            Wait(1.1),
            Send(first=8, keys=1, ordered=True, delay=0.7, note=False),
        ],
    ),
    "D4": (Setting(), [Send(), Wait(0.05), End("complete"), ClockStep(-300), Send()]),
    "D4 rate": (
        Setting(limit="rate"),
        [Send(rows=3), Wait(0.05), End("complete"), ClockStep(-300), Send()],
    ),
    "D5": (Setting(foreign=9), [Send()]),
    "D8 locked": (Setting((Member(slots=1),), limit="running"), [Send(rows=2, delay=0.7), Locked(0, 4.5)]),
    "D8": (Setting(limit="per key"), [Send(keys=1, rows=9), Wait(0.6), Send(first=1, keys=1)]),
    "D4 keys": (
        Setting((Member(slots=1),)),
        [Send(keys=2, ordered=True, delay=-HOUR), Wait(0.05), ClockStep(-300), End("complete")],
    ),
    "D4 lanes": (
        Setting((Member(slots=1),), limit="per key"),
        [Send(keys=2, delay=-HOUR), Wait(0.05), ClockStep(-300), End("complete")],
    ),
    "lost arrivals": (
        Setting(),
        [
            Send(keys=2, ordered=True),
            Wait(0.05),
            Locked(0, 0.05, "head", (Send(keys=1, ordered=True, note=False), End("complete"))),
        ],
    ),
}


def _near(scene: tuple[Setting, list[Step]], more: list[tuple[int, Step]]) -> tuple[Setting, list[Step]]:
    happens = list(scene[1])
    for place, step in more:
        happens.insert(place % (len(happens) + 1), step)
    return scene[0], happens


# Anything at all (two lists: one would be short, and each of the two still shrinks to nothing), or an old fault's world
# with something more in it.
worlds: st.SearchStrategy[tuple[Setting, list[Step]]] = st.one_of(
    st.builds(
        lambda setting, one, two: (setting, one + two),
        fleets,
        st.lists(steps, max_size=10),
        st.lists(steps, max_size=10),
    ),
    st.builds(_near, st.sampled_from(list(SCENES.values())), st.lists(st.tuples(_picks, steps), max_size=4)),
)
