"""One shard of a projection, without I/O: what to ask, what to apply, when to wait, and what an error means.

    reading ──events──▶ applying ──applied──▶ reading
       │                   │ an error: half as many, down to one
       │ nothing new       ▼
       ▼                one event ──stop──▶ stopped ──resumed or skipped by somebody──▶ reading
    waiting                └──skip──▶ noted as skipped ──▶ reading

A rebuild moves the checkpoint of a held shard: what was applied meanwhile is rolled back, and it reads on from there.

It is a generator: it yields what it wants done, and is sent the answer. `driving` does it, blocking or awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from ...app.job import Job
from ...errors import StaleLease
from ...events import Bus, ProjectionAdvanced, ProjectionStopped
from ...model.journal import Event
from ...model.outcome import Completed, Outcome, Release
from ...postgres.sqlstates import trouble_of
from ...verbs.journal import horizon as newest
from ...verbs.journal import read_between
from ...verbs.projections import (
    ShardState,
    advance,
    enter_batch,
    reapplied,
    shard_state,
    skip_event,
    skipped_again,
    stop_shard,
)
from ...verbs.statement import Statement, at_its_end
from ...verbs.steps import Recorded, Recording, record
from .projection import EndedTransaction, Projection

BATCH_FAR = 5_000  # events in one transaction while it is far behind
STRETCH = 50_000  # positions in one look, however few of them are ours
EMPTY_SECONDS = 1.0  # after which a stretch without events of ours is written down
REST_SECONDS = 1.0  # while it is paused or stopped
TRIES = 3  # of one event before it counts as poison
# The row is still ours: its checkpoint was swapped, skipped over or forgotten between our look and our write.
STILL_OURS = ("checkpoint_moved", "already_applied", "try_again")


@dataclass(frozen=True, slots=True)
class Ask:
    """Run one statement by itself; its answer is sent back."""

    statement: Statement[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """In the transaction with this mark: call the author's function for these events."""

    events: list[Event]
    mark: str


Body = Generator[Statement[Any] | Call, Any, Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """Do what this body asks for in one transaction; its result is sent back, an error is raised here."""

    body: Body


@dataclass(frozen=True, slots=True)
class WaitPast:
    """Wait until the horizon is past this position, or for a moment; the horizon is sent back."""

    position: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait so long, unless the worker drains."""

    seconds: float


Step = Ask | Apply | WaitPast | Rest
Steps = Generator[Step, Any, Outcome]


class Shard:
    """What one holder knows of its shard."""

    def __init__(self, projection: Projection, number: int, job: Job, bus: Bus, clock: Callable[[], float]) -> None:
        self.projection, self.number, self.job, self.bus, self._clock = projection, number, job, bus, clock
        self.written = self.read_to = 0  # where the checkpoint is, and up to where nothing more of ours is
        self._shards: int | None = None  # among how many the streams are dealt: a rebuild can deal them anew
        self._written_at = clock()
        self._most = projection.batch  # halved by an error, and doubled by each success after it
        self._careful = False  # since an error, until as many as ever are applied again
        self._in_doubt = number >= 0 and job.attempt > 1  # what ended the workers before may be what it has to apply

    def steps(self) -> Steps:
        """Go on until the worker drains, or the projection is forgotten."""
        while True:
            state: ShardState | None = yield Ask(shard_state(self.projection.name, self.number))
            if state is None:
                return Completed()
            self._shards = state.shards if self.number >= 0 else None
            state = self.all_streams(state)
            self.written = self.read_to = state.position
            try:
                if (ended := (yield from self._while(state))) is not None:
                    return ended
            except StaleLease as stale:
                if stale.reason not in STILL_OURS:
                    raise
                self.read_to = self.written
            if self.job.draining:
                yield from self._write_down()
                return Release("its worker drains")

    def _while(self, state: ShardState) -> Generator[Step, Any, Outcome | None]:
        """Under this state, until it may be another: somebody can pause it, or ask for skipped events."""
        if state.paused or state.state == "stopped":
            yield from self._well()
            yield Rest(REST_SECONDS)
            return None
        if state.again:
            yield from self._again()
        until = self._clock() + REST_SECONDS
        while not self.job.draining and self._clock() < until:
            horizon: int = yield WaitPast(self.read_to)
            if horizon <= self.read_to:
                yield from self._write_down(after=EMPTY_SECONDS)
                yield from self._well_if_idle()
            elif not (yield from self._batch(state, horizon)):
                return None
            if (ended := (yield from self.between(state, horizon))) is not None:
                return ended
        return None

    def _well_if_idle(self) -> Generator[Step, Any, None]:
        """The tail may not have looked yet: it is asked for by itself."""
        if self._in_doubt and (yield Ask(newest())).position <= self.read_to:
            yield from self._well()

    def _well(self) -> Generator[Step, Any, None]:
        """It has nothing to apply, so its workers ended for another reason: its attempts begin anew."""
        if self._in_doubt:
            (answer,) = yield Ask(record([Recording(self.job.claimed, 1, ())]))
            self._in_doubt = not isinstance(answer, Recorded)

    def all_streams(self, state: ShardState) -> ShardState:
        """The state as it is: a shard reads its own streams."""
        return state

    def between(self, _state: ShardState, _horizon: int) -> Generator[Step, Any, Outcome | None]:
        """What to do between two batches; an outcome ends the job. A shard stays."""
        yield from ()
        return None

    def _batch(self, state: ShardState, horizon: int) -> Generator[Step, Any, bool]:
        """Read and apply once; False if the shard has stopped."""
        upto, n = min(horizon, self.read_to + STRETCH), self._size(horizon)
        reading = read_between(self.read_to, upto, like=state.like_types, shard=self.number, shards=state.shards, n=n)
        events: list[Event] = yield Ask(reading)
        if not events:
            self.read_to = upto
            yield from self._write_down(after=EMPTY_SECONDS)
            return True
        to = events[-1].position if len(events) == n else upto
        try:
            yield self._apply(events, self._advance(to))
        except Exception as error:
            if isinstance(error, StaleLease) or trouble_of(error) != "bug":
                raise
            return (yield from self._poison(state, events, error))
        self._moved(to, len(events))
        self._most = min(self._most * 2, self.projection.batch)
        self._careful = self._careful and self._most < self.projection.batch
        return True

    def _size(self, horizon: int) -> int:
        far = horizon - self.read_to > 10 * self.projection.batch
        return max(BATCH_FAR, self._most) if far and not self._careful else self._most

    def _poison(self, state: ShardState, events: list[Event], error: Exception) -> Generator[Step, Any, bool]:
        """One of these cannot be applied: half as many the next time; of one event, the rule decides."""
        self._careful = True
        if isinstance(error, EndedTransaction):  # its fault, not that of an event: trying again could write twice
            if error.applied == 0:
                return (yield from self._stop(events[0], _said(error)))
            self._most = error.applied
            return True
        if len(events) > 1:
            self._most = max(1, min(self._most, len(events)) // 2)
            return True
        (event,) = events
        for n in range(1, TRIES):
            yield Rest(0.1 * n)
            try:
                yield self._apply(events, self._advance(event.position))
            except Exception as again:
                if isinstance(again, StaleLease) or trouble_of(again) != "bug":
                    raise
                error = again
            else:
                self._moved(event.position, 1)
                return True
        if not (yield from self.skips(state, event)):
            return (yield from self._stop(event, _said(error)))
        named = (self.projection.name, self.number)
        yield self._apply([], skip_event(*named, event.position, _said(error)), self._advance(event.position))
        self._moved(event.position, 0)
        self.bus.emit(ProjectionStopped(*named, event.position, _said(error), True))
        return True

    def _stop(self, event: Event, said: str) -> Generator[Step, Any, bool]:
        """Say at which event it stops, and why; it waits there for somebody."""
        named = (self.projection.name, self.number)
        stopped = stop_shard(*named, self.written, event.position, said, self.job.claimed)
        yield self._apply([], self._advance(self.written), stopped)
        self.bus.emit(ProjectionStopped(*named, event.position, said, False))
        return False

    def skips(self, state: ShardState, _event: Event) -> Generator[Step, Any, bool]:
        """True if it passes over an event that it cannot apply."""
        yield from ()
        return state.on_error == "skip"

    def _again(self) -> Generator[Step, Any, None]:
        """Apply what was skipped, each in a transaction of its own; what fails again stays skipped."""
        name = self.projection.name
        events: list[Event] = yield Ask(skipped_again(name, self.number))
        for event in events:
            try:
                yield self._apply(
                    [event], reapplied(name, self.number, event.position, self.job.claimed), self._advance(self.written)
                )
            except Exception as error:
                if isinstance(error, StaleLease) or trouble_of(error) != "bug":
                    raise
                noted = skip_event(name, self.number, event.position, _said(error))
                yield self._apply([], noted, self._advance(self.written))  # who was taken over notes nothing anew
                self.bus.emit(ProjectionStopped(name, self.number, event.position, _said(error), True))

    def _write_down(self, after: float = 0.0) -> Generator[Step, Any, None]:
        """Advance over a stretch without events of ours, now and then: it must not be read for ever."""
        if self.read_to > self.written and (not after or self._clock() - self._written_at > after):
            yield self._apply([], self._advance(self.read_to))
            self._moved(self.read_to, 0)

    def _apply(self, events: list[Event], *then: Statement[Any]) -> Apply:
        return Apply(self.body(events, *then))

    def body(self, events: list[Event], *then: Statement[Any]) -> Body:
        """One transaction: the checkpoint is locked, the events are applied, the checkpoint moves."""
        begun = yield enter_batch(self.projection.name, self.number, self.job.claimed)
        if events:
            yield Call(events, begun.mark)
        for statement in then:  # noqa: UP028, a tuple takes no answers
            yield statement

    def _advance(self, to: int) -> Statement[None]:
        moving = advance(self.projection.name, self.number, self.written, to, self.job.claimed, shards=self._shards)
        return at_its_end(moving, self.projection.ended)

    def _moved(self, to: int, n: int) -> None:
        self.written = self.read_to = to
        self._written_at, self._in_doubt = self._clock(), False
        if n and self.bus.each_job:
            self.bus.emit(ProjectionAdvanced(self.projection.name, self.number, to, n))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
