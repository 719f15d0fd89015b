"""Traces for OpenTelemetry: a span for each thing done to a row, its context carried in the row's headers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, Literal, get_args

import msgspec

from .. import __version__, settings
from ..errors import BadSettings
from ..model.limits import HEADERS_BYTES_MAX
from ..model.rows import Claimed, NewRow, Settled
from . import spans
from .spans import NOTHING as NOTHING
from .spans import Span as Span
from .spans import otel

Mode = Literal["link", "parent", "off"]


class Tracing:
    """What is traced, and how a job's span is connected with its producer's.

    link: a trace of its own with a link to the producer's · parent: in the producer's trace, even if much later · off.
    """

    def __init__(self, mode: str | None = None) -> None:
        found = settings.find("TENURE_TRACE", mode, "trace")
        self.mode, source = found or ("link", "default")
        if self.mode not in get_args(Mode):
            raise BadSettings(f"{source}={self.mode!r} is not known: choose from {', '.join(get_args(Mode))}")
        self._tracer: tuple[Any, Any] = (None, None)

    @property
    def on(self) -> bool:
        """True if the application records traces. Many libraries import the API, which does nothing by itself."""
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None or self.mode == "off":
            return False
        with suppress(Exception):
            return type(trace.get_tracer_provider()) not in (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
        return False

    # -- the producer

    def enqueuing(self, row: NewRow) -> Span:
        """The span of sending this row; within its block, `carried` gives the headers for the worker."""
        if not self.on:
            return NOTHING
        about = {spans.KIND: row.kind} if row.key is None else {spans.KIND: row.kind, spans.CONVERSATION: row.key}
        return self._current("enqueue", "send", "PRODUCER", row.queue, about)

    def carried(self, headers: Mapping[str, str] | None = None, span: Span | None = None) -> Mapping[str, str] | None:
        """These headers with the current trace context, or a span's, unless they have one already or no room for it."""
        if not self.on or (headers and "traceparent" in headers):
            return headers
        context: dict[str, str] = {}
        with suppress(Exception):
            otel().propagator.inject(context, None if span is None else span.context)
        both = {**context, **(headers or {})}
        return both if context and len(json.dumps(both, ensure_ascii=False).encode()) <= HEADERS_BYTES_MAX else headers

    # -- the worker

    def claimed(self, worker: str, rows: Sequence[Claimed], seconds: float) -> None:
        """A claim returned these rows after these seconds: one span, with a link to each row's producer."""
        if not rows or not self.on:
            return
        queue = rows[0].queue if len({row.queue for row in rows}) == 1 else ""
        about, since = {spans.CLIENT: worker, spans.COUNT: len(rows)}, time.time_ns() - int(seconds * 1e9)
        with suppress(Exception):
            links = self._links(rows)
            self._begin("claim", "receive", "CONSUMER", queue, about, links=links, start_time=since).end()

    def processing(self, worker: str, row: Claimed) -> Span:
        """The span of a handler's call for this row."""
        if not self.on:
            return NOTHING
        with suppress(Exception):
            parent = sent_in(row) if self.mode == "parent" else None
            links, about = self._links([row]) if parent is None else [], spans.about(row, worker)
            return Span(self._begin("process", "process", "CONSUMER", row.queue, about, parent, links=links))
        return NOTHING

    def settling(self, verb: str, row: Claimed) -> Span:
        """The span of a handler that completes its row together with its own writes."""
        return self._current(verb, "settle", "CLIENT", row.queue, spans.about(row, row.worker)) if self.on else NOTHING

    def settled(self, worker: str, answers: Sequence[Settled], contexts: Sequence[Any], since_ns: int) -> None:
        """The database has answered for these rows: a span for each, below the span of its handler."""
        if not self.on:
            return
        for answer, context in zip(answers, contexts, strict=True):
            with suppress(Exception):
                self._settled(worker, answer, context, since_ns)

    def _settled(self, worker: str, answer: Settled, context: Any, since_ns: int) -> None:
        row = answer.lease
        assert isinstance(row, Claimed)
        links = self._links([row]) if context is None else []
        about = spans.about(row, worker)
        done = spans.became(answer)
        about = {**about, spans.OUTCOME: done} if answer.ok else about
        begun = self._begin(done, "settle", "CLIENT", row.queue, about, context, links=links, start_time=since_ns)
        with Span(begun) as span:
            if not answer.ok and answer.reason != "already_completed":
                span.stale(answer.verb, answer.reason or answer.standing)

    def flush(self, seconds: float) -> None:
        """Export what is left, for at most these seconds: the worker's process is about to end."""
        if self.on:
            with suppress(Exception):
                flushing = Thread(target=otel().trace.get_tracer_provider().force_flush, daemon=True)
                flushing.start()
                flushing.join(seconds)

    # -- how it is done

    def _current(self, verb: str, kind: str, role: str, queue: str, about: dict[str, Any]) -> Span:
        """A span below the current one."""
        with suppress(Exception):
            return Span(self._begin(verb, kind, role, queue, about, otel().context.get_current()))
        return NOTHING

    def _begin(
        self, verb: str, kind: str, role: str, queue: str, about: dict[str, Any], parent: Any = None, **more: Any
    ) -> Any:
        trace, context, _ = otel()
        provider = trace.get_tracer_provider()
        if self._tracer[0] is not provider:
            self._tracer = (provider, provider.get_tracer("tenure", __version__))
        where = {spans.DESTINATION: queue} if queue else {}
        return self._tracer[1].start_span(
            f"{verb} {queue}".strip(),
            context=context.Context() if parent is None else parent,
            kind=trace.SpanKind[role],
            attributes={spans.SYSTEM: "tenure", spans.OPERATION: verb, spans.OPERATION_TYPE: kind, **where, **about},
            **more,
        )

    def _links(self, rows: Sequence[Claimed]) -> list[Any]:
        trace = otel().trace
        contexts = [context for row in rows if (context := sent_in(row)) is not None]
        return [trace.Link(trace.get_current_span(context).get_span_context()) for context in contexts]


def sent_in(row: Claimed) -> Any:
    """The trace context of a row's producer; None if the row has none that can be read."""
    if row.headers is not None:
        with suppress(Exception):
            context = otel().propagator.extract(msgspec.json.decode(row.headers))
            if otel().trace.get_current_span(context).get_span_context().is_valid:
                return context
    return None


@contextmanager
def within(headers: Mapping[str, str] | None) -> Iterator[None]:
    """Spans made in this block belong below the span of another process whose context is in these headers."""
    entered = None
    if headers and "opentelemetry.trace" in sys.modules:
        with suppress(Exception):
            entered = otel().context.attach(otel().propagator.extract(headers))
    try:
        yield
    finally:
        if entered is not None:
            with suppress(Exception):
                otel().context.detach(entered)
