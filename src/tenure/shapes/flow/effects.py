"""What the core asks a driver to do, as values, and what it knows of a flow and its steps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple
from uuid import UUID

from ...events import Event
from ...verbs.statement import Statement
from ...verbs.steps import Step, Wait
from .tries import Tries


class Write(NamedTuple):
    """Record these; answered with a Recorded."""

    steps: tuple[Step, ...]


class Run(NamedTuple):
    """Call a function; answered with what it returned, or raises what it raised."""

    call: Call


class Fenced(NamedTuple):
    """Call a function in a transaction that ends with the record; answered with the JSON of its result."""

    call: Call
    tries: int


class Hold(NamedTuple):
    """Wait for this, parked if nothing else is to be done; answered with the step as it is then."""

    wait: Wait


class Nap(NamedTuple):
    """Wait in place."""

    seconds: float


class Main(NamedTuple):
    """Call the workflow's own function."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    fields: dict[str, Any]


class Sub(NamedTuple):
    """Carry this to its end, as a call."""

    doing: Any


class Ask(NamedTuple):
    """Run a statement on a connection of the worker's."""

    statement: Statement[Any]


class Recall(NamedTuple):
    """Ask for the records of a run."""

    run: int


class Stop(NamedTuple):
    """End the row as cancelled, or begin it anew with this payload."""

    reason: str = ""
    payload: str | None = None


class Tell(NamedTuple):
    """Emit this event."""

    event: Event


Effect = Tell | Ask | Main | Sub | Recall | Stop | Write | Run | Fenced | Hold | Nap
Doing = Generator[Effect, Any, Any]


class Call(NamedTuple):
    """One step as the function asks for it."""

    path: str
    n: int
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tries: Tries
    timeout_seconds: float | None
    undoes: str | None = None
    fenced: bool = False
    undo: Callable[..., Any] | None = None
    args_hash: int = 0


class Instance(NamedTuple):
    """Which flow this is."""

    id: UUID
    workflow: str
    version: int
    run: int = 1
    deadline: float | None = None  # since 1970
    strict: bool = False
    cleanup_seconds: float = 600.0
    redriven_at: float = 0.0  # since 1970: its time to clean up begins again then
    seen_at: float = 0.0  # since 1970: the database's clock has passed this
