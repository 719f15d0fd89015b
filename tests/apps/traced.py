"""An application that writes its spans to a file: one JSON object a line, from whatever process."""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

from tenure import Inbox, Job

if path := os.environ.get("TENURE_TEST_SPANS"):
    stream = open(path, "a", encoding="utf-8")  # noqa: SIM115
    one_line = ConsoleSpanExporter(out=stream, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider = TracerProvider()
    in_time = BatchSpanProcessor(one_line) if os.environ.get("TENURE_TEST_BATCH") else SimpleSpanProcessor(one_line)
    provider.add_span_processor(in_time)
    trace.set_tracer_provider(provider)

inbox = Inbox(schema=os.environ.get("TENURE_SCHEMA", "tenure"))


@inbox.handler("parent", pool="process")
def parent(job: Job) -> None:
    """A handler in a process of its own, with a span of its own, that sends a further row with its completion."""
    with trace.get_tracer("app").start_as_current_span("inside"), job.fenced() as tx:
        child.enqueue(tx)


@inbox.handler("child")
async def child() -> None:
    """The end of the chain."""
