"""What happens to workflows and batches. That a workflow began or ended is told as of every row: job_completed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from .event import Event


@dataclass(frozen=True, slots=True)
class StepRecorded(Event):
    """A step of a workflow is written down: begun, done, patched, cancelled."""

    name: ClassVar[str] = "step_recorded"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    workflow: str
    step: str
    state: str


@dataclass(frozen=True, slots=True)
class StepFailed(StepRecorded):
    """A step has failed for good."""

    name: ClassVar[str] = "step_failed"
    level: ClassVar[str] = "warning"
    error: str = ""


@dataclass(frozen=True, slots=True)
class StepUndone(StepRecorded):
    """What a step did was taken back."""

    name: ClassVar[str] = "step_undone"
    level: ClassVar[str] = "info"


@dataclass(frozen=True, slots=True)
class FlowParked(Event):
    """A workflow waits and has given its row back."""

    name: ClassVar[str] = "flow_parked"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    workflow: str
    waits: str  # for what, by their names


@dataclass(frozen=True, slots=True)
class FlowWoken(Event):
    """A workflow goes on where it stopped; so many steps are known from their records."""

    name: ClassVar[str] = "flow_woken"
    level: ClassVar[str] = "debug"
    worker: str
    job_id: UUID
    token: int
    workflow: str
    steps: int


@dataclass(frozen=True, slots=True)
class DefinitionDiffered(Event):
    """The code asks for another step than the one that is recorded; nothing of it was run."""

    name: ClassVar[str] = "definition_differs"
    level: ClassVar[str] = "error"
    worker: str
    job_id: UUID
    token: int
    workflow: str
    version: int
    error: str


@dataclass(frozen=True, slots=True)
class BatchEnded(Event):
    """Every row of a batch has ended; told once, by the worker that was the first to see it."""

    name: ClassVar[str] = "batch_ended"
    worker: str
    batch: int
    batch_name: str
    rows: int
    failed: int
    cancelled: int
    seconds: float
