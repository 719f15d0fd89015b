"""Rows of a key, or of a kind, are postponed by one statement; nothing else is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tenure.errors import BadSettings
from tenure.verbs.operators import postpone
from tenure.verbs.questions import clock
from world import World


def _due(world: World) -> dict[Any, bool]:
    return dict(world.sql("SELECT id, available_at <= clock_timestamp() FROM live"))


def _in(world: World, seconds: float) -> datetime:
    return world.run(clock()) + timedelta(seconds=seconds)


def test_all_pending_rows_of_a_key_are_postponed_and_no_others(world: World) -> None:
    first, second = (world.enqueue("post", key="acme", queue="hooks") for _ in range(2))
    other_key = world.enqueue("post", key="beta", queue="hooks")
    other_queue = world.enqueue("post", key="acme", queue="mail")
    keyless = world.enqueue("post", queue="hooks")
    assert world.run(postpone("hooks", "acme", _in(world, 600))) == 2
    due = _due(world)
    assert (due[first], due[second]) == (False, False)
    assert due[other_key]
    assert due[other_queue]
    assert due[keyless]


def test_all_pending_rows_of_a_kind_are_postponed_and_no_others(world: World) -> None:
    shop = [world.enqueue("outbox:shop", queue="outbox", key=key, ordered=key is not None) for key in ("a", "b", None)]
    other = world.enqueue("outbox:mail", queue="outbox")
    assert world.run(postpone("outbox", None, _in(world, 600), kind="outbox:shop")) == 3
    due = _due(world)
    assert not any(due[each] for each in shop)
    assert due[other]


def test_a_row_that_is_due_later_is_not_made_due_sooner_and_what_is_held_stays(world: World) -> None:
    later = world.enqueue("post", key="acme", delay_seconds=7200)
    world.enqueue("post", key="acme")
    held = world.claim_one()
    before = world.sql("SELECT available_at FROM live ORDER BY id")
    assert world.run(postpone("default", "acme", _in(world, 600))) == 0
    assert world.sql("SELECT available_at FROM live ORDER BY id") == before
    assert world.complete(held.lease).ok
    assert world.run(postpone("default", "acme", _in(world, 9000))) == 1
    assert not _due(world)[later]


def test_an_ordered_key_is_not_claimed_before_its_time(world: World) -> None:
    for _ in range(3):
        world.enqueue("post", key="acme", ordered=True)
    assert world.run(postpone("default", "acme", _in(world, 600))) == 3
    assert world.claim_ordered() == []
    world.due()
    assert len(world.claim_ordered()) >= 1


def test_a_row_that_somebody_has_locked_is_skipped(world: World) -> None:
    locked, free = (world.enqueue("post", key="acme") for _ in range(2))
    other = world.connect()
    with other.transaction():
        other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [locked])
        world.sql("SET lock_timeout = '10s'")  # who would wait for the other is refused
        assert world.run(postpone("default", "acme", _in(world, 600))) == 1
    due = _due(world)
    assert due[locked]
    assert not due[free]


def test_at_most_so_many_at_once(world: World) -> None:
    for _ in range(5):
        world.enqueue("post", key="acme")
    until = _in(world, 600)
    assert [world.run(postpone("default", "acme", until, n=3)) for _ in range(3)] == [3, 2, 0]


def test_what_cannot_be_meant_is_refused(world: World) -> None:
    soon = _in(world, 60)
    for key, until, kind in (("acme", soon, "post"), (None, soon, None), ("acme", soon.replace(tzinfo=None), None)):
        with pytest.raises(BadSettings, match=r"postpone which rows|with a zone"):
            postpone("default", key, until, kind=kind)
