"""A Sender: what a handler's `enqueue` does, with the handler's options or with others for one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypedDict, overload

import msgspec

from ..errors import BadSettings, InvalidPayload
from ..events import RowEnqueued
from ..model.payload import check_row_key
from ..model.rows import Enqueued, NewRow
from ..postgres.callers import Awaiting, Blocking, awaits
from ..postgres.runner import run
from ..telemetry.tracing import Span
from ..verbs.sending import enqueue, enqueue_written, row_params
from .around import within, within_async
from .unique import Unique, check_unique

if TYPE_CHECKING:
    from ..events import Bus
    from ..telemetry.tracing import Tracing
    from .author_hooks import Hooks
    from .encryption import Encryption
    from .signature import Signature


P = ParamSpec("P")


class Sending(Protocol):
    """What a Sender asks of its handler."""

    kind: str
    sent_with: dict[str, Any]  # its options by name
    signature: Signature
    encryption: Encryption
    hooks: Hooks
    bus: Bus
    tracing: Tracing

    @property
    def sent_to(self) -> str:
        """The schema whose functions enqueue."""


class Changes(TypedDict, total=False):
    """What `using` may change for one call; the same names as the options of a handler."""

    queue: str
    key: str | Callable[..., str] | None
    priority: int
    max_attempts: int
    ordered: bool
    hold: bool
    at: datetime | None
    delay_seconds: float
    idempotency_key: str | None
    headers: Mapping[str, str] | None
    again: Literal["never", "after_end", "after_start"]
    again_seconds: float
    unique: Literal["pending"] | Unique | None


class Sender(Generic[P]):
    """A handler with options for one call."""

    def __init__(self, handler: Sending, changed: Mapping[str, Any] | None = None) -> None:
        self.handler = handler
        self._options = {**handler.sent_with, **(changed or {})}
        self._checked: dict[str, Any] | None = None
        wanted, on = self._options.pop("unique", None), handler.encryption.on
        self._unique = check_unique(handler.kind, wanted, keyless=self._options["key"] is None, encrypted=on)
        if self._unique is not None and self._options["idempotency_key"] is not None:
            raise BadSettings(f"{handler.kind!r} is unique, so its idempotency_key is made for it: leave one out")
        if len(self._options) >= len(handler.sent_with):
            unknown = sorted(self._options.keys() - handler.sent_with.keys())
            raise BadSettings(f"unknown option {unknown[0]!r}: choose from {', '.join(handler.sent_with)}")

    @overload
    def enqueue(self, conn: Awaiting, *payload: P.args, **fields: P.kwargs) -> Awaitable[Enqueued]: ...
    @overload
    def enqueue(self, conn: Blocking, *payload: P.args, **fields: P.kwargs) -> Enqueued: ...
    def enqueue(self, conn: Any, *payload: P.args, **fields: P.kwargs) -> Enqueued | Awaitable[Enqueued]:
        """Send one row in the caller's transaction; awaitable if the connection is."""
        handler = self.handler
        sent, written = handler.signature.written(payload, fields)
        key = self._key(sent)
        slow = handler.tracing.on or handler.bus.each_job or handler.encryption.on or handler.hooks.sending
        slow = slow or self._unique is not None
        if written is not None and not slow:
            quick: Enqueued | Awaitable[Enqueued] = run(
                conn, enqueue_written(self._params(key), written, key), handler.sent_to
            )
            return quick
        row, awaiting = self._row(sent, key), awaits(conn)
        arounds = handler.hooks.around_sending(handler.kind, awaits=awaiting) if handler.hooks.enqueues else []
        if awaiting:
            return within_async(arounds, row, lambda row: self._send_awaiting(conn, row))
        answer: Enqueued = within(arounds, row, lambda row: self._send_blocking(conn, row))
        return answer

    def _send_blocking(self, conn: Any, clear: NewRow) -> Enqueued:
        row = self.handler.encryption.encrypted(clear)
        with self.handler.tracing.enqueuing(row) as span:
            return self._sent(span, row, run(conn, enqueue(self._traced(row)), self.handler.sent_to))

    async def _send_awaiting(self, conn: Any, clear: NewRow) -> Enqueued:
        row = self.handler.encryption.encrypted(clear)
        with self.handler.tracing.enqueuing(row) as span:
            return self._sent(span, row, await run(conn, enqueue(self._traced(row)), self.handler.sent_to))

    def _sent(self, span: Span, row: NewRow, answer: Enqueued) -> Enqueued:
        span.sent(answer)
        if self.handler.bus.each_job:
            self.handler.bus.emit(RowEnqueued(answer.id, row.kind, row.queue, answer.outcome))
        return answer

    def row(self, *payload: P.args, **fields: P.kwargs) -> NewRow:
        """The row for these arguments; InvalidPayload if the handler could not be called with them."""
        sent = self.handler.signature.payload(payload, fields)
        return self._traced(self.handler.encryption.encrypted(self._row(sent, self._key(sent))))

    def _traced(self, row: NewRow) -> NewRow:
        """The row with the current trace context in its headers."""
        headers = self.handler.tracing.carried(row.headers)
        return row if headers is row.headers else msgspec.structs.replace(row, headers=headers)

    def _row(self, sent: Any, key: str | None) -> NewRow:
        """The row in clear, with the context variables that are carried."""
        unique = self._unique.options(self.handler.kind, sent, key) if self._unique is not None else {}
        row = NewRow(self.handler.kind, sent, **{**self._options, "key": key, **unique})
        return self.handler.hooks.with_context(row) if self.handler.hooks.carried else row

    def _params(self, key: str | None) -> dict[str, Any]:
        """The options as parameters: checked once, with the first key; a key that is made of a payload, each time."""
        own = self._options["key"]
        if self._checked is None or (key is None and own is not None) or self._options["headers"] is not None:
            self._checked = row_params(NewRow(self.handler.kind, None, **{**self._options, "key": key}))
        elif key is not own:
            check_row_key(key)
        return self._checked

    def _key(self, sent: Any) -> str | None:
        key: str | Callable[..., str] | None = self._options["key"]
        if key is None or (isinstance(key, str) and "{" not in key):
            return key
        if not (isinstance(key, str) or callable(key)):
            raise InvalidPayload(f"key={key!r} of {self.handler.kind!r} must be text, or a function of the payload")
        fields = sent if isinstance(sent, dict) else msgspec.to_builtins(sent)
        try:
            return key.format_map(fields) if isinstance(key, str) else key(**fields)
        except (KeyError, IndexError, AttributeError, TypeError) as error:
            raise InvalidPayload(
                f"key={key!r} of {self.handler.kind!r} cannot be made from the payload ({error!r}): "
                "name its fields, e.g. 'order:{order_id}'"
            ) from None
