"""Facts to wait for, threads to race, connections as users open them: what the guarantee tests share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import sql as identifiers

from patience import SECONDS_MAX
from world import World

T = TypeVar("T")


def until(fact: Callable[[], T], what: str) -> T:
    """The first true value of a fact; a fact that stays false fails the test by name."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (value := fact()):
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS_MAX:.0f} s"
        time.sleep(0.002)
    return value


class Beside(Generic[T]):
    """Something that runs in a thread of its own while the test goes on; its result, or its error, is asked for."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer.append(self._action())
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def result(self) -> T:
        """What it answered; raises what it raised."""
        self._thread.join(SECONDS_MAX)
        assert self.done, "still waiting in its thread"
        if self._error is not None:
            raise self._error
        return self._answer[0]


def together(n: int, action: Callable[[int], T]) -> list[T]:
    """The same action n times at once, from a barrier; all the answers."""
    barrier = threading.Barrier(n)

    def one(number: int) -> T:
        barrier.wait(SECONDS_MAX)
        return action(number)

    racers = [Beside(lambda number=number: one(number)) for number in range(n)]  # type: ignore[misc]
    return [racer.result() for racer in racers]


def waits_for_a_lock(world: World, conn: psycopg.Connection[Any]) -> None:
    """Return once this connection's backend waits for another's lock."""
    pid = conn.info.backend_pid
    watcher = world.connect()
    until(
        lambda: watcher.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", [pid]
        ).fetchone(),
        "a backend waits for a lock",
    )


def user_connection(world: World, **how: Any) -> psycopg.Connection[Any]:
    """A connection as an application opens it: no pinned plans, and the first statement begins a transaction."""
    conn: psycopg.Connection[Any] = psycopg.connect(world.url, **how)
    world._open.append(conn)
    conn.execute(identifiers.SQL("SET search_path = {}, public").format(identifiers.Identifier(world.schema)))
    conn.commit()
    return conn
