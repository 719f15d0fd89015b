"""Guarantee 11 as a drill: a fleet replaced one by one under load costs no attempt and lets no lease expire."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import servers
from chaos.fleet import fleet, load
from crew import eventually, working
from tenure.app.inbox import Inbox
from world import World

TERMS = ["--slots=5", "--drain-seconds=0.5", "--grace-seconds=1", "--poll-seconds=0.5"]

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def outcomes(world: World) -> dict[str, int]:
    """How attempts ended that did not complete."""
    return {how: n for how, n in world.sql("SELECT outcome, count(*) FROM attempts GROUP BY outcome")}  # noqa: C416


def has_just_begun_a_long_one(world: World, pid: int) -> bool:
    found = world.sql(
        "SELECT 1 FROM live WHERE status = 'processing' AND claimed_by LIKE %s AND payload->>'seconds' = '2.0'"
        " AND claimed_at > clock_timestamp() - interval '0.5 s'",
        f"%-{pid}-%",
    )
    return bool(found)


def test_four_workers_replaced_one_by_one_cost_no_attempt(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path, *TERMS) as crew:
        old = crew.hire(4)
        with load(world, long_seconds=2.0) as sent:
            exits = []
            for worker in old:
                crew.hire()
                eventually(lambda: has_just_begun_a_long_one(world, worker.pid))  # noqa: B023
                exits.append(worker.end(signal.SIGTERM))
        assert exits == [0] * 4
        assert [worker.end() for worker in crew.workers[4:]] == [0] * 4
    assert set(outcomes(world)) == {"released"}, "only drains gave rows back, and some did"
    rows = world.sql("SELECT status, attempts, count(*)::int FROM inbox GROUP BY 1, 2")
    assert rows == [("completed", 1, sent.rows)]
    assert world.sql("SELECT 1 FROM workers") == []


def test_a_heartbeat_that_is_due_when_a_worker_leaves_does_not_bring_it_back(world: World) -> None:
    inbox = Inbox()
    inbox.handler("nap")(lambda: None)
    with working(world, inbox, heartbeat_seconds=0.01) as hired:
        assert hired.stop() == 0
    assert world.sql("SELECT 1 FROM workers") == []


def test_control_workers_that_are_killed_instead_let_leases_expire(world: World, tmp_path: Path) -> None:
    with fleet(world, tmp_path, *TERMS) as crew:
        old = crew.hire(2)
        with load(world, long_seconds=2.0):
            eventually(lambda: len(world.sql("SELECT DISTINCT claimed_by FROM live WHERE status = 'processing'")) == 2)
            assert old[0].end(signal.SIGKILL) == -signal.SIGKILL
            eventually(lambda: outcomes(world).get("expired"))
    assert world.sql("SELECT max(attempts) FROM inbox") == [(2,)]
