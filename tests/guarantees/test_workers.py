"""The registry: who lives, who drains, who is dead. It decides who owns a bucket, never who holds a row."""

from __future__ import annotations

import pytest

from guarantees.facts import together
from tenure import verbs
from tenure.errors import BadSettings, WorkerEvicted
from tenure.verbs import fleet, questions
from world import World


def _silent(world: World, worker: str, seconds: float) -> None:
    world.sql(
        "UPDATE workers SET last_seen_at = last_seen_at - %s * interval '1 second' WHERE id = %s", seconds, worker
    )


def _status(world: World, worker: str) -> str | None:
    found = world.sql("SELECT status FROM workers WHERE id = %s", worker)
    return str(found[0][0]) if found else None


def _live(world: World, **options: float) -> list[str]:
    return [worker.id for worker in world.run(questions.live_workers(**options))]


def test_a_worker_registers_as_alive_with_what_it_says_of_itself(world: World) -> None:
    assert world.run(fleet.register("A", {"version": "1.2.0", "host": "ü"})) == "A"
    (worker,) = world.run(questions.live_workers())
    assert (worker.id, worker.status, worker.metadata) == ("A", "alive", {"version": "1.2.0", "host": "ü"})
    assert worker.started_at <= worker.last_seen_at


@pytest.mark.parametrize("status", ["alive", "draining", "dead"])
def test_an_id_is_used_once(world: World, status: str) -> None:
    world.run(fleet.register("A", {"first": True}))
    world.sql("UPDATE workers SET status = %s", status)
    with pytest.raises(BadSettings, match="'A' is taken"):
        world.run(fleet.register("A"))
    assert world.sql("SELECT status, metadata FROM workers") == [(status, {"first": True})]


def test_of_ten_that_register_the_same_id_at_once_one_has_it(world: World) -> None:
    connections = [world.connect() for _ in range(10)]

    def enter(number: int) -> bool:
        try:
            world.run(fleet.register("A"), connections[number])
        except BadSettings:
            return False
        return True

    assert sum(together(10, enter)) == 1


def test_a_heartbeat_renews_the_sight_of_a_worker_and_adds_to_its_words(world: World) -> None:
    world.run(fleet.register("A", {"version": "1"}))
    _silent(world, "A", 100)
    assert _live(world) == []
    assert world.run(fleet.heartbeat("A", {"load": 3})) == "alive"
    assert _live(world) == ["A"]
    assert world.sql("SELECT metadata FROM workers") == [({"version": "1", "load": 3},)]


def test_a_heartbeat_touches_its_own_row_alone(world: World) -> None:
    for worker in "AB":
        world.run(fleet.register(worker))
        _silent(world, worker, 100)
    world.run(fleet.heartbeat("A"))
    assert _live(world) == ["A"]


def test_a_heartbeat_never_makes_a_draining_worker_alive(world: World) -> None:
    world.run(fleet.register("A"))
    assert world.run(fleet.drain("A")) == "draining"
    assert world.run(fleet.heartbeat("A")) == "draining"
    assert _status(world, "A") == "draining"
    assert _live(world) == []


def test_a_heartbeat_never_raises_the_dead(world: World) -> None:
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = 'dead', last_seen_at = last_seen_at - interval '1 hour'")
    before = world.sql("SELECT id, status, last_seen_at, metadata FROM workers")
    with pytest.raises(WorkerEvicted, match="register again under a new id"):
        world.run(fleet.heartbeat("A", {"x": 1}))
    assert world.sql("SELECT id, status, last_seen_at, metadata FROM workers") == before


def test_the_dead_do_not_drain(world: World) -> None:
    world.run(fleet.register("A"))
    world.sql("UPDATE workers SET status = 'dead'")
    with pytest.raises(WorkerEvicted):
        world.run(fleet.drain("A"))
    assert _status(world, "A") == "dead"


def test_a_worker_nobody_knows_is_told_so(world: World) -> None:
    world.run(fleet.register("B"))
    for verb in (fleet.heartbeat, fleet.drain):
        with pytest.raises(WorkerEvicted, match="'A'"):
            world.run(verb("A"))
    assert _status(world, "B") == "alive"


def test_draining_twice_is_harmless_and_concerns_one_worker(world: World) -> None:
    for worker in "AB":
        world.run(fleet.register(worker))
    assert world.run(fleet.drain("A")) == world.run(fleet.drain("A")) == "draining"
    assert _live(world) == ["B"]


def test_a_silent_worker_is_declared_dead_once_and_a_seen_one_is_not(world: World) -> None:
    for worker in ("silent", "seen", "drained"):
        world.run(fleet.register(worker))
    world.run(fleet.drain("drained"))
    _silent(world, "silent", 31)
    _silent(world, "drained", 31)
    _silent(world, "seen", 29)
    assert world.run(fleet.sweep_workers()) == {"silent": "dead", "drained": "dead"}
    assert world.run(fleet.sweep_workers()) == {}
    assert _status(world, "seen") == "alive"
    assert world.run(fleet.sweep_workers(ttl_seconds=10)) == {"seen": "dead"}


def test_a_worker_dead_for_a_day_is_forgotten_and_a_living_one_never(world: World) -> None:
    for worker in ("long_dead", "just_dead", "alive"):
        world.run(fleet.register(worker))
    world.sql("UPDATE workers SET status = 'dead' WHERE id <> 'alive'")
    _silent(world, "long_dead", 86_500)
    _silent(world, "just_dead", 86_300)
    assert world.run(fleet.sweep_workers()) == {"long_dead": "forgotten"}
    assert _status(world, "just_dead") == "dead"
    _silent(world, "alive", 86_500)
    assert world.run(fleet.sweep_workers()) == {"alive": "dead"}  # first declared dead, a round later forgotten
    assert world.run(fleet.sweep_workers()) == {"alive": "forgotten"}


def test_the_death_of_a_worker_takes_no_row_from_it(world: World) -> None:
    world.run(fleet.register("A"))
    world.enqueue()
    lease = world.claim_one("A").lease
    _silent(world, "A", 100)
    assert world.run(fleet.sweep_workers()) == {"A": "dead"}
    assert world.sweep() == []
    assert world.run(verbs.renew([lease])).lost == ()
    assert world.complete(lease).ok  # leases decide


def test_a_row_that_is_locked_does_not_stop_the_sweep_of_workers(world: World) -> None:
    for worker in "AB":
        world.run(fleet.register(worker))
        _silent(world, worker, 100)
    locker = world.connect()
    with locker.transaction():
        locker.execute("SELECT 1 FROM workers WHERE id = 'A' FOR UPDATE")
        assert world.run(fleet.sweep_workers()) == {"B": "dead"}


def test_the_live_list_is_alive_recently_seen_and_in_order(world: World) -> None:
    for worker in ("c", "a", "b", "draining", "dead", "silent"):
        world.run(fleet.register(worker))
    world.run(fleet.drain("draining"))
    world.sql("UPDATE workers SET status = 'dead' WHERE id = 'dead'")
    _silent(world, "silent", 31)
    assert _live(world) == ["a", "b", "c"]
    assert _live(world, ttl_seconds=60) == ["a", "b", "c", "silent"]
