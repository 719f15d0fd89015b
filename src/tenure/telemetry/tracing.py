"""Traces for OpenTelemetry: a span for each thing done to a row, its context carried in the row's headers.

All of OpenTelemetry's words are in this file. Nothing of it is imported unless the application has done so itself, and
whatever it raises stays here: a trace must not cost a job.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Thread
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from .. import __version__, settings
from ..errors import BadSettings, StaleLease
from ..model.outcome import DeadLetter, Fail, Outcome, Release, Snooze
from ..model.payload import HEADERS_BYTES_MAX
from ..model.rows import Claimed, Enqueued, NewRow, Settled

Mode = Literal["link", "parent", "off"]

# The conventions for messaging are still in development: the move to their next names is an edit of these lines.
SYSTEM = "messaging.system"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
ID = "messaging.message.id"
CONVERSATION = "messaging.message.conversation_id"
COUNT = "messaging.batch.message_count"
CLIENT = "messaging.client.id"
OPERATION, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
ERROR_TYPE = "error.type"
GENERATION, ATTEMPT, KIND, OUTCOME = "tenure.lease.generation", "tenure.attempt", "tenure.kind", "tenure.outcome"
STALE, STALE_REASON = "stale_lease", "tenure.stale.reason"


class _Otel(NamedTuple):
    """What we use of it."""

    trace: Any
    context: Any
    propagator: Any


@cache
def _otel() -> _Otel:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return _Otel(trace, context, TraceContextTextMapPropagator())


class Span:
    """One span of ours, current while its block lasts and ended with it. With no span behind it, nothing happens."""

    __slots__ = ("_entered", "_span", "context")

    def __init__(self, span: Any = None) -> None:
        self._span, self._entered = span, None
        # What another thread needs to go on from here.
        self.context = None if span is None else _otel().trace.set_span_in_context(span, _otel().context.Context())

    def __enter__(self) -> Span:
        if self._span is not None:
            with suppress(Exception):
                self._entered = _otel().context.attach(self.context)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._span is None:
            return
        if error is not None:
            self.failed(error)
        with suppress(Exception):
            if self._entered is not None:
                _otel().context.detach(self._entered)
        with suppress(Exception):
            self._span.end()

    def tell(self, facts: Mapping[str, Any]) -> None:
        """Say more of it."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(facts)

    def failed(self, error: BaseException) -> None:
        """An exception ended it; one that says the lease was lost is told apart from all others."""
        if self._span is None:
            return
        if isinstance(error, StaleLease):
            self.stale(error.verb, error.reason)
            return
        with suppress(Exception):
            self._span.record_exception(error)
            self._error(type(error).__qualname__, str(error))

    def stale(self, verb: str, reason: str) -> None:
        """The write was refused: somebody else may hold the row."""
        self.tell({STALE_REASON: reason})
        self._error(STALE, f"{verb} was refused: {reason}")

    def sent(self, answer: Enqueued) -> None:
        """What became of a row that was sent."""
        self.tell({ID: str(answer.id), OUTCOME: answer.outcome})

    def ended(self, outcome: Outcome | None, error: BaseException | None = None) -> None:
        """How an attempt ended. No errors: what is given back unharmed, and a Retry that the handler asked for."""
        if self._span is None:
            return
        name = "lost" if outcome is None else type(outcome).__name__.lower()
        self.tell({OUTCOME: name})
        if error is not None and (isinstance(error, StaleLease) or not isinstance(outcome, Release | Snooze)):
            self.failed(error)
        elif isinstance(outcome, Fail | DeadLetter):
            self._error(name, outcome.error)

    def _error(self, kind: str, says: str) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attribute(ERROR_TYPE, kind)
                self._span.set_status(_otel().trace.StatusCode.ERROR, says[:500])


NOTHING = Span()


class Tracing:
    """What is traced, and how a job's span hangs together with its producer's.

    link: in a trace of its own that points at the producer's · parent: in the producer's, however much later · off.
    """

    def __init__(self, mode: str | None = None) -> None:
        found = settings.find("TENURE_TRACE", mode, "trace")
        self.mode, source = found or ("link", "default")
        if self.mode not in get_args(Mode):
            raise BadSettings(f"{source}={self.mode!r} is not known: choose from {', '.join(get_args(Mode))}")
        self._tracer: tuple[Any, Any] = (None, None)

    @property
    def on(self) -> bool:
        """Does the application record traces? Many a library imports the API, which by itself does nothing."""
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None or self.mode == "off":
            return False
        with suppress(Exception):
            return type(trace.get_tracer_provider()) not in (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
        return False

    # -- the producer

    def enqueuing(self, row: NewRow) -> Span:
        """This row is sent; what `carried` gives in the block is what it carries to its worker."""
        if not self.on:
            return NOTHING
        about = {KIND: row.kind} if row.key is None else {KIND: row.kind, CONVERSATION: row.key}
        return self._current("enqueue", "send", "PRODUCER", row.queue, about)

    def carried(self, headers: Mapping[str, str] | None = None) -> Mapping[str, str] | None:
        """These headers with the trace context of the moment, unless they have one already or no room for it."""
        if not self.on or (headers and "traceparent" in headers):
            return headers
        context: dict[str, str] = {}
        with suppress(Exception):
            _otel().propagator.inject(context)
        both = {**context, **(headers or {})}
        return both if context and len(json.dumps(both, ensure_ascii=False).encode()) <= HEADERS_BYTES_MAX else headers

    # -- the worker

    def claimed(self, worker: str, rows: Sequence[Claimed], seconds: float) -> None:
        """A claim has brought these rows after so many seconds: one span, with a link to each row's producer."""
        if not rows or not self.on:
            return
        queue = rows[0].queue if len({row.queue for row in rows}) == 1 else ""
        about, since = {CLIENT: worker, COUNT: len(rows)}, time.time_ns() - int(seconds * 1e9)
        with suppress(Exception):
            links = self._links(rows)
            self._begin("claim", "receive", "CONSUMER", queue, about, links=links, start_time=since).end()

    def processing(self, worker: str, row: Claimed) -> Span:
        """A handler is called for this row."""
        if not self.on:
            return NOTHING
        with suppress(Exception):
            parent = sent_in(row) if self.mode == "parent" else None
            links, about = self._links([row]) if parent is None else [], _about(row, worker)
            return Span(self._begin("process", "process", "CONSUMER", row.queue, about, parent, links=links))
        return NOTHING

    def settling(self, verb: str, row: Claimed) -> Span:
        """A handler ends its own attempt, with its own writes."""
        return self._current(verb, "settle", "CLIENT", row.queue, _about(row, row.worker)) if self.on else NOTHING

    def settled(self, worker: str, answers: Sequence[Settled], contexts: Sequence[Any], since_ns: int) -> None:
        """The database has answered for these rows: a span for each, below the one of its handler."""
        if not self.on:
            return
        for answer, context in zip(answers, contexts, strict=True):
            with suppress(Exception):
                self._settled(worker, answer, context, since_ns)

    def _settled(self, worker: str, answer: Settled, context: Any, since_ns: int) -> None:
        row = answer.lease
        assert isinstance(row, Claimed)
        links = self._links([row]) if context is None else []
        about = _about(row, worker)
        begun = self._begin(
            answer.verb, "settle", "CLIENT", row.queue, about, context, links=links, start_time=since_ns
        )
        with Span(begun) as span:
            if not answer.ok and answer.reason != "already_completed":
                span.stale(answer.verb, answer.reason or answer.standing)

    def flush(self, seconds: float) -> None:
        """Let what waits be exported, for no longer than this: a worker's process ends without further words."""
        if self.on:
            with suppress(Exception):
                flushing = Thread(target=_otel().trace.get_tracer_provider().force_flush, daemon=True)
                flushing.start()
                flushing.join(seconds)

    # -- how it is done

    def _current(self, verb: str, kind: str, role: str, queue: str, about: dict[str, Any]) -> Span:
        """A span below the one that is current here."""
        with suppress(Exception):
            return Span(self._begin(verb, kind, role, queue, about, _otel().context.get_current()))
        return NOTHING

    def _begin(
        self, verb: str, kind: str, role: str, queue: str, about: dict[str, Any], parent: Any = None, **more: Any
    ) -> Any:
        trace, context, _ = _otel()
        provider = trace.get_tracer_provider()
        if self._tracer[0] is not provider:
            self._tracer = (provider, provider.get_tracer("tenure", __version__))
        where = {DESTINATION: queue} if queue else {}
        return self._tracer[1].start_span(
            f"{verb} {queue}".strip(),
            context=context.Context() if parent is None else parent,
            kind=trace.SpanKind[role],
            attributes={SYSTEM: "tenure", OPERATION: verb, OPERATION_TYPE: kind, **where, **about},
            **more,
        )

    def _links(self, rows: Sequence[Claimed]) -> list[Any]:
        trace = _otel().trace
        contexts = [context for row in rows if (context := sent_in(row)) is not None]
        return [trace.Link(trace.get_current_span(context).get_span_context()) for context in contexts]


def sent_in(row: Claimed) -> Any:
    """The context a row was sent in; None if it carries none that can be read."""
    if row.headers is not None:
        with suppress(Exception):
            context = _otel().propagator.extract(msgspec.json.decode(row.headers))
            if _otel().trace.get_current_span(context).get_span_context().is_valid:
                return context
    return None


@contextmanager
def within(headers: Mapping[str, str] | None) -> Iterator[None]:
    """What is done in this block belongs to the span whose context these headers carry, in another process."""
    entered = None
    if headers and "opentelemetry.trace" in sys.modules:
        with suppress(Exception):
            entered = _otel().context.attach(_otel().propagator.extract(headers))
    try:
        yield
    finally:
        if entered is not None:
            with suppress(Exception):
                _otel().context.detach(entered)


def _about(row: Claimed, worker: str) -> dict[str, Any]:
    return {
        PARTITION: str(row.partition_bucket),
        ID: str(row.id),
        CONVERSATION: row.partition_key,
        CLIENT: worker,
        GENERATION: row.generation,
        ATTEMPT: row.attempts,
        KIND: row.kind,
    }
