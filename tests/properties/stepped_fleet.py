"""Workers without threads on a clock that the test moves: the real claimer, one round at a time, on real SQL.

The database's clock is moved by functions of the same names, in a schema that stands before pg_catalog in the search
path.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, LiteralString

import pytest
from psycopg import sql as identifiers

from tenure import postgres
from tenure.events import Bus
from tenure.model.outcome import Outcome
from tenure.postgres import QueueConnection
from tenure.verbs import fleet
from tenure.worker.attempt import Attempt
from tenure.worker.chore_turns import ChoreTurns
from tenure.worker.claimer import Claimer
from tenure.worker.claims import Claims
from tenure.worker.config import Terms
from tenure.worker.held import HeldAttempts
from tenure.worker.news import Buckets, News, Note
from tenure.worker.shared import Shared
from world import World

POLL_SECONDS = 2.0
ROUND_SECONDS = 0.005  # what a round takes
LEASE_SECONDS = 3600.0  # no lease ends by itself: the test ends it
_numbers = itertools.count(1)

Run = Callable[[QueueConnection, Any], Any]


class Clock:
    """Our time, which only goes on, and the database's, which may step. It stands in for the module `time`, too."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.ahead = 0.0

    @property
    def database(self) -> float:
        """Epoch seconds, as the database has them."""
        return self.at + self.ahead

    def monotonic(self) -> float:
        """Our time."""
        return self.at

    def time(self) -> float:
        """The same: no rule may rest on it."""
        return self.at

    def time_ns(self) -> int:
        """For spans."""
        return int(self.at * 1e9)


class Stage:
    """A world whose clock is ours: the connections made here read the time from a setting."""

    def __init__(self, world: World) -> None:
        self.world, self.clock = world, Clock()
        self._named = f"clock_{world.schema}_{next(_numbers)}"
        self._ask("CREATE SCHEMA {}", self._named)
        for name, kind in (("clock_timestamp", "VOLATILE"), ("statement_timestamp", "STABLE")):
            world.sql(
                f'CREATE FUNCTION "{self._named}".{name}() RETURNS timestamptz LANGUAGE sql {kind} AS '
                "$$ SELECT pg_catalog.to_timestamp(pg_catalog.current_setting('test.now')::float8) $$"
            )
        self._open: list[QueueConnection] = []
        self.conn = self.connect()

    def connect(self) -> QueueConnection:
        """A connection that lives in our time; only the workers' own is told how it goes on."""
        conn = postgres.connect(self.world.url, application_name="stepped", schema=self.world.schema)
        path = identifiers.SQL("SET search_path = {}, {}, pg_catalog")
        conn.execute(path.format(identifiers.Identifier(self._named), identifiers.Identifier(self.world.schema)))
        conn.execute("SELECT set_config('test.now', %s, false)", (repr(self.clock.database),))
        self._open.append(conn)
        return conn

    def close_one(self, conn: QueueConnection) -> None:
        """One of them is needed no more."""
        self._open.remove(conn)
        conn.close()

    def tell_time(self) -> None:
        """What the clock says is what the database believes, on the workers' connection."""
        self.conn.execute("SELECT set_config('test.now', %s, false)", (repr(self.clock.database),))

    def pass_to(self, at: float) -> None:
        """Let time pass, ours and the database's."""
        self.clock.at = max(self.clock.at, at)
        self.tell_time()

    def close(self) -> None:
        """Put the clock away."""
        for conn in self._open:
            conn.close()
        self._ask("DROP SCHEMA {} CASCADE", self._named)

    def _ask(self, query: LiteralString, name: str) -> None:
        self.world.conn.execute(identifiers.SQL(query).format(identifiers.Identifier(name)))


@contextlib.contextmanager
def stepped(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage for workers of this process: all that the worker's modules know of time is its clock."""
    stage = Stage(world)
    for name, module in list(sys.modules.items()):
        if name.startswith("tenure.worker") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", stage.clock)
    try:
        yield stage
    finally:
        stage.close()


@contextlib.contextmanager
def statements_pass(through: Callable[[Run], Run]) -> Iterator[None]:
    """The claimer's statements go through this: a fault put back, or a count."""
    one = through(postgres.run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenure.worker.claimer.run", one)
        patch.setattr("tenure.worker.claimer.run_both", lambda conn, *each: tuple(one(conn, this) for this in each))
        patch.setattr("tenure.worker.chore_turns.run", one)  # a poll, without the turn that may come along
        yield


class SteppedWorker:
    """A worker: its claimer does a round when it is told to, and its handlers return when the test says so."""

    trusted, trusted_until = True, float("inf")

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        queues: Mapping[str, float],
        slots: int,
        chance: Callable[[], float],
        hears: bool = True,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._stage, self.hears = stage, hears
        self.ears = f"{name} ears" if hears else ""
        terms = Terms(
            stage.world.url,
            schema=stage.world.schema,
            queues=queues,
            slots=slots,
            lease_seconds=LEASE_SECONDS,
            poll_seconds=poll_seconds,
        )
        shared = Shared(terms, Bus(), _fail, lambda: None, worker_id=name)
        self._held = HeldAttempts(shared.bus, slots)
        connections: Any = None
        claims = Claims(shared, self._held, {}, connections)
        claims.rule.chance = chance
        self.claimer = Claimer(shared, self._held, News(), self, claims, self._start, ChoreTurns(shared, lambda: 1))
        self.terms, self.running = terms, list[Attempt]()
        self.started: list[Attempt] = []  # since somebody last asked
        self._news: list[Attempt | Note | Buckets] = []
        self.wake_at = stage.clock.at
        postgres.run(stage.conn, fleet.register(name))
        self.claimer._recover(stage.conn)

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self.terms.slots - self._held.slots_used

    def tell(self, news: Attempt | Note | Buckets) -> None:
        """The claimer hears it in its next round, which is now."""
        self._news.append(news)
        self.wake_at = self._stage.clock.at

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its handler returns."""
        self.running.remove(attempt)
        attempt.handler_returns(outcome)
        self.tell(attempt)

    def round(self) -> None:
        """Hear the news, do a round, and see how long the claimer would rest."""
        news, self._news = self._news, []
        for each in news:
            if isinstance(each, Attempt):
                self.claimer.settler.add([each])
            else:
                self.claimer._hear([each])
        self.claimer._round(self._stage.conn)
        self._stage.clock.at += ROUND_SECONDS  # the next look tells the database
        self.wake_at = self._stage.clock.at + self.claimer._rest_seconds(self._stage.conn)

    def _start(self, attempts: list[Attempt]) -> None:
        self.running += attempts
        self.started += attempts


def _fail(error: BaseException) -> None:
    raise error
