"""Handlers that fail, one in each pool, and an error hook that writes down what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from tenure.app.inbox import Inbox
from tenure.app.job import Job

inbox = Inbox()
around: ContextVar[bool] = ContextVar("around", default=False)


@inbox.around_attempt
def mark(job: Job) -> Iterator[None]:
    """What is around the attempt runs where the handler runs."""
    token = around.set(True)
    try:
        yield
    except ZeroDivisionError as error:
        error.add_note(f"around {around.get()}")
        raise
    finally:
        around.reset(token)


@inbox.on_error
def told(error: BaseException, job: Job) -> None:
    """The exception itself, with its notes."""
    to = Path(job.claimed.decode()["to"])
    to.write_text(f"{job.kind} attempt {job.attempt} {type(error).__name__} {error.__notes__[0]}")


@inbox.handler("on_loop")
async def on_loop(to: str) -> None:
    """Fails."""
    print(to, 1 / 0)


@inbox.handler("in_thread")
def in_thread(to: str) -> None:
    """Fails."""
    print(to, 1 / 0)


@inbox.handler("in_process", pool="process")
def in_process(to: str) -> None:
    """Fails."""
    print(to, 1 / 0)
