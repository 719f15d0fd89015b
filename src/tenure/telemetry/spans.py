"""One span of OpenTelemetry, and the names of its attributes.

OpenTelemetry is imported only if the application has done so. Its errors are suppressed: a trace must not cost a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from ..errors import StaleLease
from ..model.outcome import DeadLetter, Fail, Outcome, Release, Snooze
from ..model.rows import Claimed, Enqueued, Settled

# The conventions for messaging are still in development: to move to their next names, edit these lines.
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
_BECAME = {"completed": "complete", "failed": "fail", "dead_letter": "dead_letter", "cancelled": "cancel"}
STALE, STALE_REASON = "stale_lease", "tenure.stale.reason"


class Otel(NamedTuple):
    """The parts of OpenTelemetry that we use."""

    trace: Any
    context: Any
    propagator: Any


@cache
def otel() -> Otel:
    """Import them at first use."""
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return Otel(trace, context, TraceContextTextMapPropagator())


class Span:
    """One span, current within its block and ended with it. Without a span behind it, it does nothing."""

    __slots__ = ("_entered", "_span", "context")

    def __init__(self, span: Any = None) -> None:
        self._span, self._entered = span, None
        # For another thread, to make spans below this one.
        self.context = None if span is None else otel().trace.set_span_in_context(span, otel().context.Context())

    def __enter__(self) -> Span:
        if self._span is not None:
            with suppress(Exception):
                self._entered = otel().context.attach(self.context)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._span is None:
            return
        if error is not None:
            self.failed(error)
        with suppress(Exception):
            if self._entered is not None:
                otel().context.detach(self._entered)
        self.end()

    def end(self) -> None:
        """End it, if it was never current."""
        if self._span is not None:
            with suppress(Exception):
                self._span.end()

    def tell(self, facts: Mapping[str, Any]) -> None:
        """Add attributes."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(facts)

    def failed(self, error: BaseException) -> None:
        """An exception ended it; a StaleLease gets its own error type."""
        if self._span is None:
            return
        if isinstance(error, StaleLease):
            self.stale(error.verb, error.reason)
            return
        with suppress(Exception):
            self._span.record_exception(error)
            self._error(type(error).__qualname__, str(error))

    def stale(self, verb: str, reason: str) -> None:
        """The write was refused: another worker may hold the row."""
        self.tell({STALE_REASON: reason})
        self._error(STALE, f"{verb} was refused: {reason}")

    def sent(self, answer: Enqueued) -> None:
        """The database's answer to a row that was sent."""
        self.tell({ID: str(answer.id), OUTCOME: answer.outcome})

    def ended(self, outcome: Outcome | None, error: BaseException | None = None) -> None:
        """How an attempt ended. A row given back and a Retry that the handler returned are not errors."""
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
                self._span.set_status(otel().trace.StatusCode.ERROR, says[:500])


NOTHING = Span()


def became(answer: Settled) -> str:
    """The name of a settlement: the verb, or what the database made of it. The last retry makes a dead letter."""
    return _BECAME.get(answer.status or "", answer.verb) if answer.ok else answer.verb


def about(row: Claimed, worker: str) -> dict[str, Any]:
    """The attributes of a claimed row."""
    return {
        PARTITION: str(row.partition_bucket),
        ID: str(row.id),
        CONVERSATION: row.partition_key,
        CLIENT: worker,
        GENERATION: row.generation,
        ATTEMPT: row.attempts,
        KIND: row.kind,
    }
