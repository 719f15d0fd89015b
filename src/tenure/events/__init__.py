"""Events: what happened, in the past tense and typed. Logs, metrics, the dashboard and tests read only these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from .bus import Bus as Bus
from .bus import Subscriber as Subscriber
from .event import Event as Event
from .fleet import ChoreDone as ChoreDone
from .fleet import ChoreFailed as ChoreFailed
from .fleet import DatabaseBack as DatabaseBack
from .fleet import DatabaseUnreachable as DatabaseUnreachable
from .fleet import RingChanged as RingChanged
from .fleet import StatementTurnedAway as StatementTurnedAway
from .fleet import WakeupChanged as WakeupChanged
from .fleet import Woken as Woken
from .fleet import WorkerDraining as WorkerDraining
from .fleet import WorkerExit as WorkerExit
from .fleet import WorkerSeen as WorkerSeen
from .fleet import WorkerStarted as WorkerStarted
from .flowed import BatchEnded as BatchEnded
from .flowed import DefinitionDiffered as DefinitionDiffered
from .flowed import FlowParked as FlowParked
from .flowed import FlowWoken as FlowWoken
from .flowed import StepFailed as StepFailed
from .flowed import StepRecorded as StepRecorded
from .flowed import StepUndone as StepUndone
from .hooks import DeliveryMade as DeliveryMade
from .hooks import EndpointDisabled as EndpointDisabled
from .hooks import EndpointRestored as EndpointRestored
from .hooks import EndpointTripped as EndpointTripped
from .hooks import WebhookDiffers as WebhookDiffers
from .hooks import WebhookReceived as WebhookReceived
from .hooks import WebhookRefused as WebhookRefused
from .logins import LoginFailed as LoginFailed
from .outbox import BrokerAway as BrokerAway
from .outbox import BrokerBack as BrokerBack
from .outbox import MessagePublished as MessagePublished
from .outbox import MessageRefused as MessageRefused
from .projected import ProjectionAdvanced as ProjectionAdvanced
from .projected import ProjectionStopped as ProjectionStopped
from .projected import ProjectionSwapped as ProjectionSwapped

# -- one row, one job


@dataclass(frozen=True, slots=True)
class RowEnqueued(Event):
    """A handler's `enqueue` sent a row: enqueued or duplicate. A rollback takes the row back, not this event."""

    name: ClassVar[str] = "row_enqueued"
    level: ClassVar[str] = "debug"
    job_id: UUID
    kind: str
    queue: str
    outcome: str


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
    """The row was given back, and the attempt is not counted: a drain, a Snooze, a Release, or an unknown kind."""

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
    """A handler was told to stop: its lease is lost, and another worker may hold the row."""

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
    """A handler did not stop at its timeout; its slot stays taken until it does."""

    name: ClassVar[str] = "handler_overran"
    level: ClassVar[str] = "warning"
    worker: str
    job_id: UUID
    token: int
    kind: str
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class EncryptionKeyMissing(Event):
    """A row was given back: its payload is encrypted, and this worker cannot open it. The attempt is not counted."""

    name: ClassVar[str] = "encryption_key_missing"
    level: ClassVar[str] = "error"
    worker: str
    job_id: UUID
    token: int
    kind: str
    queue: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class RaisedAfterCompletion(Event):
    """A handler raised, or returned another outcome, after its `fenced()` block: the row stays completed."""

    name: ClassVar[str] = "raised_after_completion"
    level: ClassVar[str] = "error"
    worker: str
    job_id: UUID
    token: int
    kind: str
    queue: str
    error: str
    where: str = ""  # file, line and function; empty if nothing was raised


# -- many rows


@dataclass(frozen=True, slots=True)
class ClaimAnswered(Event):
    """A claim was answered, perhaps with no row. Completions in the same round trip are part of its time."""

    name: ClassVar[str] = "claim_answered"
    level: ClassVar[str] = "debug"
    worker: str
    rows: int
    claim_seconds: float

    @property
    def news(self) -> bool:
        """False: it is only counted; LeaseAcquired tells of each row."""
        return False


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
