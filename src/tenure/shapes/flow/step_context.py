"""Which step runs here: its key, stable over every attempt, for whoever is called from it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from .effects import Instance
from .trouble import InsideStep


class StepContext(NamedTuple):
    """Where the step that runs is, and the key of the step that it undoes. No more: what a body leaves behind holds it.

    The key itself is made when it is asked for: most steps send it nowhere.
    """

    of: Instance
    path: str
    n: int
    undoes: str | None = None

    @property
    def key(self) -> str:
        """The key of the step."""
        return key_of(self.of, self.path, self.n)


def key_of(of: Instance, path: str, n: int) -> str:
    """The key of a step, the same in every attempt."""
    return f"{of.id}/{of.run}/{path}/{n}"


RUNNING: ContextVar[StepContext | None] = ContextVar("tenure_step", default=None)


def outside_of_steps(name: str) -> None:
    """InsideStep where the body of a step or an undo runs: its flow goes on when it has ended, and not before."""
    if RUNNING.get() is not None:
        raise InsideStep(name)


def step_key() -> str:
    """The key of the step that runs: the same in every attempt. Send it along: receivers detect doubles by it.

    It is made of the place of the step, so changed code that moves a step without a record gives it another key.
    """
    running = RUNNING.get()
    if running is None:
        raise RuntimeError("step_key() was called outside a step: call it in the function that flow.step(…) runs")
    return running.key


def undone_key() -> str:
    """In an undo: the key of the step that is undone."""
    running = RUNNING.get()
    if running is None or running.undoes is None:
        raise RuntimeError("undone_key() was called outside an undo: call it in the function given as undo=")
    return running.undoes
