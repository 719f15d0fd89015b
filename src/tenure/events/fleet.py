"""Events of workers, the fleet and the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .event import Event


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
    error_class: str = ""


@dataclass(frozen=True, slots=True)
class StatementTurnedAway(Event):
    """The database refused a statement (a lock, a deadlock, a timeout); it runs again."""

    name: ClassVar[str] = "statement_turned_away"
    level: ClassVar[str] = "debug"
    worker: str
    who: str
    error: str
    error_class: str


@dataclass(frozen=True, slots=True)
class DatabaseBack(Event):
    name: ClassVar[str] = "database_back"
    worker: str
    who: str
    away_seconds: float


@dataclass(frozen=True, slots=True)
class WakeupChanged(Event):
    """How this worker learns of new rows from now on: notify (a note from the database), or poll."""

    name: ClassVar[str] = "wakeup_changed"
    worker: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Woken(Event):
    """This worker looks for rows because of a note from the database (notify), or by its own clock (poll)."""

    name: ClassVar[str] = "woken"
    level: ClassVar[str] = "debug"
    worker: str
    source: str

    @property
    def news(self) -> bool:
        """False: it is only counted."""
        return False


@dataclass(frozen=True, slots=True)
class ChoreDone(Event):
    name: ClassVar[str] = "chore_done"
    level: ClassVar[str] = "debug"
    worker: str
    chore: str
    result: str

    @property
    def news(self) -> bool:
        """True if there was something to do."""
        return bool(self.result)


@dataclass(frozen=True, slots=True)
class ChoreFailed(Event):
    name: ClassVar[str] = "chore_failed"
    level: ClassVar[str] = "warning"
    worker: str
    chore: str
    error: str
