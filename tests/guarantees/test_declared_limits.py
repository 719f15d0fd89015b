"""Limits in code: a worker sets those that its handlers declare, exact across workers; an operator's stay."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from crew import eventually, working
from guarantees.facts import Beside, user_connection, waits_for_a_lock
from guarantees.test_notes import Listener
from tenure.app.inbox import Inbox
from tenure.app.kind_limits import Limits
from tenure.errors import BadSettings
from tenure.events import JobCompleted
from tenure.verbs.queues import declare_limits, limit
from world import World


def _set(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT queue, max_running, max_per_key, rate_per_second, burst FROM queues")


def test_what_code_declares_is_set_and_changed_by_the_next_version_of_the_code(world: World) -> None:
    world.run(limit("beside", max_running=7))
    assert world.run(declare_limits("beside", max_running=7)) == "same"
    assert world.run(declare_limits("llm", max_running=2)) == "set"
    assert world.run(declare_limits("llm", max_running=2)) == "same"
    assert world.run(declare_limits("llm", rate_per_second=0.5)) == "set"
    assert sorted(_set(world)) == [("beside", 7, None, None, None), ("llm", None, None, 0.5, 1)]
    ((changed, start),) = world.sql("SELECT updated_at, refilled_at FROM queues WHERE queue = 'llm'")
    with world.conn.transaction():
        world.sql("SELECT pg_sleep(0.1)")
        world.run(declare_limits("llm", rate_per_second=0.7))
        times = "SELECT updated_at, refilled_at, now() FROM queues WHERE queue = 'llm'"
        ((now_changed, now_refilled, began),) = world.sql(times)
    assert min(now_changed, now_refilled) > began > max(changed, start), "in a long transaction, too"


def test_an_operator_who_sets_a_limit_at_the_same_time_wins(world: World) -> None:
    operator, worker = world.connect(), world.connect()
    world.run(declare_limits("llm", max_running=8))
    with operator.transaction():
        world.run(limit("llm", max_running=1), operator)
        declared = Beside(lambda: world.run(declare_limits("llm", max_running=9), worker))
        waits_for_a_lock(world, worker)
    assert declared.result() == "kept"
    assert _set(world) == [("llm", 1, None, None, None)]


def test_an_operator_who_comes_in_between_waits_and_wins(world: World) -> None:
    world.run(declare_limits("llm", max_running=8))
    gate, worker, operator = user_connection(world), world.connect(), world.connect()
    gate.execute("SELECT FROM declared_limits FOR UPDATE")
    declared = Beside(lambda: world.run(declare_limits("llm", max_running=9), worker))
    waits_for_a_lock(world, worker)  # it has read what is set, and has not yet set its own
    operator.execute("SET lock_timeout = '50ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        world.run(limit("llm", max_running=1), operator)
    gate.rollback()
    assert declared.result() == "set"
    world.run(limit("llm", max_running=1), operator)
    assert _set(world) == [("llm", 1, None, None, None)]


@pytest.mark.one_server
def test_workers_are_told_of_limits_that_have_changed(world: World) -> None:
    listener = Listener(world)
    world.run(declare_limits("llm", max_running=8))
    assert listener.notes() == ["queues"]


def test_what_an_operator_has_set_stays(world: World) -> None:
    world.run(declare_limits("llm", max_running=8))
    world.run(limit("llm", max_running=1))
    assert world.run(declare_limits("llm", max_running=8)) == "kept"
    assert world.run(declare_limits("llm", max_running=9)) == "kept"
    world.run(limit("llm", max_running=9))
    assert world.run(declare_limits("llm", max_running=10)) == "set", "what is just as declared is the code's again"
    world.run(limit("mail", rate_per_second=3))
    assert world.run(declare_limits("mail", max_running=4)) == "kept", "set before any code declared something"


def test_setting_the_same_rate_again_is_no_new_burst(world: World) -> None:
    world.run(declare_limits("llm", rate_per_second=1, burst=5))
    world.sql("UPDATE queues SET tokens = 0, refilled_at = clock_timestamp()")
    world.run(declare_limits("llm", rate_per_second=1, burst=6))
    ((tokens,),) = world.sql("SELECT tokens FROM queues")
    assert tokens < 5


def test_what_the_old_rate_has_earned_is_kept_in_a_long_transaction_too(world: World) -> None:
    world.run(declare_limits("llm", rate_per_second=100, burst=1000))
    with world.conn.transaction():
        world.sql("UPDATE queues SET tokens = 0, refilled_at = clock_timestamp()")
        world.sql("SELECT pg_sleep(0.1)")
        world.run(declare_limits("llm", rate_per_second=100, burst=999))
        ((tokens,),) = world.sql("SELECT tokens FROM queues")
    assert tokens >= 9


@pytest.mark.one_server
def test_a_kind_with_limits_runs_so_many_at_once_across_workers(world: World) -> None:
    inbox, inside, most, lock = Inbox(), list[int](), list[int](), threading.Lock()

    @inbox.handler("call_llm", limits=Limits(max_running=2))
    def call_llm(n: int) -> None:
        with lock:
            inside.append(n)
            most.append(len(inside))
        threading.Event().wait(0.03)
        with lock:
            inside.remove(n)

    @inbox.handler("plain")
    def plain() -> None: ...

    assert (call_llm.options.queue, plain.options.queue) == ("call_llm", "default")
    inbox.use_schema(world.schema)
    for n in range(12):
        call_llm.enqueue(world.conn, n=n)
    with working(world, inbox, slots=8) as one, working(world, inbox, slots=8) as other:
        eventually(lambda: len(one.of(JobCompleted)) + len(other.of(JobCompleted)) == 12)
    assert max(most) == 2


def test_limits_are_of_a_queue_of_their_own() -> None:
    inbox = Inbox()
    inbox.handler("a", limits=Limits(max_running=1), queue="slow")(lambda: None)
    with pytest.raises(BadSettings, match="'b' and 'a' share the queue 'slow', and limits are of a queue"):
        inbox.handler("b", queue="slow")(lambda: None)
    with pytest.raises(BadSettings, match="'c' and 'a' share"):
        inbox.handler("c", queue="slow", limits=Limits(rate_per_second=1))(lambda: None)
    with pytest.raises(BadSettings, match="limits of queue 'd' are empty"):
        inbox.handler("d", limits=Limits())(lambda: None)
    with pytest.raises(BadSettings, match="write limits=Limits"):
        inbox.handler("e", limits=4)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="max_running"):
        inbox.handler("f", limits=Limits(max_running=0))(lambda: None)
