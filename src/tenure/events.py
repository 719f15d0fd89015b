"""What happens, in the past tense and typed: the one source of logs, metrics, pictures and test assertions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `name` is what logs and metrics call it, `level` how much it matters."""

    name: ClassVar[str] = "event"
    level: ClassVar[str] = "info"

    @property
    def news(self) -> bool:
        """Is it worth a line to somebody who watches, or only a number to a counter?"""
        return True

    def fields(self) -> dict[str, Any]:
        """The event as a flat record, ready for JSON."""
        values = asdict(self)
        return {"event": self.name, **{k: str(v) if isinstance(v, UUID) else v for k, v in values.items()}}


# -- one job


@dataclass(frozen=True, slots=True)
class LeaseAcquired(Event):
    name: ClassVar[str] = "lease_acquired"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    kind: str = ""
    queue: str = ""
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ExecutionStarted(Event):
    name: ClassVar[str] = "execution_started"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    kind: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class JobCompleted(Event):
    name: ClassVar[str] = "job_completed"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    kind: str = ""
    queue: str = ""
    run_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRetried(Event):
    name: ClassVar[str] = "job_retried"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    token: int
    kind: str
    queue: str
    run_seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class JobReleased(JobRetried):
    """Given back without cost: a drain, a Snooze, a Release, or a kind this worker does not know."""

    name: ClassVar[str] = "job_released"
    level: ClassVar[str] = "info"


@dataclass(frozen=True, slots=True)
class JobFailed(JobRetried):
    name: ClassVar[str] = "job_failed"
    level: ClassVar[str] = "error"


@dataclass(frozen=True, slots=True)
class JobDeadLettered(JobRetried):
    name: ClassVar[str] = "job_dead_lettered"
    level: ClassVar[str] = "error"


@dataclass(frozen=True, slots=True)
class JobCancelled(JobRetried):
    name: ClassVar[str] = "job_cancelled"
    level: ClassVar[str] = "info"


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """The holder was told to stop: somebody else may have the row by now."""

    name: ClassVar[str] = "lease_lost"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class StaleWriteBlocked(Event):
    name: ClassVar[str] = "stale_write_blocked"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    stale_token: int
    current_token: int | None
    reason: str
    verb: str = "complete"


@dataclass(frozen=True, slots=True)
class HandlerOverran(Event):
    """A handler did not stop when its time was up; its slot stays taken until it does."""

    name: ClassVar[str] = "handler_overran"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    token: int
    kind: str
    timeout_seconds: float


# -- many rows


@dataclass(frozen=True, slots=True)
class LeasesRenewed(Event):
    name: ClassVar[str] = "lease_renewed"
    level: ClassVar[str] = "debug"
    worker: str
    rows: int


@dataclass(frozen=True, slots=True)
class LeasesSwept(Event):
    name: ClassVar[str] = "leases_swept"
    worker: str
    rows: int
    reason: str = "lease_expired"


@dataclass(frozen=True, slots=True)
class ScheduleFired(Event):
    name: ClassVar[str] = "schedule_fired"
    worker: str
    schedule: str
    rows: int


# -- the fleet


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    name: ClassVar[str] = "worker_started"
    worker: str
    queues: str
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerDraining(Event):
    name: ClassVar[str] = "worker_draining"
    worker: str
    held: int


@dataclass(frozen=True, slots=True)
class WorkerExit(Event):
    name: ClassVar[str] = "worker_exit"
    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerSeen(Event):
    """Another worker's session is gone, is back, or was gone for too long (dead)."""

    name: ClassVar[str] = "worker_seen"
    worker: str
    other: str
    seen: str


@dataclass(frozen=True, slots=True)
class RingChanged(Event):
    name: ClassVar[str] = "ring_changed"
    worker: str
    workers: int
    owned: int
    moved: int


# -- the database


@dataclass(frozen=True, slots=True)
class DatabaseUnreachable(Event):
    name: ClassVar[str] = "database_unreachable"
    level: ClassVar[str] = "warning"
    worker: str
    who: str
    error: str


@dataclass(frozen=True, slots=True)
class DatabaseBack(Event):
    name: ClassVar[str] = "database_back"
    worker: str
    who: str
    away_seconds: float


@dataclass(frozen=True, slots=True)
class WakeupChanged(Event):
    """How this worker learns of new rows from now on: notify (a note by the database), or poll."""

    name: ClassVar[str] = "wakeup_changed"
    worker: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChoreDone(Event):
    name: ClassVar[str] = "chore_done"
    level: ClassVar[str] = "debug"
    worker: str
    chore: str
    result: str

    @property
    def news(self) -> bool:
        """Only when there was something to do."""
        return bool(self.result)


@dataclass(frozen=True, slots=True)
class ChoreFailed(Event):
    name: ClassVar[str] = "chore_failed"
    level: ClassVar[str] = "warning"
    worker: str
    chore: str
    error: str


Subscriber = Callable[[Event], None]


class Bus:
    """Where events go. Subscribers are called in turn, on the thread that emits; one that raises is dropped."""

    def __init__(self) -> None:
        self._all: tuple[Subscriber, ...] = ()
        self._each_job: tuple[Subscriber, ...] = ()

    def subscribe(self, subscriber: Subscriber, *, each_job: bool = True) -> None:
        """Hear every event from now on; with each_job=False not those that every single job brings (level debug)."""
        self._all += (subscriber,)
        if each_job:
            self._each_job += (subscriber,)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Hear nothing more."""
        self._all = tuple(each for each in self._all if each != subscriber)
        self._each_job = tuple(each for each in self._each_job if each != subscriber)

    @property
    def each_job(self) -> bool:
        """Does anybody want the events of every job? Making them costs more than a job does."""
        return bool(self._each_job)

    def emit(self, event: Event) -> None:
        """Tell the subscribers."""
        for subscriber in self._each_job if event.level == "debug" else self._all:
            try:
                subscriber(event)
            except Exception:
                self.unsubscribe(subscriber)  # one that raises must not take the work down with it
