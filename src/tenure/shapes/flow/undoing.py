"""What is to be undone, and in which order: both are read from the records, so that every attempt finds the same.

step 3.0/1, asked for with undo=          its undo is recorded as undo/3.0/1
  plain, and there is a record of it ───▶ undone: it was done, has failed, or is in doubt
  fenced, and its record says done ─────▶ undone; else it was rolled back, and there is nothing to undo
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from ...verbs.steps import Step
from .effects import Call

UNDO = "undo"  # the path of undos begins so
CANCEL = ("cancel", 0)  # where it is recorded that the flow was cancelled between two steps
UNDONE = ("undone", 0)  # where it is recorded that it undoes, and that all is undone

Place = tuple[tuple[int, int], ...]  # for each path its number and its branch, at last the number of the step and -1
Root = tuple[str, int | None]  # where steps of a branch are: on a path and below it, or only this number of it
Timed = tuple[Place, float, tuple[Call, Step]]


def undo_path(path: str) -> str:
    """Where the undo of a step on this path is recorded, under the same number."""
    return f"{UNDO}/{path}" if path else UNDO


def is_undo(path: str) -> bool:
    """Whether an undo is recorded on this path."""
    return path.startswith(UNDO) and (path == UNDO or path[len(UNDO)] == "/")


def is_asked_for(path: str, n: int) -> bool:
    """Whether the function asks for what is recorded there: not for undos, and not for our own marks."""
    return not is_undo(path) and (path, n) not in (CANCEL, UNDONE)


def is_of(roots: Iterable[Root], path: str, n: int) -> bool:
    """Whether this step is one of a branch, or below it."""
    return any(
        path == root and n == only if only is not None else path == root or path.startswith(f"{root}/")
        for root, only in roots
    )


def place_of(path: str, n: int) -> Place:
    """A step's place, to be compared: "3.0/2.1" and 4 is ((3, 0), (2, 1), (4, -1))."""
    forks = [each.split(".") for each in path.split("/")] if path else []
    return (*((int(fork), int(branch)) for fork, branch in forks), (n, -1))


def goes_before(one: Place, other: Place) -> bool:
    """Whether the function comes to the one before the other; False for branches that run at once."""
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return mine[0] < its[0]
    return False


def to_undo(calls: Mapping[tuple[str, int], Call], records: Mapping[tuple[str, int], Step]) -> list[tuple[Call, Step]]:
    """The calls to be undone with their records, the last first.

    Along a path the number decides, between branches the time of the record. The time alone would not do: the clock
    may have gone back, as when a standby took over.
    """
    found = [(call, records[place]) for place, call in calls.items() if place in records]
    timed = [
        (place_of(call.path, call.n), step.recorded_at, (call, step))
        for call, step in found
        if step.state == "done"
        or ((step.tries or step.state == "retrying") and not call.fenced)  # a redrive takes tries
    ]
    ordered: list[Timed] = []
    _in_time(sorted(timed, key=lambda each: each[0]), 0, float("-inf"), ordered)
    return [each for *_, each in sorted(ordered, key=lambda each: (each[1], each[0]), reverse=True)]


def _in_time(timed: list[Timed], depth: int, since: float, ordered: list[Timed]) -> float:
    """Give each a time that is not before what precedes it in the function; returns the last."""
    for _, at_once in groupby(timed, key=lambda each: each[0][depth][0]):
        last = since
        for branch, group in groupby(at_once, key=lambda each: each[0][depth][1]):
            some = list(group)
            if branch < 0:
                ((place, at, what),) = some
                ordered.append((place, max(at, since), what))
                last = max(last, at)
            else:
                last = max(last, _in_time(some, depth + 1, since, ordered))
        since = last
    return since


def undo_of(call: Call, result: Any, undoes: str) -> Call:
    """The step that undoes this one."""
    return call._replace(
        path=undo_path(call.path),
        name=f"undo:{call.name}",
        function=call.undo or call.function,
        args=(result, *call.args),
        undoes=undoes,
        undo=None,
        args_hash=0,
    )
