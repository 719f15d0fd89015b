"""The stage of a drill: a throw-away schema, real worker processes, and one feed of all events."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, TypeVar

import psycopg

from ... import postgres, sql
from ...console.signals import undisturbed
from ...errors import BadSettings
from ...postgres import migrate
from ...verbs.statement import Statement
from ..actors import hand, protocol, puller, racer, shop
from .actor import Actor, DrillFailed
from .allowed import check_allowed
from .props import Props
from .proxy import FaultProxy
from .said import Said, said_by
from .schema import drop_schema, mark_used
from .server_address import reached

EVENT_SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
WORKERS_MAX = 8
NAMES = tuple(f"worker-{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")

T = TypeVar("T")


class Stage:
    """Everything a drill makes; nothing of it is left when the block ends, however it ends.

    Use it on one thread, the one that enters it: Linux kills its processes when that thread ends.
    """

    def __init__(
        self, url: str, tell: Callable[[Said], None], *, props: Props | None = None, schema: str | None = None
    ) -> None:
        self.schema = schema or f"tenure_drill_{secrets.token_hex(4)}"
        self.log: list[Said] = []
        self.props = props or Props()
        self.actors: dict[str, Actor] = {}  # in the order of their start; an ended one stays until another has its name
        self.line: FaultProxy
        self.broker_url = ""  # of the broker, once a scene has started it
        self.leaving = ExitStack()  # what else ends with the stage
        self.at_leisure: Callable[[], None] = lambda: None  # called repeatedly while the stage waits
        self._url, self._tell = url, tell
        self._began = time.monotonic()
        self._heard: queue.SimpleQueue[tuple[float, Actor, dict[str, Any] | None]] = queue.SimpleQueue()
        self._building = self._built = False

    def __enter__(self) -> Stage:
        self.conn = self.connect()
        check_allowed(self.conn)
        mark_used(self.conn, self.schema)
        self.line = FaultProxy(reached(self.conn))
        self.line.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            for actor in self.actors.values():
                actor.end()
            self._heard = queue.SimpleQueue()  # what they report about their end is not needed
            self.leaving.close()
            self.line.__exit__(kind, error, trace)
            self.conn.close()
            if self._building:
                self._remove_schema(failing=error is not None)

    @property
    def seconds(self) -> float:
        """How long the stage has been open."""
        return time.monotonic() - self._began

    # -- set up

    def build(self) -> None:
        """Make the throw-away schema with Tenure's tables and the shop's."""
        self._building = True
        migrate.apply(self.conn, self.schema)
        self._built = True
        for table in shop.TABLES:
            self.sql(table)
        self.set()
        self.say("drill", "schema_made", schema=self.schema)

    def set(self, **props: float | bool | None) -> None:
        """Change some of its props; handlers read theirs from the database when they start."""
        self.props = replace(self.props, **{name: value for name, value in props.items() if value is not None})  # type: ignore[arg-type]
        self.sql(shop.OPEN, self.props.handler_seconds, self.props.dedupe)
        if any(value is not None for value in props.values()):
            self.say("drill", "props_changed", **asdict(self.props))

    # -- do

    def start(self, name: str | None = None, *, gated: bool = False) -> Actor:
        """Start a real worker in its own process, connected through the line that can be cut."""
        part = hand.Part(
            self._free(name), self.line.url, self.schema, gated=gated, **_without(asdict(self.props), shop.PROPS)
        )
        return self._hire(part.name, "hand", part)

    def cast(self, name: str, **part: Any) -> Actor:
        """Start a racer in its own process; it claims when it is told to `work`."""
        return self._hire(name, "racer", racer.Part(self._free(name), self._url, self.schema, **part))

    def employ(self, role: str, kind: type[protocol.Part], name: str, **part: Any) -> Actor:
        """Start a process with this role, connected directly."""
        return self._hire(name, role, kind(self._free(name), self._url, self.schema, **part))

    def pull(self, name: str, **part: Any) -> Actor:
        """Start a real worker whose handler only waits, connected directly: for the tuner."""
        return self._hire(name, "puller", puller.Part(self._free(name), self._url, self.schema, **part))

    def actor(self, name: str) -> Actor:
        """The process with this name; BadSettings if there is none."""
        actor = self.actors.get(name)
        if actor is None or actor.state == "gone":
            here = ", ".join(each.name for each in self.actors.values() if each.state != "gone") or "nobody"
            raise BadSettings(f"there is no {name} on this stage: it has {here}")
        return actor

    def connect(self) -> postgres.QueueConnection:
        """Another connection, for callers that must not wait for the stage's own."""
        return postgres.connect(self._url, application_name="tenure drill")

    def run(self, statement: Statement[T]) -> T:
        """Run a statement on the stage's own connection."""
        return postgres.run(self.conn, statement, self.schema)

    def sql(self, text: str, *params: object) -> list[tuple[Any, ...]]:
        """Run SQL that is written for the schema tenure; its rows, if any."""
        cursor = self.conn.execute(sql.in_schema(text, self.schema).encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def say(self, who: str, event: str, **fields: Any) -> None:
        """Add an event of the drill itself to the feed, after the events of processes that came before."""
        self._catch_up()
        self._record(Said(self.seconds, who, event, fields))

    # -- expect

    def expect(
        self,
        event: str,
        who: str | None = None,
        met_by: Callable[[Said], bool] | None = None,
        *,
        since: int = 0,
        seconds: float = EVENT_SECONDS_MAX,
    ) -> Said:
        """Wait for an event in the feed, from the since-th on; DrillFailed names a missing one."""
        met_by = met_by or (lambda said: said.event == event and who in (None, said.who))
        deadline, looked = time.monotonic() + seconds, since
        while True:
            for said in self.log[looked:]:
                looked += 1
                if met_by(said):
                    return said
            if who in self.actors and self.actors[who].silent and self._heard.empty():
                words = self.actors[who].last_words()
                raise DrillFailed(f"{who} ended without reporting {event} ({words})")
            if time.monotonic() > deadline:
                raise DrillFailed(f"{who or 'nobody'} did not report {event} within {seconds:.0f} s")
            self.hear()

    def seen(self, query: str, words: str, seconds: float = EVENT_SECONDS_MAX) -> None:
        """Ask the database until it says yes, and report that."""
        self.until_true(query, words, seconds)
        self.say("drill", "seen", words=words)

    def until_true(self, query: str, words: str, seconds: float = EVENT_SECONDS_MAX) -> None:
        """Ask the database until it says yes."""
        self.until(lambda: self.sql(query)[0][0], words, seconds)

    def until(self, fact: Callable[[], T], what: str, seconds: float = EVENT_SECONDS_MAX) -> T:
        """Ask until the answer is true, and read events in between."""
        deadline = time.monotonic() + seconds
        while not (answer := fact()):
            if time.monotonic() > deadline:
                raise DrillFailed(f"{what} was not seen within {seconds:.0f} s")
            self.hear()
        return answer

    def hear(self, seconds: float = POLL_SECONDS) -> None:
        """Read the events of the processes, and wait a moment for the first one."""
        self.at_leisure()
        with suppress(queue.Empty):
            self._take(*self._heard.get(timeout=seconds))
        self._catch_up()

    def reported(self, event: str, who: str | None = None) -> list[Said]:
        """Every event of this name in the feed so far."""
        return [said for said in self.log if said.event == event and who in (None, said.who)]

    # -- private

    def _free(self, name: str | None) -> str:
        """This name if it is free; else the next unused name, then that of the process that ended first."""
        here = {each.name for each in self.actors.values() if each.state != "gone"}
        if len(here) >= WORKERS_MAX:
            raise BadSettings(f"{WORKERS_MAX} workers are on this stage already: end one first")
        if name in here:
            raise BadSettings(f"{name} is on this stage already: give another name, or none")
        fresh = [each for each in NAMES if each not in self.actors]
        return name or next(each for each in (*fresh, *self.actors) if each not in here)

    def _hire(self, name: str, role: str, part: Any) -> Actor:
        if name in self.actors:  # its last bearer has ended; its events stay in the feed
            self.actors.pop(name).end()
        actor = Actor(name, role, asdict(part), lambda actor, fields: self._heard.put((self.seconds, actor, fields)))
        self.actors[name] = actor
        self.say("drill", "worker_hired", worker=name, pid=actor.pid, role=role)
        return actor

    def _catch_up(self) -> None:
        """Add waiting events to the feed, without waiting for more."""
        with suppress(queue.Empty):
            while True:
                self._take(*self._heard.get_nowait())

    def _take(self, at: float, actor: Actor, fields: dict[str, Any] | None) -> None:
        if fields is None:
            actor.silent = True
            gone = {"worker": actor.name, "pid": actor.pid, "exit_code": actor.exit_code}
            self._record(Said(at, "drill", "worker_gone", gone))
        else:
            self._record(said_by(actor.name, at, fields))

    def _record(self, said: Said) -> None:
        """Add an event, never earlier than the one before: it may have been on its way meanwhile."""
        if self.log:
            said = said._replace(at=max(said.at, self.log[-1].at))
        self.log.append(said)
        self._tell(said)

    def _remove_schema(self, *, failing: bool) -> None:
        """Drop it on a new connection: the stage's own may be in any state, or closed."""
        try:
            drop_schema(self.connect, self.schema)
        except psycopg.Error as error:
            remedy = f"DROP SCHEMA {self.schema} CASCADE"
            self.say("drill", "schema_left", schema=self.schema, remedy=remedy)
            if not failing:  # the first error is the news; this one would hide it
                said = " ".join(str(error).split())
                raise DrillFailed(f"the throw-away schema was not removed ({said}): run `{remedy}`") from error
            return
        if self._built:
            self.say("drill", "schema_removed", schema=self.schema)


def _without(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
