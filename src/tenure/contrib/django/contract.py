"""What Django asks of a backend for tasks: by `django.tasks` since Django 6, before by the backport `django_tasks`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

if find_spec("django.tasks") is not None:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
else:
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "TenureTask",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureTask(Task):
    """A task with what a row can have besides: `@task(max_attempts=3)`, `send.using(idempotency_key="k").enqueue()`."""

    key: str | None = None
    idempotency_key: str | None = None
    max_attempts: int | None = None

    def using(
        self,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
        max_attempts: int | None = None,
        **more: Any,
    ) -> Any:
        """The same task with other options."""
        given = {"key": key, "idempotency_key": idempotency_key, "max_attempts": max_attempts}
        changed = {name: value for name, value in given.items() if value is not None}
        return replace(Task.using(self, **more), **changed)
