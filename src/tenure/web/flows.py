"""Flows: a list of them, and one with its steps, what it waits for and its children; signal and cancel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from ..errors import telling_line
from ..verbs.batches import group
from ..verbs.flows import FlowState, FlowStep, Told, flow_state, stuck_flows
from ..verbs.flows import flows as found_flows
from ..verbs.statement import Statement
from ..verbs.steps import SIGNAL_BYTES_MAX, cancel_flow, signal
from .answers import EXCERPT_MAX, utc
from .http_errors import Refused
from .route import Ask, Asked, Error, Name, Route
from .site import Site

GROUPS_MAX = 50  # of one flow, whose counts are read
State = Literal["pending", "processing", "waiting", "failed", "dead_letter", "cancelled"]


class FlowsAsked(Asked, frozen=True):
    """Which flows."""

    workflow: Name | None = None
    state: State | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class SignalAsked(Asked, frozen=True):
    """What is sent; the payload may be any JSON."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=SIGNAL_BYTES_MAX)]
    payload: Any = None


class CancelAsked(Asked, frozen=True):
    """Why it is to stop; written to its row and to the audit."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class FlowLine(msgspec.Struct, frozen=True):
    """One flow in the list, with the step it stands at."""

    id: UUID
    workflow: str
    version: int
    run: int
    state: str
    name: str | None
    created_at: datetime
    last_error: str | None
    steps: int
    current: str | None
    until: datetime | None


class FlowsShape(msgspec.Struct, frozen=True):
    """Flows that live or have ended badly, the newest first."""

    flows: list[FlowLine]


class StuckAsked(Asked, frozen=True):
    """Of which workflow, and how many."""

    workflow: Name | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class StuckLine(msgspec.Struct, frozen=True):
    """A flow that somebody should look at, and why."""

    id: UUID
    workflow: str
    version: int
    name: str | None
    reason: str
    why: str
    seconds: float | None


class StuckShape(msgspec.Struct, frozen=True):
    """Those that somebody should look at, the oldest first."""

    stuck: list[StuckLine]


class ChildrenShape(msgspec.Struct, frozen=True):
    """The children of one step, counted."""

    batch: str
    size: int
    open: int
    failed: int
    cancelled: int
    ended: bool


class StepShape(msgspec.Struct, frozen=True):
    """One step; `path` is empty for the function itself, and begins with \"undo\" for what is taken back."""

    path: str
    n: int
    name: str
    state: str
    tries: int
    recorded_at: datetime
    until: datetime | None
    result: str | None
    error: str | None
    children: ChildrenShape | None


class FlowShape(msgspec.Struct, frozen=True):
    """One flow: where it stands, and every step of its run."""

    id: UUID
    workflow: str
    version: int
    run: int
    status: str
    attempts: int
    name: str | None
    created_at: datetime
    worker: str | None
    last_error: str | None
    cancel: str | None
    steps: list[StepShape]
    shown: str | None
    signals: list[str]


class FlowTold(msgspec.Struct, frozen=True):
    """What became of it: delivered, queued or asked."""

    id: UUID
    outcome: str


async def flows(ask: Ask[FlowsAsked, None]) -> FlowsShape:
    """Flows that live or have ended badly, the newest first, each with the step it stands at."""
    asked = ask.query
    found = await ask.site.store.ask(found_flows(asked.workflow, state=asked.state, n=asked.n))
    return FlowsShape(
        [
            FlowLine(
                id=each.id,
                workflow=each.workflow,
                version=each.version,
                run=each.run,
                state=each.status,
                name=each.name,
                created_at=utc(each.created_at),
                last_error=each.last_error and telling_line(each.last_error)[:EXCERPT_MAX],
                steps=each.steps,
                current=each.current,
                until=utc(each.until),
            )
            for each in found
        ]
    )


async def stuck(ask: Ask[StuckAsked, None]) -> StuckShape:
    """Flows that somebody should look at, the oldest first, each with the first reason that applies."""
    found = await ask.site.store.ask(stuck_flows(ask.query.workflow, n=ask.query.n))
    return StuckShape(
        [
            StuckLine(
                each.id, each.workflow, each.version, each.name, each.reason, each.sentence[:EXCERPT_MAX], each.seconds
            )
            for each in found
        ]
    )


async def flow(ask: Ask[Any, None]) -> FlowShape:
    """One flow with its steps, what it waits for, its undos, and its children by their count."""
    id, site = ask.path["id"], ask.site
    state = await site.store.ask(flow_state(id))
    if state is None:
        raise Refused(404, f"there is no flow {id}: GET api/flows lists them")
    children = {}
    for batch in _batches(state.steps)[:GROUPS_MAX]:
        if (counted := await site.store.ask(group(batch))) is not None:
            over = counted.ended_at is not None
            children[batch] = ChildrenShape(
                str(batch), counted.size, counted.open, counted.failed, counted.cancelled, over
            )
    return _shape(state, children, site)


def _shape(state: FlowState, children: dict[int, ChildrenShape], site: Site) -> FlowShape:
    shown = msgspec.json.encode(state.shown).decode() if state.shown else None
    return FlowShape(
        id=state.id,
        workflow=state.workflow,
        version=state.version,
        run=state.run,
        status=state.status,
        attempts=state.attempts,
        name=state.name,
        created_at=utc(state.created_at),
        worker=state.claimed_by,
        last_error=state.trouble and state.trouble[:EXCERPT_MAX],
        cancel=state.cancel,
        steps=[_step(step, children, site) for step in state.steps],
        shown=site.payload(shown),
        signals=list(state.signals),
    )


def _step(step: FlowStep, children: dict[int, ChildrenShape], site: Site) -> StepShape:
    batch = _batch(step)
    return StepShape(
        path=step.path,
        n=step.n,
        name=step.name,
        state=step.state,
        tries=step.tries,
        recorded_at=utc(step.recorded_at),
        until=utc(step.until),
        result=_result(step, site),
        error=step.error and step.error[:EXCERPT_MAX],
        children=None if batch is None else children.get(batch),
    )


def _result(step: FlowStep, site: Site) -> str | None:
    """What a step returned, as payloads are shown; one that is named like a secret returns one."""
    shown = site.payload(step.result)
    return "***" if shown and site.redaction.covers(step.name) else (shown or "")[:EXCERPT_MAX] or None


def _batch(step: FlowStep) -> int | None:
    """The group that this step waits for."""
    word, _, number = step.name.partition(":")
    return int(number) if word == "group" and number.isdecimal() else None


def _batches(steps: tuple[FlowStep, ...]) -> list[int]:
    """The last first: those are open."""
    return [batch for step in reversed(steps) if (batch := _batch(step)) is not None]


async def send(ask: Ask[Any, SignalAsked]) -> FlowTold:
    """Send a signal."""
    id, body = ask.path["id"], ask.body
    return await _tell(ask, signal(id, body.name, body.payload), f"{id} {body.name}")


async def cancel(ask: Ask[Any, CancelAsked]) -> FlowTold:
    """Ask it to stop."""
    id, reason = ask.path["id"], ask.body.reason
    return await _tell(ask, cancel_flow(id, reason=reason or f"cancelled by {ask.access.actor}"), str(id), reason)


async def _tell(ask: Ask[Any, Any], statement: Statement[Any], target: str, reason: str = "") -> FlowTold:
    told = Told(statement)
    if not await ask.change(told.asked, target, reason):
        raise Refused(404, f"there is no flow {ask.path['id']} that lives: it has ended, or GET api/flows lists others")
    return FlowTold(ask.path["id"], told.outcome)


_TOLD = {200: FlowTold, 404: Error}
ROUTES = (
    Route("GET", "/api/flows", "read", flows, {200: FlowsShape}, query=FlowsAsked),
    Route("GET", "/api/flows/stuck", "read", stuck, {200: StuckShape}, query=StuckAsked),
    Route("GET", "/api/flows/{id}", "read", flow, {200: FlowShape, 404: Error}),
    Route("POST", "/api/flows/{id}/signal", "signal_flow", send, _TOLD, body=SignalAsked),
    Route("POST", "/api/flows/{id}/cancel", "cancel_flow", cancel, _TOLD, body=CancelAsked),
)
