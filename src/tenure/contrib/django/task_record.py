"""The record of a task, in Django's words: who tried, and what went wrong, from the lease tape of its row."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...errors import telling_line
from ...model.rows import Attempt
from .contract import TaskError

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
LEASE_LOST = "tenure.errors.StaleLease"
NO_CLASS = "builtins.Exception"  # an error that is a sentence of Tenure's, or of a class that has no address


def workers_of(tape: Iterable[Attempt]) -> list[str]:
    """Who tried it; an attempt that was given back does not count."""
    return [each.worker for each in tape if each.outcome != "released"]


def errors_of(tape: Iterable[Attempt]) -> list[TaskError]:
    """What each attempt failed of."""
    failed = ("retried", "failed", "dead_lettered", "expired")
    return [
        TaskError(exception_class_path=_class_of(each), traceback=f"{(each.error or each.outcome).rstrip()}\n")
        for each in tape
        if each.outcome in failed
    ]


def _class_of(attempt: Attempt) -> str:
    if attempt.outcome == "expired":
        return LEASE_LOST
    if not (attempt.error or "").startswith("Traceback") and '\n  File "' not in (attempt.error or ""):
        return NO_CLASS
    name = telling_line(attempt.error).partition(":")[0].strip()
    if not _CLASS.fullmatch(name):
        return NO_CLASS
    return name if "." in name else f"builtins.{name}"
