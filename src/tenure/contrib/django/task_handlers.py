"""Tasks as handlers: one for each task, of the kind that Django calls its module path."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from traceback import format_exception
from typing import Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.utils import timezone
from django.utils.module_loading import import_string

from ...app.function_kind import is_async
from ...app.handler import Handler
from ...app.inbox import Inbox
from ...app.job import Job
from ...errors import Cancelled, StaleLease
from ...model.outcome import Completed, DeadLetter, Fail, Release, Retry, Snooze
from . import conf
from .contract import (
    Task,
    TaskContext,
    TaskError,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from .hygiene import clean

BACKEND, RUN_AFTER = "django-backend", "django-run-after"  # headers of a row
_OUTCOMES = (Completed, Retry, Snooze, Fail, DeadLetter, Release)


@cache
def inbox() -> Inbox:
    """Where the handlers of tasks are; a worker has them beside those of the project's own inbox."""
    return Inbox(schema=conf.schema())


def handler_of(task: Any) -> Handler[..., ..., Any]:
    """The handler of a task, made when it is first asked for."""
    kind, known = task.module_path, inbox().handlers
    if kind in known and inspect.unwrap(known[kind].function).__wrapped_task__ is not task.func:
        del known[kind]  # its module was loaded again
    if kind not in known:
        run = _awaiting() if is_async(task.func) else _plain()
        vars(run)["__wrapped_task__"] = task.func
        inbox().handler(kind, queue=task.queue_name, priority=task.priority, result=True)(clean(run))
    return known[kind]


def task_named(path: str) -> Any | None:
    """The task of a module path; None if there is none. Only modules of the project are imported for it."""
    module = path.rpartition(".")[0]
    ours = module in sys.modules or any(f"{module}.".startswith(f"{app.name}.") for app in apps.get_app_configs())
    if not ours:
        return None
    try:
        found = import_string(path)
    except ImportError:
        return None
    return found if isinstance(found, Task) else None


def _plain() -> Callable[..., Any]:
    def run_task(job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        task, backend, result = _begun(job)
        task_started.send(type(backend), task_result=result)
        try:
            value = task.func(*_given(task, result, args), **kwargs)
            kept = value if isinstance(value, _OUTCOMES) else normalize_json(value)
        except BaseException as error:
            if _is_last(job, error):
                task_finished.send(type(backend), task_result=_failed(result, error))
            raise
        if not isinstance(kept, _OUTCOMES):
            task_finished.send(type(backend), task_result=_successful(result, kept))
        return kept

    return run_task


def _awaiting() -> Callable[..., Any]:
    async def run_task(job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        task, backend, result = await sync_to_async(_begun)(job)
        await task_started.asend(type(backend), task_result=result)
        try:
            value = await task.func(*_given(task, result, args), **kwargs)
            kept = value if isinstance(value, _OUTCOMES) else normalize_json(value)
        except BaseException as error:
            if _is_last(job, error):
                await task_finished.asend(type(backend), task_result=_failed(result, error))
            raise
        if not isinstance(kept, _OUTCOMES):
            await task_finished.asend(type(backend), task_result=_successful(result, kept))
        return kept

    return run_task


def _begun(job: Job) -> tuple[Any, Any, Any]:
    """The task, its backend, and its result as it stands in the row."""
    backend = task_backends[job.sent_headers.get(BACKEND, "default")]
    result = backend.get_result(str(job.id))
    return result.task, backend, result


def _given(task: Any, result: Any, args: list[Any]) -> list[Any]:
    return [TaskContext(task_result=result), *args] if task.takes_context else args


def _is_last(job: Job, error: BaseException) -> bool:
    """Whether the task ends with this; an attempt that lost its lease, or is to be tried again, is not its end."""
    return job.attempt >= job.max_attempts and not (isinstance(error, StaleLease | Cancelled) or job.lost)


def _failed(result: Any, error: BaseException) -> Any:
    kind = type(error)
    path = f"{kind.__module__}.{kind.__qualname__}"
    result.errors.append(TaskError(exception_class_path=path, traceback="".join(format_exception(error))))
    return _finished(result, TaskResultStatus.FAILED)


def _successful(result: Any, value: Any) -> Any:
    object.__setattr__(result, "_return_value", value)
    return _finished(result, TaskResultStatus.SUCCESSFUL)


def _finished(result: Any, status: Any) -> Any:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
    return result
