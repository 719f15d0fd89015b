"""Workflows whose processes are killed, in the middle of whatever they do: another goes on where the records end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import servers
from crew import Process, eventually, processes
from tenure.verbs import results
from world import World, new_world

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
TERMS = ["--grace-seconds=1", "--poll-seconds=0.3", "--drain-seconds=1"]
POINTS = ("in reserve", "between", "in charge", "in notify", "undoing notify", "undoing charge")
TABLES = (
    "CREATE TABLE deeds (row_id uuid, what text); CREATE TABLE booked (key text PRIMARY KEY, amount int, calls int)"
)


class Ends(NamedTuple):
    """After the crashes and the recovery."""

    world: World
    ids: dict[str, UUID]
    exits: dict[str, int]


@pytest.fixture(scope="module")
def ends(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    """A flow and a doomed worker for each point, each in a queue of its own; then one worker for all."""
    folder = tmp_path_factory.mktemp("flows")
    with new_world(server_url) as world:
        world.sql(TABLES)
        headers = {"tenure-flow": "order", "tenure-version": "2"}
        ids = {}
        for point in POINTS:
            fields = {"waits": False, "fails": point.startswith("undoing")}
            ids[point] = world.enqueue("order", fields, queue=_queue(point), headers=headers, max_attempts=20)
        ids["in part"] = world.enqueue(
            "fan", {"n": 12}, queue="in-part", headers={"tenure-flow": "fan"}, max_attempts=20
        )
        ids["undoing fare"] = world.enqueue(
            "race", {}, queue="undoing-fare", headers={"tenure-flow": "race"}, max_attempts=20
        )
        doomed = {point: _worker(world, folder, _queue(point), crash=point) for point in ids}
        with processes(*doomed.values()):
            exits = {point: worker.process.wait(90) for point, worker in doomed.items()}
        world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '1 minute'")
        finisher = _worker(world, folder, ",".join([*map(_queue, ids), "parts"]))
        with processes(finisher):
            eventually(lambda: world.count("live") == 0)
            assert finisher.end() == 0
        yield Ends(world, ids, exits)


def _queue(point: str) -> str:
    return point.replace(" ", "-")


def _worker(world: World, folder: Path, queues: str, crash: str = "") -> Process:
    queues += ",parts" if crash == "in part" else ""
    terms = [*TERMS, "--queues", queues, *(["--no-housekeeping"] if crash else [])]
    return Process(world, "apps.orders:inbox", folder, *terms, **({"TENURE_TEST_CRASH": crash} if crash else {}))


def _effects(world: World, id: UUID) -> list[str]:
    return [what for (what,) in world.sql("SELECT what FROM deeds WHERE row_id = %s ORDER BY what", id)]


def _booked(world: World, id: UUID) -> list[tuple[Any, ...]]:
    return world.sql("SELECT amount, calls FROM booked WHERE key LIKE %s ORDER BY key", f"{id}/%")


@pytest.mark.parametrize("point", POINTS)
def test_a_flow_killed_at_any_point_ends_right_and_no_fenced_effect_is_there_twice(ends: Ends, point: str) -> None:
    id, undone = ends.ids[point], point.startswith("undoing")
    assert ends.exits[point] == -signal.SIGKILL
    assert ends.world.status(id) == ("failed" if undone else "completed")
    assert _effects(ends.world, id) == (["reserve"] if undone else ["end", "reserve"])
    assert [amount for amount, _ in _booked(ends.world, id)] == ([0, 0] if undone else [1, 1])


def test_a_plain_step_that_was_killed_behind_its_effect_is_called_again_with_its_key(ends: Ends) -> None:
    assert [calls for _, calls in _booked(ends.world, ends.ids["in charge"])] == [2, 1]
    assert [calls for _, calls in _booked(ends.world, ends.ids["between"])] == [1, 1]


def test_what_both_branches_of_a_race_did_is_undone_though_the_worker_is_killed_in_between(ends: Ends) -> None:
    id = ends.ids["undoing fare"]
    assert ends.exits["undoing fare"] == -signal.SIGKILL
    assert ends.world.status(id) == "failed"
    assert [amount for amount, _ in _booked(ends.world, id)] == [0, 0]
    undos = ends.world.sql("SELECT name FROM steps WHERE row_id = %s AND name LIKE 'undo:%%' ORDER BY recorded_at", id)
    assert undos == [("undo:seat",), ("undo:fare",)]


def test_children_whose_worker_is_killed_end_once_each_and_their_parent_goes_on_once(ends: Ends) -> None:
    id = ends.ids["in part"]
    assert ends.exits["in part"] == -signal.SIGKILL
    assert _effects(ends.world, id) == ["joined"]
    (end,) = ends.world.run(results.ended([id]))
    assert json.loads(end.value or "null") == ["completed"] * 12
    assert ends.world.sql("SELECT count(*), count(DISTINCT row_id) FROM deeds WHERE what = 'part'") == [(12, 12)]
