"""The inbox that the workers of a Django project run: the handlers of TENURE["INBOX"], and its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import django
from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from ...app.handler import Handler
from ...app.inbox import Inbox
from ...cli.worker import load
from . import conf
from .hygiene import clean

if not apps.ready:
    django.setup()  # where no manage.py did it: `tenure worker tenure.contrib.django.inbox:inbox`


class Handlers(dict[str, Handler[..., ..., Any]]):
    """Handlers by kind; a task whose module nobody has imported yet is found by its kind, which is its module path."""

    def get(self, kind: str, default: Any = None) -> Any:
        """The handler of a kind, or the default."""
        found = super().get(kind)
        if found is None and "." in kind and _backends():
            from .task_handlers import handler_of, task_named

            task = task_named(kind)
            found = self[kind] = handler_of(task) if task is not None else None  # type: ignore[assignment]
            if found is None:
                del self[kind]
        return default if found is None else found


def _backends() -> list[Any]:
    """The backends of TASKS that are ours; none where Django has no tasks."""
    if not conf.has_tasks():
        return []
    from .contract import task_backends
    from .tasks import TenureBackend

    return [backend for backend in task_backends.all() if isinstance(backend, TenureBackend)]


def _whole() -> Inbox:
    named = conf.given().get("INBOX")
    found: Inbox = load(str(named)) if named else Inbox(schema=conf.schema())
    for handler in found.handlers.values():
        if handler.handling.pool != "process":
            handler.function = clean(handler.function)
    found.handlers = Handlers(found.handlers)
    if _backends():
        from .task_handlers import inbox as of_tasks

        autodiscover_modules("tasks")
        found.handlers.update(of_tasks().handlers)
        of_tasks().bus.join(found.bus)
    return found


def queues() -> Iterable[str]:
    """The queues of its handlers, and those that TASKS names."""
    return sorted({*inbox.queues, *(queue for backend in _backends() for queue in backend.queues)})


inbox = _whole()
