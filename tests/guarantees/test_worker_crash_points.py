"""Guarantee 12 with real worker processes: killed at any point, another finishes, and a fenced effect is there once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

import servers
from apps.crashing import POINTS
from apps.ledger import read
from crew import Hired, Process, eventually, processes
from tenure.app.inbox import Inbox
from tenure.drills.stage.proxy import FaultProxy
from tenure.verbs import questions
from tenure.worker.config import Terms
from world import World, new_world

KINDS = ("plain", "fenced")
COMMITTED = ("during_commit", "after_complete")  # the server has all it needs, whoever is there to hear of it
TERMS = ["--grace-seconds=1", "--poll-seconds=0.3", "--drain-seconds=1"]

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


class Scene(NamedTuple):
    """After the crashes and the recovery."""

    world: World
    ids: dict[tuple[str, str], UUID]
    exits: dict[tuple[str, str], int]
    left_behind: dict[tuple[str, str], str]  # the status of each row between its crash and its recovery
    effects: list[str]  # ids, as often as the plain handler has come by


@pytest.fixture(scope="module")
def scene(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One row and one doomed worker for each point and kind, each in a queue of its own; then one worker for all."""
    folder = tmp_path_factory.mktemp("crashes")
    with new_world(server_url) as world:
        world.sql("CREATE TABLE receipts (row_id uuid, token bigint)")
        cases = [(point, kind) for point in POINTS for kind in KINDS]
        ids = {case: world.enqueue(case[1], queue="-".join(case)) for case in cases}
        doomed = {case: _worker(world, folder, "-".join(case), crash=case[0]) for case in cases}
        with processes(*doomed.values()):
            exits = {case: worker.process.wait(90) for case, worker in doomed.items()}
        _server_is_done(world, [worker.process.pid for worker in doomed.values()])
        # The survivor need not think that it is one of many, and leave the chores to the others for a while.
        world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '1 minute'")
        left_behind = {case: world.status(id) for case, id in ids.items()}
        finisher = _worker(world, folder, ",".join("-".join(case) for case in cases))
        with processes(finisher):
            eventually(lambda: world.count("live") == 0)
            assert finisher.end() == 0
        effects = [line["id"] for line in read(folder / "ledger.jsonl")]
        yield Scene(world, ids, exits, left_behind, effects)


def _worker(world: World, folder: Path, queues: str, crash: str = "") -> Process:
    terms = [*TERMS, "--queues", queues, *(["--no-housekeeping"] if crash else [])]
    return Process(world, "apps.crashing:inbox", folder, *terms, **({"TENURE_TEST_CRASH": crash} if crash else {}))


def _server_is_done(world: World, dead: list[int]) -> None:
    """What the dead had sent is carried out, and their sessions are over."""
    alive = "SELECT 1 FROM pg_stat_activity WHERE application_name ~ %s AND datname = current_database()"
    named = f"^tenure .*-({'|'.join(map(str, dead))})-"
    eventually(lambda: not world.sql(alive, named))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_point_leaves_a_row_that_another_completes(scene: Scene, point: str, kind: str) -> None:
    case = (point, kind)
    assert scene.exits[case] == -signal.SIGKILL
    assert scene.left_behind[case] == ("completed" if point in COMMITTED else "processing")
    row = scene.world.row(scene.ids[case])
    assert row.status == "completed"
    assert row.attempts == (1 if point in COMMITTED else 2)
    # A busy survivor may give a row back that waits too long for its slot: that costs no attempt.
    tape = [attempt.outcome for attempt in scene.world.run(questions.tape(row.id)) if attempt.outcome != "released"]
    assert tape == (["completed"] if point in COMMITTED else ["expired", "completed"])


@pytest.mark.parametrize("point", POINTS)
def test_a_fenced_effect_is_there_once_whatever_the_point(scene: Scene, point: str) -> None:
    id = scene.ids[point, "fenced"]
    row = scene.world.row(id)
    assert scene.world.sql("SELECT token FROM receipts WHERE row_id = %s", id) == [(row.lease_generation,)]


@pytest.mark.parametrize("point", POINTS)
def test_an_effect_outside_the_fence_is_there_at_least_once(scene: Scene, point: str) -> None:
    assert scene.effects.count(str(scene.ids[point, "plain"])) >= 1


def test_control_an_effect_outside_the_fence_happens_again_after_a_crash_behind_it(scene: Scene) -> None:
    assert scene.effects.count(str(scene.ids["after_effect", "plain"])) == 2


def test_nothing_is_claimed_before_the_worker_shows_its_presence(world: World) -> None:
    """Killed before it does, a worker would leave its rows to the end of their lease."""
    inbox = Inbox()
    inbox.handler("plain")(lambda: None)
    id = world.enqueue("plain")
    with FaultProxy(world.url) as proxy:
        proxy.blackhole()
        hired = Hired(inbox, Terms(world.url, proxy.url, world.schema, poll_seconds=0.05))
        eventually(lambda: hired.worker.claimer.connected and hired.worker.posts[0].housekeeper.connected)
        board_at = hired.worker.claimer.sleep.board_at
        eventually(lambda: hired.worker.claimer.sleep.board_at > board_at + 0.5)
        assert (world.status(id), world.sql("SELECT 1 FROM workers")) == ("pending", [])
        proxy.heal()
        eventually(lambda: world.status(id) == "completed")
        assert hired.stop() == 0
