"""What happens, in the past tense and typed: the one source of logs, metrics, pictures and test assertions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `name` is what logs and metrics call it."""

    name: ClassVar[str] = "event"

    def fields(self) -> dict[str, Any]:
        """The event as a flat record, ready for JSON."""
        values = asdict(self)
        return {"event": self.name, **{k: str(v) if isinstance(v, UUID) else v for k, v in values.items()}}


@dataclass(frozen=True, slots=True)
class LeaseAcquired(Event):
    name: ClassVar[str] = "lease_acquired"
    worker: str
    job_id: UUID
    token: int


@dataclass(frozen=True, slots=True)
class ExecutionStarted(Event):
    name: ClassVar[str] = "execution_started"
    worker: str
    job_id: UUID
    token: int


@dataclass(frozen=True, slots=True)
class JobCompleted(Event):
    name: ClassVar[str] = "job_completed"
    worker: str
    job_id: UUID
    token: int


@dataclass(frozen=True, slots=True)
class StaleWriteBlocked(Event):
    name: ClassVar[str] = "stale_write_blocked"
    worker: str
    job_id: UUID
    stale_token: int
    current_token: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class LeasesSwept(Event):
    name: ClassVar[str] = "leases_swept"
    worker: str
    rows: int


@dataclass(frozen=True, slots=True)
class WorkerExit(Event):
    name: ClassVar[str] = "worker_exit"
    worker: str
    reason: str
