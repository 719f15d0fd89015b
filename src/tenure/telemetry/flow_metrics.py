"""Metrics of workflows and batches, counted from their events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..events import (
    BatchEnded,
    DefinitionDiffered,
    Event,
    FlowParked,
    FlowWoken,
    StepFailed,
    StepRecorded,
    StepUndone,
)
from .family import Family


class FlowMetrics:
    """Part of the metrics of a worker."""

    def __init__(self) -> None:
        says = "Steps: recorded, failed, undone, recalled."
        self.steps = Family("flow_steps_total", "counter", says, "workflow", "outcome")
        self.parked = Family("flows_parked_total", "counter", "Rows that workflows gave back to wait.", "workflow")
        says = "Attempts at flows whose code has changed."
        self.differed = Family("definition_differs_total", "counter", says, "workflow", "version")
        self.batches = Family("batches_ended_total", "counter", "Batches whose last row has ended.", "outcome")

    def heard_by(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """What each event counts as."""
        return {
            StepRecorded: lambda event: self.steps.add((event.workflow, "recorded")),
            StepFailed: lambda event: self.steps.add((event.workflow, "failed")),
            StepUndone: lambda event: self.steps.add((event.workflow, "undone")),
            FlowWoken: lambda event: self.steps.add((event.workflow, "recalled"), event.steps),
            FlowParked: lambda event: self.parked.add((event.workflow,)),
            DefinitionDiffered: lambda event: self.differed.add((event.workflow, str(event.version))),
            BatchEnded: lambda event: self.batches.add(("failed" if event.failed else "completed",)),
        }
