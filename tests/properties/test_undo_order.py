"""In which order steps are undone: along a path by their numbers, between branches by the time of their records."""

from __future__ import annotations

from tenure.shapes.flow import Tries
from tenure.shapes.flow.effects import Call
from tenure.shapes.flow.undoing import to_undo
from tenure.verbs.steps import Step

ONCE = Tries(1)


def _called(path: str, n: int) -> Call:
    return Call(path, n, f"{path}/{n}", print, (), {}, ONCE, None, undo=print)


def test_along_a_path_the_number_decides_also_when_the_clock_went_back() -> None:
    """A standby that took over may be behind; between branches the time decides."""
    times = {("", 0): 9.0, ("1.0", 0): 5.0, ("1.0", 1): 3.0, ("1.1", 0): 4.0, ("1.1", 1): 10.0, ("", 2): 1.0}
    records = {place: Step(*place, "x", "done", recorded_at=at) for place, at in times.items()}
    calls = {place: _called(*place) for place in times}
    order = [(call.path, call.n) for call, _ in to_undo(calls, records)]
    assert order == [("", 2), ("1.1", 1), ("1.1", 0), ("1.0", 1), ("1.0", 0), ("", 0)]
    later = {**records, ("1.0", 1): records["1.0", 1]._replace(recorded_at=11.0)}
    order = [(call.path, call.n) for call, _ in to_undo(calls, later)]
    assert order == [("", 2), ("1.0", 1), ("1.1", 1), ("1.1", 0), ("1.0", 0), ("", 0)]
