"""Where a drill is played: a throw-away schema, real worker processes, and one feed of everything that happens."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql as identifiers

from .. import db, migrate, sql
from ..statement import Statement
from ..verbs import LEASE_SECONDS
from .actor import Actor, DrillFailed
from .racer import Part
from .signals import undisturbed

EVENT_SECONDS_MAX = 20.0
POLL_SECONDS = 0.01
LOCK_SECONDS_MAX = 10

T = TypeVar("T")


class Said(NamedTuple):
    """One thing that happened: when (seconds since the drill began), who says so, and what."""

    at: float
    who: str
    event: str
    fields: dict[str, Any]


class Stage:
    """Everything a drill makes, and the promise that none of it is left when the block ends, however it ends."""

    def __init__(self, url: str, tell: Callable[[Said], None]) -> None:
        self.schema = f"tenure_drill_{secrets.token_hex(4)}"
        self.log: list[Said] = []
        self._url, self._tell = url, tell
        self._began = time.monotonic()
        self._actors: list[Actor] = []
        self._heard: queue.SimpleQueue[tuple[float, Actor, dict[str, Any] | None]] = queue.SimpleQueue()
        self._building = self._built = False

    def __enter__(self) -> Stage:
        self.conn = db.connect(self._url, application_name="tenure drill")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            for actor in self._actors:
                actor.end()
            self.conn.close()
            if self._building:
                self._remove_schema(failing=error is not None)

    @property
    def seconds(self) -> float:
        """How long the drill has been running."""
        return time.monotonic() - self._began

    # -- what a scene is set up with

    def cast(self, name: str, *, lease_seconds: float = LEASE_SECONDS, fenced: bool = True) -> Actor:
        """Start a worker process; it waits for its word before it touches the schema, so it may start first."""
        part = Part(name, self._url, self.schema, lease_seconds, fenced)
        actor = Actor(part, lambda actor, fields: self._heard.put((self.seconds, actor, fields)))
        self._actors.append(actor)
        return actor

    def build(self, *tables: str) -> None:
        """Make the throw-away schema, migrated, with these tables beside Tenure's own."""
        self._building = True
        migrate.apply(self.conn, self.schema)
        self._built = True
        for table in tables:
            self.sql(table)
        self.say("drill", "schema_made", schema=self.schema)

    # -- do

    def run(self, statement: Statement[T]) -> T:
        """A verb or question on the stage's own connection."""
        return db.run(self.conn, statement, self.schema)

    def sql(self, text: str, *params: object) -> list[tuple[Any, ...]]:
        """Plain SQL, written for the schema tenure; rows if it has any."""
        cursor = self.conn.execute(sql.in_schema(text, self.schema).encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def say(self, who: str, event: str, **fields: Any) -> None:
        """Put something that the drill itself did or saw into the feed."""
        self._record(Said(self.seconds, who, event, fields))

    # -- expect

    def expect(self, actor: Actor, event: str) -> Said:
        """Wait for an actor's event, passing on whatever is said meanwhile; DrillFailed names what did not come."""
        deadline = time.monotonic() + EVENT_SECONDS_MAX
        while True:
            try:
                at, who, fields = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DrillFailed(f"{actor.name} did not report {event} within {EVENT_SECONDS_MAX:.0f} s") from None
            if fields is not None:
                said = Said(at, who.name, fields.pop("event"), fields)
                self._record(said)
                if (who, said.event) == (actor, event):
                    return said
            elif who is actor:
                raise DrillFailed(f"{actor.name} ended without reporting {event} ({actor.last_words()})")

    def until(self, fact: Callable[[], T], what: str, seconds: float) -> T:
        """Ask until the answer is true."""
        deadline = time.monotonic() + seconds
        while not (answer := fact()):
            if time.monotonic() > deadline:
                raise DrillFailed(f"{what} was not seen within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        return answer

    def reported(self, event: str, who: str | None = None) -> list[Said]:
        """Every event of this name in the feed so far."""
        return [said for said in self.log if said.event == event and who in (None, said.who)]

    def _record(self, said: Said) -> None:
        self.log.append(said)
        self._tell(said)

    def _remove_schema(self, *, failing: bool) -> None:
        """On a connection of its own: the stage's may be in any state, or gone."""
        drop = identifiers.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(identifiers.Identifier(self.schema))
        try:
            with db.connect(self._url, application_name="tenure drill") as conn:
                conn.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_SECONDS_MAX}s"])
                conn.execute("SELECT set_config('client_min_messages', 'warning', false)")
                conn.execute(drop)
        except psycopg.Error as error:
            remedy = f"DROP SCHEMA {self.schema} CASCADE"
            self.say("drill", "schema_left", schema=self.schema, remedy=remedy)
            if not failing:  # what went wrong first is the news; this would hide it
                said = " ".join(str(error).split())
                raise DrillFailed(f"the throw-away schema was not removed ({said}): run `{remedy}`") from error
            return
        if self._built:
            self.say("drill", "schema_removed", schema=self.schema)
