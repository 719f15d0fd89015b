"""A backend for `TASKS`: Django's own tasks, of Django 6 or of the backport `django-tasks`, as rows of Tenure.

TASKS = {"default": {"BACKEND": "tenure.contrib.django.tasks.TenureBackend"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.core import checks
from django.db import connections

from ...app.awaiting import opened
from ...errors import BadSettings, InvalidPayload
from ...model.payload import check_row
from ...model.rows import MAX_ATTEMPTS, Attempt, Row
from ...postgres import run
from ...verbs import questions
from ...verbs.results import ended
from . import conf
from .contract import (
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    TenureTask,
    task_enqueued,
)
from .task_handlers import BACKEND, RUN_AFTER, handler_of, task_named
from .task_record import errors_of, workers_of

OPTIONS = ("database", "max_attempts")
STATUSES = {
    "pending": TaskResultStatus.READY,
    "processing": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
}


class TenureBackend(BaseTaskBackend):
    """Tasks are enqueued on Django's own connection: in the transaction that is open there, with your own writes."""

    task_class = TenureTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.alias = alias
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise BadSettings(
                f"TASKS[{alias!r}]['OPTIONS'] has the unknown name {unknown[0]!r}: choose from {', '.join(OPTIONS)}"
            )

    @property
    def using(self) -> str:
        """The name in DATABASES of the database with its rows."""
        return str(self.options.get("database", conf.alias()))

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send one row. If its transaction is rolled back it was never there: `on_commit` is not needed."""
        self.validate_task(task)
        result = self._result(task, args=list(args), kwargs=dict(kwargs))  # refuses what is not JSON
        sent = (
            handler_of(task)
            .using(**self._how(task))
            .enqueue(connections[self.using], args=result.args, kwargs=result.kwargs)
        )
        if sent.outcome != "enqueued":
            return self.get_result(str(sent.id))
        object.__setattr__(result, "id", str(sent.id))
        object.__setattr__(result, "enqueued_at", _made_at(sent.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: Any) -> Any:
        """How far a task is, from its row; TaskResultDoesNotExist if there is none, or no more."""
        try:
            id = UUID(str(result_id))
        except ValueError:
            raise TaskResultDoesNotExist(result_id) from None
        conn, schema = conf.raw(self.using), conf.schema()
        row = run(conn, questions.row(id), schema)
        task = row and task_named(row.kind)
        if row is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        tape = run(conn, questions.tape(id), schema)
        result = self._of_row(task, row, tape)
        if row.status == "completed":
            object.__setattr__(result, "_return_value", opened(run(conn, ended([id]), schema)[0], None).value)
        return result

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """For `manage.py check`: the app must be there, or its tables are not."""
        from django.apps import apps

        if apps.is_installed("tenure.contrib.django"):
            return []
        step = "put 'tenure.contrib.django' into INSTALLED_APPS"
        return [
            checks.Error(f"TASKS[{self.alias!r}] is Tenure's, whose app is not installed: {step}", id="tenure.E006")
        ]

    def validate_task(self, task: Any) -> None:
        """Django's rules, and ours: a kind, a queue and a key must be such as a row can have."""
        super().validate_task(task)
        try:
            check_row(handler_of(task).using(**self._how(task)).row(args=[], kwargs={}))
        except (BadSettings, InvalidPayload) as error:
            raise InvalidTask(str(error)) from None

    def _how(self, task: Any) -> dict[str, Any]:
        """The options of a row, as the task has them."""
        how: dict[str, Any] = {"queue": task.queue_name, "priority": task.priority}
        for name in ("key", "idempotency_key", "max_attempts"):
            if (value := getattr(task, name, None)) is not None:
                how[name] = value
        if "max_attempts" not in how and "max_attempts" in self.options:
            how["max_attempts"] = self.options["max_attempts"]
        how["headers"] = {BACKEND: self.alias}
        if task.run_after is not None:
            how["at"] = task.run_after if task.run_after.tzinfo else task.run_after.astimezone()
            how["headers"][RUN_AFTER] = task.run_after.isoformat()
        return how

    def _result(self, task: Any, **known: Any) -> Any:
        empty: dict[str, Any] = {
            "id": "",
            "status": TaskResultStatus.READY,
            **dict.fromkeys(("enqueued_at", "started_at", "finished_at", "last_attempted_at")),
            "backend": self.alias,
            "errors": [],
            "worker_ids": [],
        }
        return TaskResult(task=task, **{**empty, **known})

    def _of_row(self, task: Any, row: Row, tape: list[Attempt]) -> Any:
        sent: Mapping[str, Any] = msgspec.json.decode(row.payload)
        begun = [each.claimed_at for each in tape]
        return self._result(
            self._as_sent(task, row),
            id=str(row.id),
            args=sent.get("args", []),
            kwargs=sent.get("kwargs", {}),
            status=STATUSES.get(row.status, TaskResultStatus.FAILED),
            enqueued_at=_made_at(row.id),
            started_at=begun[0] if begun else None,
            last_attempted_at=begun[-1] if begun else None,
            finished_at=row.finished_at,
            errors=errors_of(tape),
            worker_ids=workers_of(tape),
        )

    def _as_sent(self, task: Any, row: Row) -> Any:
        """The task with the options that its row was sent with."""
        headers: Mapping[str, str] = msgspec.json.decode(row.headers or "{}")
        how: dict[str, Any] = {"priority": row.priority, "queue_name": row.queue, "backend": self.alias}
        if RUN_AFTER in headers:
            how["run_after"] = datetime.fromisoformat(headers[RUN_AFTER])
        if isinstance(task, TenureTask):
            how["idempotency_key"] = row.idempotency_key
            how["key"] = None if row.partition_key == str(row.id) else row.partition_key
            usual = self._how(task).get("max_attempts", MAX_ATTEMPTS)
            how["max_attempts"] = row.max_attempts if row.max_attempts != usual else None
        return task.using(**how)


def _made_at(id: UUID) -> datetime:
    """When a row was made, by the database's clock: its id begins with the milliseconds."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)
