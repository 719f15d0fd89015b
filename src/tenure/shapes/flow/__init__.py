"""Workflows: a function whose steps are remembered in rows. `from tenure.shapes.flow import Flow, Flows`."""

from __future__ import annotations

from .flow import Flow as Flow
from .flows import Flows as Flows
from .flows import Workflow as Workflow
from .step_context import step_key as step_key
from .step_context import undone_key as undone_key
from .step_values import TIMED_OUT as TIMED_OUT
from .tries import Tries as Tries
from .trouble import DefinitionDiffers as DefinitionDiffers
from .trouble import FlowCancelled as FlowCancelled
from .trouble import FlowLimit as FlowLimit
from .trouble import StepFailed as StepFailed
from .trouble import UseParallel as UseParallel
