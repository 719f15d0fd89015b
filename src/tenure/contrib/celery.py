"""Code written for Celery on Tenure: `@shared_task`, `delay`, `apply_async` and `self.retry`, without Celery.

shared_task = Celery(inbox, conn=lambda: django.db.connection).shared_task

It is a way to move: what is sent is an ordinary row, and its handler an ordinary handler of the inbox.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn, overload
from uuid import UUID

from ..app.function_kind import is_async
from ..app.inbox import Inbox
from ..app.job import Job
from ..embedded.default_database import address
from ..errors import BadSettings, Cancelled, StaleLease, telling_line
from ..model.outcome import DeadLetter, Fail, Retry
from ..postgres import connect
from ..postgres.callers import awaits
from ..worker.outcomes import said
from .celery_words import DECLARED, Retries, aware, check, sent_with

_NOT_HERE = {
    "s": "use a batch or a workflow for chains, groups and chords",
    "si": "use a batch or a workflow for chains, groups and chords",
    "signature": "use a batch or a workflow for chains, groups and chords",
    "apply": "call the function itself",
    "chunks": "enqueue many rows in one transaction",
    "update_state": "use job.progress() in a handler",
    "replace": "use a workflow",
    "AsyncResult": "use inbox.result_blocking(id), or `tenure row ID`",
    "subtask": "use a batch or a workflow for chains, groups and chords",
    "map": "enqueue many rows in one transaction",
    "starmap": "enqueue many rows in one transaction",
}
_NOT_OF_AN_APP = {
    "conf": "settings are TENURE_… variables or a settings file: `tenure help`",
    "config_from_object": "settings are TENURE_… variables or a settings file: `tenure help`",
    "autodiscover_tasks": "import the modules that use it where the inbox is made",
    "send_task": "use `tenure enqueue KIND`, or tenure.enqueue(…) in SQL",
    "control": "use `tenure workers`, `tenure cancel` and the dashboard",
    "AsyncResult": "use inbox.result_blocking(id), or `tenure row ID`",
    "start": "run `tenure worker MODULE:INBOX`",
    "worker_main": "run `tenure worker MODULE:INBOX`",
}
_NOT_OF_A_RESULT = {
    **dict.fromkeys(("status", "state", "ready", "successful", "failed", "result"), "use get(), or `tenure row ID`"),
    **dict.fromkeys(("revoke", "forget"), "use `tenure cancel ID`"),
}


class Request(NamedTuple):
    """`self.request` of a bound function: as much of it as a row knows."""

    id: str
    retries: int
    args: list[Any]
    kwargs: dict[str, Any]
    called_directly: bool = False


class Again(Exception):
    """Raised by self.retry(): this attempt ends, and another follows after so many seconds."""

    def __init__(self, seconds: float, error: BaseException | None) -> None:
        super().__init__(f"to be tried again after {seconds:g} s")
        self.seconds, self.error = seconds, error


class TooManyRetries(Exception):
    """self.retry() was called in the last attempt, without an error to raise."""


class Sent(NamedTuple):
    """What delay and apply_async answer: the row's id, and a way to wait for its value."""

    id: str
    outcome: str
    inbox: Inbox

    def get(self, timeout: float = 60.0) -> Any:
        """What the function returned; TimeoutError if it has not ended by then, RuntimeError if it ended badly."""
        ended = self.inbox.result_blocking(UUID(self.id), timeout_seconds=timeout)
        if ended.status != "completed":
            told = telling_line(ended.error) or "no error is known"
            raise RuntimeError(f"row {self.id} ended as {ended.status}: {told}")
        return ended.value

    def __getattr__(self, name: str) -> NoReturn:
        raise _missing("the answer of delay()", name, _NOT_OF_A_RESULT)


def _missing(of: str, name: str, instead: dict[str, str]) -> AttributeError:
    step = f" on Tenure: {instead[name]}" if name in instead else ""
    return AttributeError(f"{of} has no {name!r}{step}")


_current: ContextVar[Request | None] = ContextVar("tenure_celery_request", default=None)


class SharedTask:
    """A function with delay and apply_async; called, it is the function itself."""

    def __init__(self, of: Celery, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.name = options.get("name") or f"{function.__module__}.{function.__name__}"
        where = f"task {self.name!r}"
        check(options, DECLARED, where)
        if is_async(function):
            raise BadSettings(f"{where} is async, which Celery does not run: make it a handler, @inbox.handler(…)")
        functools.update_wrapper(self, function)
        self._of, self._function, self._bound = of, function, bool(options.get("bind"))
        self._retries = Retries.read(options, where)
        self.max_retries = self._retries.most
        self.handler = of.inbox.handler(
            self.name,
            queue=options.get("queue") or "default",
            priority=options.get("priority") or 0,
            max_attempts=self.max_retries + 1,
            timeout_seconds=options.get("time_limit"),
            result=not options.get("ignore_result"),
        )(self._handle)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, as in a test."""
        return self._function(*([self] if self._bound else []), *args, **kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        raise _missing(f"task {self.__dict__.get('name', '')!r}", name, _NOT_HERE)

    def delay(self, *args: Any, **kwargs: Any) -> Sent:
        """Send it with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Sent:
        """The same with options: countdown, eta, queue, priority; and ours: key, idempotency_key."""
        how = sent_with(options, f"apply_async of {self.name!r}")
        given = list(args or ()), dict(kwargs or {})
        self._check(*given)
        return self._of.send(self.handler.using(**how), dict(zip(("args", "kwargs"), given, strict=True)))

    def _check(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """TypeError here, and not in a worker, if the function does not take them."""
        try:
            inspect.signature(self._function).bind(*([self] if self._bound else []), *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None

    @property
    def request(self) -> Request:
        """What is known of this attempt."""
        return _current.get() or Request("", 0, [], {}, called_directly=True)

    def retry(
        self,
        *,
        exc: BaseException | None = None,
        countdown: float | None = None,
        eta: datetime | None = None,
        max_retries: int | None = None,
        **others: Any,
    ) -> NoReturn:
        """End this attempt, and try again later; in the last one, raise the error itself."""
        where = f"retry of {self.name!r}"
        if others:
            raise BadSettings(f"{where} has {sorted(others)[0]}: a row keeps its arguments and its queue, send another")
        if max_retries is not None and max_retries > self.max_retries:
            raise BadSettings(f"{where} has max_retries={max_retries}, above the {self.max_retries} of its decorator")
        most = self.max_retries if max_retries is None else max_retries
        if self.request.called_directly or self.request.retries >= most:
            raise exc or TooManyRetries(f"{self.name} was tried {self.request.retries + 1} times")
        wait = (aware(eta, where) - datetime.now(UTC)).total_seconds() if eta is not None else countdown
        raise Again(max(0.0, self._retries.seconds if wait is None else float(wait)), exc) from exc

    def _handle(self, job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        request = Request(str(job.id), job.attempt - 1, args, kwargs)
        before = _current.set(request)
        try:
            return self(*args, **kwargs)
        except (StaleLease, Cancelled):
            raise
        except Again as again:
            return Retry(said(again.error or again, job.veil), again.seconds)
        except Exception as error:
            if self._retries.again(error) and job.attempt < job.max_attempts:
                return Retry(said(error, job.veil), self._retries.after(request.retries))
            used_up = self._retries.again(error) or isinstance(error, TooManyRetries)
            return (DeadLetter if used_up else Fail)(said(error, job.veil))
        finally:
            _current.reset(before)


class Celery:
    """Decorators that put functions into an inbox. `conn` gives the connection of the caller's transaction.

    Without it each call opens a connection and commits at once, as Celery's broker would have it.
    """

    def __init__(self, inbox: Inbox, conn: Callable[[], Any] | None = None, **others: Any) -> None:
        if not isinstance(inbox, Inbox) or others:
            given = ", ".join([*([] if isinstance(inbox, Inbox) else [repr(inbox)]), *(f"{name}=…" for name in others)])
            raise BadSettings(f"Celery({given}): there is no broker to name, rows are in Postgres: Celery(Inbox())")
        self.inbox, self._conn = inbox, conn

    def __getattr__(self, name: str) -> NoReturn:
        raise _missing("this app", name, _NOT_OF_AN_APP)

    @overload
    def shared_task(self, function: Callable[..., Any], /) -> SharedTask: ...
    @overload
    def shared_task(self, **options: Any) -> Callable[[Callable[..., Any]], SharedTask]: ...
    def shared_task(self, *functions: Callable[..., Any], **options: Any) -> Any:
        """`@shared_task`, or with options `@shared_task(bind=True, max_retries=5)`."""
        if functions:
            return SharedTask(self, functions[0], options)
        return lambda function: SharedTask(self, function, options)

    task = shared_task

    def send(self, sender: Any, fields: dict[str, Any]) -> Sent:
        """Enqueue, in the caller's transaction if there is one."""
        if self._conn is not None:
            conn = self._conn()
            if awaits(conn):
                raise BadSettings("delay() does not await: give conn=… a blocking connection, or use handler.enqueue")
            sent = sender.enqueue(conn, **fields)
        else:
            with connect(address(), application_name="tenure celery") as own:
                sent = sender.enqueue(own, **fields)
        return Sent(str(sent.id), sent.outcome, self.inbox)
