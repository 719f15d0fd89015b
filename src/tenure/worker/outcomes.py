"""What the end of a handler means: its return value or its exception, as an outcome for the database."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..app.function_kind import unrun
from ..app.handler import Handler
from ..app.job import Job
from ..errors import BadSettings, InvalidPayload, StaleLease
from ..model.envelope import MissingKey
from ..model.limits import DELAY_SECONDS_MAX
from ..model.outcome import COMPLETED, Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ..model.veil import Veil

_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')
_UNDONE = (Retry, Snooze, Fail, DeadLetter, Release)


class Poison(Exception):
    """This row's payload does not fit its handler: trying again does not help."""


class ChildError(Exception):
    """An exception of another process, as text."""


def arguments(handler: Handler[..., ..., Any], job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a handler's call, or Poison."""
    try:
        return handler.arguments(job)
    except InvalidPayload as error:
        raise Poison(str(error)) from None


def as_outcome(value: Any, veil: Veil | None = None) -> Outcome:
    """What a handler returned, as an outcome for the database; under a veil, its error tells no value of the payload.

    Any other value means Completed, except a mistake: the class of an outcome, or an exception.
    """
    outcome = _as_outcome(value)
    if veil is not None and isinstance(outcome, _UNDONE) and outcome.error:
        return replace(outcome, error=veil.over(outcome.error))
    return outcome


def outcome_for(handler: Handler[..., ..., Any], job: Job, value: Any) -> Outcome:
    """The same of a handler whose value may be kept as the row's result; one that cannot be kept is a failure."""
    if value is None and not handler.handling.result:
        return COMPLETED
    outcome = as_outcome(value, job.veil)
    if not handler.handling.result or not isinstance(outcome, Completed):
        return outcome
    try:
        return Completed(handler.sealed(None if isinstance(value, Completed) else value, job))
    except InvalidPayload as error:
        why = job.veil.over(str(error)) if job.veil is not None else str(error)
        return Retry(f"what the handler returned cannot be kept as its result: {why}")


def _as_outcome(value: Any) -> Outcome:
    for kind in (Completed, *_UNDONE):
        if isinstance(value, kind):
            try:
                return _checked(kind, value)
            except Exception as error:
                return _no_outcome(type(value).__name__, _text(error))
    return _slip(value) or COMPLETED


def _slip(value: Any) -> Retry | None:
    """A Retry for a value returned by mistake, with what to write instead."""
    if isinstance(value, type) and issubclass(value, _UNDONE):
        return _no_outcome(f"the class {value.__name__}", f"write `return {value.__name__}(...)`")
    if isinstance(value, type) and issubclass(value, BaseException):
        return _no_outcome(f"the class {value.__name__}", "raise it, or write `return Retry(...)`")
    if isinstance(value, BaseException):
        return _no_outcome(_text(value, repr), "raise it, or write `return Retry(...)`")
    if left := unrun(value):
        return Retry(f"the handler returned {left}, which has not run: make it `async def` and await, without yield")
    return None


def _no_outcome(returned: str, advice: str) -> Retry:
    return Retry(f"the handler returned {returned}, which is not an outcome: {advice}")


def _checked(kind: type[Outcome], value: Any) -> Outcome:
    """The same outcome with its error as text and its delay as a number."""
    if kind is Completed:
        return COMPLETED
    error = "" if value.error is None else _text(value.error)
    if kind is Snooze:
        return Snooze(_seconds("seconds", value.seconds), error)
    if kind is Retry and value.after_seconds is not None:
        return Retry(error, _seconds("after_seconds", value.after_seconds))
    return kind(error)  # type: ignore[arg-type]


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= DELAY_SECONDS_MAX:
        raise BadSettings(f"{name}={_text(value)} must be a number between 0 and {DELAY_SECONDS_MAX:.0f}")
    return float(value)


def after_completion(outcome: Outcome | None) -> str:
    """What is to be told of a handler that ended like this after it had completed its row itself; "" for nothing.

    None and Release are no errors of its own: its worker stopped it.
    """
    if not isinstance(outcome, Retry | Fail | DeadLetter | Snooze):
        return ""
    raised = outcome.error.startswith("Traceback")
    return outcome.error if raised else f"{type(outcome).__name__}: {outcome.error}".removesuffix(": ")


def place(error: str) -> str:
    """Where the exception of this traceback was raised, as file:line function; "" if there is none."""
    frames = _FRAME.findall(error)
    return "{}:{} {}".format(*frames[-1]) if frames else ""


def said(error: BaseException, veil: Veil | None = None) -> str:
    """An exception with its traceback, even if its own text cannot be made; under a veil, without that text."""
    if isinstance(error, Poison | ChildError | MissingKey):
        return str(error)
    if veil is not None:
        return veil.traceback(error)
    try:
        return "".join(traceback.format_exception(error))[-8000:]
    except Exception:
        return f"{type(error).__name__} (its text cannot be read)"


def veiled(error: BaseException, job: Job) -> BaseException:
    """The exception for a trace; under a veil, one of the same name that tells nothing."""
    if job.veil is None or isinstance(error, StaleLease | MissingKey | Poison):
        return error
    return job.veil.over_error(error)


def _text(value: Any, words: Callable[[Any], str] = str) -> str:
    try:
        return words(value)
    except Exception:
        return f"{type(value).__name__} (its text cannot be read)"
