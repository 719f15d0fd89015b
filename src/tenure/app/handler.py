"""A Handler: one kind of work, the function that does it, and how its rows are sent."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack, get_args, overload
from uuid import UUID

from ..errors import BadSettings, InvalidPayload
from ..events import Bus
from ..model.backoff import Backoff, check_backoff
from ..model.declaration import Declaration, keyed_by
from ..model.ended import RESULT_BYTES_MAX, Ended
from ..model.envelope import MARK
from ..model.limits import DELAY_SECONDS_MAX
from ..model.payload import check_row
from ..model.rows import MAX_ATTEMPTS, Enqueued, NewRow
from ..postgres.callers import Awaiting, Blocking
from ..settings import DOOR
from ..telemetry.tracing import Tracing
from ..verbs.lifecycle import LEASE_SECONDS_MAX
from .author_hooks import Hooks
from .awaiting import id_of, wait_for_end, wait_for_end_async
from .encryption import CLEAR, Encryption
from .function_kind import Pool
from .job import Job
from .key_template import check_key, fields_of_key
from .sender import Changes, Sender
from .signature import Signature
from .unique import Unique, check_unique

C = ParamSpec("C")  # how it is called
P = ParamSpec("P")  # how it is sent: the same without the job
R = TypeVar("R", covariant=True)  # what it returns; of an async function, a coroutine
T = TypeVar("T")
LEASE_SECONDS_MIN = 1.0  # it is renewed after a third of it, over a network


@dataclass(frozen=True, slots=True)
class Options:
    """How rows of a kind are sent; `using` changes them for one call."""

    queue: str = "default"
    key: str | Callable[..., str] | None = None
    priority: int = 0
    max_attempts: int = MAX_ATTEMPTS
    ordered: bool = False
    hold: bool = False
    at: datetime | None = None
    delay_seconds: float = 0.0
    idempotency_key: str | None = None
    headers: Mapping[str, str] | None = None
    again: Literal["never", "after_end", "after_start"] = "never"
    again_seconds: float = 0.0
    unique: Literal["pending"] | Unique | None = None


_OPTIONS = tuple(Options.__dataclass_fields__)
_OF_ROWS = tuple(name for name in _OPTIONS if name != "unique")


@dataclass(frozen=True, slots=True)
class Handling:
    """How a worker runs a kind."""

    pool: Pool
    lease_seconds: float | None = None
    timeout_seconds: float | None = None
    backoff: Backoff | None = None
    late_completion: Literal["reject", "accept"] = "reject"
    keep_payload: bool = True  # in the archive, once the row is completed
    result: bool = False  # what the function returns is kept, for whoever waits for the row

    def __post_init__(self) -> None:
        if not isinstance(self.keep_payload, bool):
            raise BadSettings(f"keep_payload={self.keep_payload!r} must be True or False")
        if not isinstance(self.result, bool):
            raise BadSettings(f"result={self.result!r} must be True or False")
        if self.pool not in get_args(Pool):
            raise BadSettings(f"pool={self.pool!r} is not known: choose from {', '.join(get_args(Pool))}")
        if not _within(self.lease_seconds, LEASE_SECONDS_MIN, LEASE_SECONDS_MAX):
            raise BadSettings(
                f"lease_seconds={self.lease_seconds!r} must be a number between {LEASE_SECONDS_MIN:g} and "
                f"{LEASE_SECONDS_MAX:.0f}: leave it out for the worker's setting"
            )
        if not _within(self.timeout_seconds, 0.0, DELAY_SECONDS_MAX) or self.timeout_seconds == 0:
            raise BadSettings(
                f"timeout_seconds={self.timeout_seconds!r} must be a number above 0 and at most "
                f"{DELAY_SECONDS_MAX:.0f}: leave it out for no limit"
            )
        if self.backoff is not None:
            check_backoff(self.backoff)
        if self.late_completion not in ("reject", "accept"):
            raise BadSettings(f"late_completion={self.late_completion!r} must be 'reject' or 'accept'")


class Handler(Generic[C, P, R]):
    """A function with a kind. It stays callable; `enqueue` sends a row, and a worker calls the function for it."""

    def __init__(
        self,
        function: Callable[C, R],
        kind: str,
        *,
        schema: str,
        options: Options,
        handling: Handling,
        payload: type[Any] | None = None,
        bus: Bus | None = None,
        tracing: Tracing | None = None,
        encryption: Encryption = CLEAR,
        hooks: Hooks | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.kind, self.schema, self.citus = function, kind, schema, False
        self.options, self.handling = check_options(kind, options), handling
        self.queues = {options.queue}  # where rows of it may be
        self.hooks = hooks or Hooks()
        self.signature = Signature(function, kind, payload, self.hooks.providers)
        check_key(kind, options.key, self.signature.fields)
        self.encryption = encryption.checked(kind, self.signature.fields, fields_of_key(options.key))
        self.bus, self.tracing = bus or Bus(), tracing or Tracing()
        check_unique(kind, options.unique, keyless=options.key is None, encrypted=self.encryption.on)
        self.sent_with = {name: getattr(options, name) for name in _OPTIONS}
        self._sender: Sender[P] = Sender(self)

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R:
        """Call the function itself, as in a test."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Handler {self.kind!r} in queue {self.options.queue!r}>"

    @property
    def sent_to(self) -> str:
        """The schema whose functions enqueue: its own, or the door of a Citus cluster."""
        return f"{self.schema}{DOOR}" if self.citus else self.schema

    def using(self, **options: Unpack[Changes]) -> Sender[P]:
        """The same kind with other options: using(idempotency_key=…, delay_seconds=…, priority=…).enqueue(conn, …)."""
        return Sender(self, options)

    @overload
    def enqueue(self, conn: Awaiting, *payload: P.args, **fields: P.kwargs) -> Awaitable[Enqueued]: ...
    @overload
    def enqueue(self, conn: Blocking, *payload: P.args, **fields: P.kwargs) -> Enqueued: ...
    def enqueue(self, conn: Any, *payload: P.args, **fields: P.kwargs) -> Enqueued | Awaitable[Enqueued]:
        """Send one row in the caller's transaction; awaitable if the connection is."""
        answer: Enqueued | Awaitable[Enqueued] = self._sender.enqueue(conn, *payload, **fields)
        return answer

    def row(self, *payload: P.args, **fields: P.kwargs) -> NewRow:
        """The row that enqueue would send, for enqueue_many or COPY."""
        return self._sender.row(*payload, **fields)

    @property
    def declaration(self) -> Declaration:
        """How its rows are sent, for producers that cannot import it."""
        sent = self.options
        keyed, template = keyed_by(sent.key)
        order = (sent.ordered, sent.hold, sent.priority, sent.max_attempts)
        return Declaration(self.kind, sent.queue, keyed, template, *order, self.encryption.on)

    def arguments(self, job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the function for this job; InvalidPayload if its payload does not fit."""
        payload = job.claimed.payload
        if MARK not in payload:  # as of most
            return self.signature.arguments(job, payload)
        text, veil = self.encryption.decrypted(job.claimed)
        if veil is None:
            return self.signature.arguments(job, text)
        job.veil = veil
        try:
            return self.signature.arguments(job, text)
        except InvalidPayload:
            raise InvalidPayload(f"the payload does not fit the handler {self.kind!r}; {veil.why}") from None

    @overload
    async def result(
        self: Handler[C, P, Coroutine[Any, Any, T]],
        sent: Enqueued | UUID,
        *,
        timeout_seconds: float,
        url: str | None = None,
    ) -> Ended[T]: ...
    @overload
    async def result(
        self: Handler[C, P, T], sent: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None
    ) -> Ended[T]: ...
    async def result(self, sent: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None) -> Ended[Any]:
        """How its row ended, as soon as it has, with the value that the function returned, of the type it says."""
        ended = await wait_for_end_async(url, self.schema, id_of(sent), timeout_seconds, self.encryption.codec)
        return self.signature.typed(ended)

    @overload
    def result_blocking(
        self: Handler[C, P, Coroutine[Any, Any, T]],
        sent: Enqueued | UUID,
        *,
        timeout_seconds: float,
        url: str | None = None,
    ) -> Ended[T]: ...
    @overload
    def result_blocking(
        self: Handler[C, P, T], sent: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None
    ) -> Ended[T]: ...
    def result_blocking(self, sent: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None) -> Ended[Any]:
        """The same for code without a loop."""
        return self.signature.typed(wait_for_end(url, self.schema, id_of(sent), timeout_seconds, self.encryption.codec))

    @property
    def awaits(self) -> bool:
        """True if its function is async."""
        return self.handling.pool == "loop"

    def run(self, job: Job, args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
        """Call the function for a job, within the hooks of the application; awaitable if it is async."""
        if not (self.hooks.attempting or self.signature.injected):
            return self.function(*args, **fields)
        call = self.hooks.run_async if self.awaits else self.hooks.run_plain
        return call(self, job, args, fields)

    def sealed(self, value: Any, job: Job) -> str:
        """A value as the row's result: JSON text, encrypted as its payload is; InvalidPayload if it cannot be kept."""
        text = self.encryption.sealed(value, job.claimed, secret=job.veil is not None)
        if len(text.encode()) > RESULT_BYTES_MAX:
            raise InvalidPayload(
                f"the result has {len(text.encode())} bytes, the limit is {RESULT_BYTES_MAX}: "
                "store the content elsewhere and return its address"
            )
        return text

    @property
    def seal(self) -> Callable[[Any, Job], str] | None:
        """How a result is made of a value; None if none is kept."""
        return self.sealed if self.handling.result else None


class Decorator(Protocol):
    """What `@inbox.handler(...)` is: it makes a handler of a function, which takes the job first, or does not."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], T], /) -> Handler[Concatenate[Job, P], P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Handler[P, P, T]: ...


def check_options(kind: str, options: Options) -> Options:
    """The options themselves, or BadSettings if no row could be sent with them."""
    plain = {name: getattr(options, name) for name in _OF_ROWS}
    try:
        check_row(NewRow(kind, **{**plain, "key": "made" if callable(options.key) else options.key}))
    except InvalidPayload as error:
        raise BadSettings(f"handler {kind!r} cannot be sent: {error}") from None
    return options


def _within(seconds: Any, least: float, most: float) -> bool:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return seconds is None or (number and least <= seconds <= most)
