"""Multi-row writes lock in one order, whatever order the caller names the rows in: they wait, they never deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

import servers
from tenure import verbs
from tenure.model.rows import Lease, NewRow
from tenure.verbs import settle
from tenure.verbs.statement import Statement
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
ROUNDS = 25
ROWS = 30
Verb = Callable[[Sequence[Lease]], Statement[Any]]


def _errors(leases: Sequence[Lease]) -> list[str]:
    return ["boom"] * len(leases)


HOLDERS: dict[str, Verb] = {
    "complete": settle.complete,
    "retry": lambda leases: settle.retry(leases, _errors(leases)),
    "fail": lambda leases: settle.fail(leases, _errors(leases)),
    "dead_letter": lambda leases: settle.dead_letter(leases, _errors(leases)),
    "release": settle.release,
    "renew": verbs.renew,
    "cancel": lambda leases: verbs.cancel([lease.id for lease in leases]),
}
OTHERS: dict[str, Verb] = {
    "redrive": lambda leases: verbs.redrive([lease.id for lease in leases]),
    "enqueue": lambda leases: verbs.enqueue_many([NewRow("a", idempotency_key=str(lease.id)) for lease in leases]),
    "sweep": lambda _: verbs.sweep_pages(),
}


@pytest.fixture
def held(world: World) -> list[Lease]:
    """Rows in flight, in id order; the world's own connection is one that must never wait."""
    world.sql("SET lock_timeout = '5s'")
    world.run(verbs.enqueue_many([NewRow("a", key="k") for _ in range(ROWS)]))
    return sorted((job.lease for job in world.claim("A", ROWS)), key=lambda lease: lease.id)


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """One thread for a statement that has to wait."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def in_opposite_orders(
    world: World, pairs: Sequence[tuple[Verb, Verb]], leases: Sequence[Lease]
) -> list[BaseException]:
    """Two threads, both orders, many rounds, each in a transaction that is rolled back; what went wrong."""
    wrong: list[BaseException] = []
    start = threading.Barrier(2)

    def one(side: int) -> None:
        conn = world.connect()
        mine = list(leases) if side else list(reversed(leases))
        try:
            for pair in pairs:
                for _ in range(ROUNDS):
                    start.wait(timeout=120)
                    conn.execute("BEGIN")
                    world.run(pair[side](mine), conn)
                    conn.execute("ROLLBACK")
        except BaseException as error:
            wrong.append(error)
            start.abort()

    threads = [threading.Thread(target=one, args=(side,)) for side in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return [error for error in wrong if not isinstance(error, threading.BrokenBarrierError)]


@pytest.mark.parametrize("verb", HOLDERS)
def test_the_same_verb_over_the_same_rows_in_opposite_orders_never_deadlocks(
    world: World, held: list[Lease], verb: str
) -> None:
    assert in_opposite_orders(world, [(HOLDERS[verb], HOLDERS[verb])], held) == []


def test_different_verbs_over_the_same_rows_in_opposite_orders_never_deadlock(world: World, held: list[Lease]) -> None:
    world.expire(*held[::2])
    names = ["complete", "retry", "release", "renew", "cancel"]
    pairs = [(HOLDERS[a], HOLDERS[b]) for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    sweeping = [(HOLDERS[name], OTHERS["sweep"]) for name in names]
    assert in_opposite_orders(world, [*pairs, *sweeping], held) == []


def test_bulk_enqueues_with_common_keys_in_opposite_orders_never_deadlock(world: World, held: list[Lease]) -> None:
    assert in_opposite_orders(world, [(OTHERS["enqueue"], OTHERS["enqueue"])], held) == []


def test_redrives_of_the_same_rows_in_opposite_orders_never_deadlock(world: World, held: list[Lease]) -> None:
    world.run(HOLDERS["fail"](held))
    assert in_opposite_orders(world, [(OTHERS["redrive"], OTHERS["redrive"])], held) == []


def until_blocked(world: World, pid: int, statement: Future[Any]) -> None:
    """Until that backend waits for a lock; the statement must not end before."""
    while world.sql("SELECT pg_blocking_pids(%s) = '{}'", pid) == [(True,)]:
        assert not statement.done(), f"it did not wait: {statement.result()}"


def free_rows(world: World, table: str) -> set[UUID]:
    """The rows of a table that nobody has locked."""
    with world.conn.transaction():
        return {row[0] for row in world.sql(f"SELECT id FROM {table} FOR UPDATE SKIP LOCKED")}


def locked_up_to(
    world: World, thread: ThreadPoolExecutor, table: str, ids: list[UUID], statement: Statement[Any]
) -> None:
    """A statement that meets a locked row half-way has locked all before it and none after, and goes on in time."""
    middle = len(ids) // 2
    blocker, conn = world.connect(), world.connect()
    with blocker.transaction():
        blocker.execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE".encode(), [ids[middle]])
        waiting = thread.submit(world.run, statement, conn)
        until_blocked(world, conn.info.backend_pid, waiting)
        assert free_rows(world, table) == set(ids[middle + 1 :])
    assert waiting.result(timeout=120)


@pytest.mark.parametrize("verb", sorted(HOLDERS.keys() - {"renew"}))  # which waits for no lock
def test_locks_are_taken_in_id_order_although_the_caller_names_the_rows_backwards(
    world: World, held: list[Lease], thread: ThreadPoolExecutor, verb: str
) -> None:
    statement = HOLDERS[verb](list(reversed(held)))
    locked_up_to(world, thread, "live", [lease.id for lease in held], statement)


def test_redrive_takes_its_locks_in_id_order(world: World, held: list[Lease], thread: ThreadPoolExecutor) -> None:
    world.run(HOLDERS["fail"](held))
    statement = OTHERS["redrive"](list(reversed(held)))
    locked_up_to(world, thread, "dead", [lease.id for lease in held], statement)


@pytest.mark.parametrize("how", ["retried", "released", "failed"])
def test_end_attempts_sorts_its_rows_itself_when_sql_names_them_backwards(
    world: World, held: list[Lease], thread: ThreadPoolExecutor, how: str
) -> None:
    backwards = list(reversed(held))
    conn, blocker = world.connect(), world.connect()
    ids = [lease.id for lease in held]
    with blocker.transaction():
        blocker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [ids[ROWS // 2]])
        waiting = thread.submit(
            lambda: conn.execute(
                "SELECT * FROM end_attempts(%s, %s, %s, %s, NULL, NULL)",
                [[b.id for b in backwards], [b.generation for b in backwards], [b.fence for b in backwards], how],
            ).fetchall()
        )
        until_blocked(world, conn.info.backend_pid, waiting)
        assert free_rows(world, "live") == set(ids[ROWS // 2 + 1 :])
    assert len(waiting.result(timeout=120)) == ROWS


def test_a_sweep_passes_a_locked_row_by_and_ends_all_the_others(world: World, held: list[Lease]) -> None:
    world.expire(*held)
    blocker = world.connect()
    with blocker.transaction():
        blocker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [held[3].id])
        assert {row.id for row in world.sweep()} == {lease.id for lease in held} - {held[3].id}
    assert {row.id for row in world.sweep()} == {held[3].id}


def test_a_claim_passes_a_locked_row_by(world: World) -> None:
    world.sql("SET lock_timeout = '5s'")
    first, second = world.enqueue(key="k"), world.enqueue(key="k")
    blocker = world.connect()
    with blocker.transaction():
        blocker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [first])
        assert [job.id for job in world.claim(n=2)] == [second]
    assert [job.id for job in world.claim(n=2)] == [first]


def test_two_transactions_over_the_same_rows_serialise(
    world: World, held: list[Lease], thread: ThreadPoolExecutor
) -> None:
    first, second = world.connect(), world.connect()
    with first.transaction():
        world.run(HOLDERS["retry"](held), first)
        waiting = thread.submit(world.run, HOLDERS["complete"](list(reversed(held))), second)
        until_blocked(world, second.info.backend_pid, waiting)
    assert {answer.reason for answer in waiting.result(timeout=120)} == {"already_retried"}
