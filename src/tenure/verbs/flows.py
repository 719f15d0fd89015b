"""Questions about flows: one instance with its steps, and all instances with how they stand."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ..errors import telling_line
from .statement import Rows, Statement


class FlowStep(NamedTuple):
    """One recorded step, for people."""

    path: str
    n: int
    name: str
    state: str
    tries: int
    recorded_at: datetime
    until: datetime | None
    result: str | None
    error: str | None


class FlowState(NamedTuple):
    """One instance: where it stands, its steps, what it shows, and the signals nobody has asked for."""

    id: UUID
    workflow: str
    version: int
    run: int
    status: str
    attempts: int
    available_at: datetime
    created_at: datetime
    claimed_by: str | None
    last_error: str | None
    cancel: str | None
    name: str | None
    steps: tuple[FlowStep, ...]
    shown: dict[str, Any]
    signals: tuple[str, ...]

    @property
    def waits(self) -> tuple[FlowStep, ...]:
        """What it waits for; nothing if it has ended, or is to be looked at later for another reason."""
        if self.status != "pending":
            return ()
        waits = [step for step in self.steps if step.state in ("waiting", "retrying")]
        return tuple(step for step in waits if step.until is None or step.until >= self.available_at)

    @property
    def trouble(self) -> str | None:
        """The line of its last error that says what went wrong; nothing once it has gone on, or has completed.

        Who goes to sleep or records something new begins its attempts anew.
        """
        parked = self.attempts == 0 and any(step.until == self.available_at for step in self.waits)
        went_on = {"pending": parked, "processing": self.attempts <= 1, "completed": True}.get(self.status, False)
        return telling_line(self.last_error) if self.last_error and not went_on else None


class FlowRow(NamedTuple):
    """One instance in a list."""

    id: UUID
    workflow: str
    version: int
    run: int
    status: str
    name: str | None
    created_at: datetime
    available_at: datetime
    last_error: str | None
    steps: int
    current: str | None
    until: datetime | None


class StuckFlow(NamedTuple):
    """A flow that somebody should look at, and why."""

    id: UUID
    workflow: str
    version: int
    name: str | None
    reason: str
    step: str | None
    tries: int
    seconds: float | None
    said: str | None

    @property
    def sentence(self) -> str:
        """For people."""
        named = (self.step or "").partition(":")[2]
        return {
            "differs": self.said or "definition differs",
            "no_version": self.said or "no worker for its version",
            "cleaning": "still undoing what it did",
            "cancel": "asked to cancel, and has not begun to undo what it did",
            "failing": f"its function failed, attempts so far: {self.tries} ({telling_line(self.said)})",
            "deadline": "past its deadline",
            "retrying": f"step {self.step} failed, {self.tries} tries so far",
            "waits": f"waits for signal {named} for longer than usual",
            "signal": f"signal {self.step} was sent, and it does not ask for it",
        }[self.reason]


class FlowCount(NamedTuple):
    """How many flows of a version are in a state."""

    workflow: str
    version: int
    state: str
    flows: int


class FlowCounts(NamedTuple):
    """Flows by version and state, the oldest signal that nobody has asked for, and the batches that are open."""

    counts: list[FlowCount]
    oldest_signal_seconds: float
    open_batches: int
    oldest_batch_seconds: float


class Said(NamedTuple):
    """One chunk of what a flow told people."""

    n: int
    at: datetime
    chunk: str


def said(id: UUID, after: int = 0, n: int = 500) -> Statement[list[Said]]:
    """What a flow told people after that number, in order."""
    return Statement("said", {"id": id, "after": after, "n": n}, lambda rows: [Said(*row) for row in rows])


class Told:
    """A signal or a cancel for the audit: `asked` answers whether it changed anything, `outcome` what became of it."""

    def __init__(self, statement: Statement[Any]) -> None:
        self.outcome = ""
        self.asked: Statement[bool] = Statement(statement.name, statement.params, self._read)

    def _read(self, rows: Rows) -> bool:
        self.outcome = str(rows[0][1])
        return self.outcome in ("delivered", "queued", "asked")


def flow_state(id: UUID | None, *, named: str | None = None) -> Statement[FlowState | None]:
    """An instance by its id or by the idempotency key of its name."""

    def read(rows: Rows) -> FlowState | None:
        if not rows:
            return None
        *facts, steps, shown, signals = rows[0]
        made = tuple(FlowStep(*_step(each)) for each in msgspec.json.decode(steps or "[]"))
        return FlowState(*(*facts, made, msgspec.json.decode(shown or "{}"), tuple(signals or ())))

    return Statement("flow_state", {"id": id, "named": named}, read)


def stuck_flows(workflow: str | None = None, *, n: int = 100) -> Statement[list[StuckFlow]]:
    """Flows that somebody should look at, the oldest first: each with the first reason that applies."""
    params = {"workflow": workflow, "n": n}
    return Statement("stuck_flows", params, lambda rows: [StuckFlow(*row) for row in rows])


def flow_counts(n: int = 500) -> Statement[FlowCounts]:
    """How many flows are in which state, and what else waits; at most so many lines."""

    def read(rows: Rows) -> FlowCounts:
        ((*_, signal, batches, batch),) = [row for row in rows if row[0] is None]
        found = [FlowCount(*row[:4]) for row in rows if row[0] is not None]
        return FlowCounts(found, signal or 0.0, batches, batch or 0.0)

    return Statement("flow_counts", {"n": n}, read)


def children(group: int) -> Statement[tuple[list[UUID], bool]]:
    """The rows of a group in the order in which they were sent, and whether it has ended."""
    return Statement("children", {"id": group}, lambda rows: (list(rows[0][0]), rows[0][1]) if rows else ([], True))


def _step(each: list[Any]) -> list[Any]:
    path, n, name, state, tries, at, until, result, error = each
    when = datetime.fromisoformat
    return [path, n, name, state, tries, when(at), until and when(until), result, error]


def flows(workflow: str | None = None, *, state: str | None = None, n: int = 100) -> Statement[list[FlowRow]]:
    """Instances that live, or have ended badly, the newest first: of a workflow, in a state (waiting, running, …)."""
    params = {"workflow": workflow, "state": state, "n": n}
    return Statement("flows", params, lambda rows: [FlowRow(*row) for row in rows])
