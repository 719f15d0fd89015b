"""Traces: a row carries the context it was sent in, and every span says where it belongs; none may cost a job."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from crew import Process, eventually, processes, working
from tenure import DeadLetter, Inbox, Job, Retry, Snooze, postgres, verbs
from tenure.errors import BadSettings, IdempotencyConflict, InvalidPayload
from tenure.events import JobCompleted, JobDeadLettered, JobReleased, JobRetried, StaleWriteBlocked
from tenure.model.limits import HEADERS_BYTES_MAX
from tenure.telemetry.tracing import Tracing
from world import World

pytestmark = pytest.mark.one_server


class Recorder:
    """The spans that have ended so far."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("app")

    def named(self, name: str, n: int = 1) -> list[ReadableSpan]:
        """Those of one name, once there are n."""
        return eventually(lambda: found if len(found := self._so_far(name)) >= n else [])

    def one(self, name: str) -> ReadableSpan:
        """The only one of this name."""
        (span,) = self.named(name)
        return span

    def _so_far(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recorder.provider)
    return recorder


def here(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def trace_id(span: ReadableSpan) -> int:
    return here(span).trace_id


def span_id(span: ReadableSpan) -> int:
    return here(span).span_id


def below(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and child.parent.span_id == span_id(parent) and trace_id(child) == trace_id(parent)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# -- the whole way of a row


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_the_trace_of_the_producer_is_found_in_the_handlers_link(world: World, spans: Recorder, pool: str) -> None:
    inbox = Inbox()

    def work() -> None:
        with spans.tracer.start_as_current_span("inside"):
            pass

    async def work_awaiting() -> None:
        work()
        await asyncio.sleep(0)

    handler = inbox.handler("k", queue="mail", key="order:1")(work_awaiting if pool == "loop" else work)
    with working(world, inbox) as hired, spans.tracer.start_as_current_span("request") as request:
        sent = handler.enqueue(world.conn)
        hired.saw(JobCompleted)
    enqueue, claim, process = spans.one("enqueue mail"), spans.one("claim mail"), spans.one("process mail")
    complete, inside = spans.one("complete mail"), spans.one("inside")

    assert trace_id(enqueue) == request.get_span_context().trace_id
    for span in (claim, process):
        (link,) = span.links
        assert (link.context.trace_id, link.context.span_id) == (trace_id(enqueue), span_id(enqueue))
        assert trace_id(span) != trace_id(enqueue), "a trace of its own"
    assert process.parent is None
    assert below(inside, process)
    assert below(complete, process)
    assert [span.kind for span in (enqueue, claim, process, complete)] == [
        SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CONSUMER, SpanKind.CLIENT,
    ]  # fmt: skip
    assert [attributes(span)["messaging.operation.type"] for span in (enqueue, claim, process, complete)] == [
        "send", "receive", "process", "settle",
    ]  # fmt: skip
    row = world.row(sent.id)
    assert attributes(process) == {
        "messaging.system": "tenure",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.destination.partition.id": str(row.partition_bucket),
        "messaging.message.id": str(sent.id),
        "messaging.message.conversation_id": "order:1",
        "messaging.client.id": hired.worker.id,
        "tenure.lease.generation": 1,
        "tenure.attempt": 1,
        "tenure.kind": "k",
        "tenure.outcome": "completed",
    }
    assert attributes(enqueue)["messaging.message.id"] == str(sent.id)
    assert attributes(claim)["messaging.batch.message_count"] == 1
    assert all(span.status.status_code is StatusCode.UNSET for span in (enqueue, claim, process, complete))
    assert (complete.end_time or 0) >= (complete.start_time or 0) >= (enqueue.start_time or 0)


def test_a_job_may_be_part_of_its_producers_trace(
    world: World, spans: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_TRACE", "parent")
    for inbox in (Inbox(trace="parent"), Inbox()):
        spans.exporter.clear()

        @inbox.handler("k")
        def handle() -> None: ...

        with working(world, inbox) as hired, spans.tracer.start_as_current_span("request"):
            handle.enqueue(world.conn)
            hired.saw(JobCompleted)
        assert below(spans.one("process default"), spans.one("enqueue default"))
        assert not spans.one("process default").links
    assert Inbox(trace="link").tracing.mode == "link", "what the code says counts first"


def test_a_row_that_was_sent_without_a_trace_begins_one(world: World, spans: Recorder) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle() -> None: ...

    with working(world, inbox) as hired:
        world.enqueue("k")
        world.enqueue("k", headers={"traceparent": "what is this?"})
        hired.saw(JobCompleted, 2)
    for process in spans.named("process default", 2):
        assert (process.parent, list(process.links)) == (None, [])


def test_jobs_at_once_do_not_mix_their_contexts(world: World, spans: Recorder) -> None:
    inbox, all_in = Inbox(), threading.Barrier(4)

    def mark(n: int) -> None:
        with spans.tracer.start_as_current_span("inside", attributes={"n": n}):
            pass

    @inbox.handler("threaded")
    def threaded(n: int) -> None:
        all_in.wait(90)
        mark(n)

    @inbox.handler("looped")
    async def looped(n: int) -> None:
        await asyncio.to_thread(all_in.wait, 20)
        mark(n)

    with working(world, inbox) as hired:
        for n in range(2):
            threaded.enqueue(world.conn, n=n)
            looped.enqueue(world.conn, n=n + 2)
        hired.saw(JobCompleted, 4)
    processes = {span_id(span): span for span in spans.named("process default", 4)}
    parents = [processes[span.parent.span_id] for span in spans.named("inside", 4) if span.parent]
    assert len({span_id(span) for span in parents}) == 4
    assert {
        below(span, processes[span.parent.span_id]) for span in spans.named("complete default", 4) if span.parent
    } == {True}


def test_a_claim_is_one_span_however_many_rows_and_none_without(world: World, spans: Recorder) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("a", queue="mail")
    def a() -> None: ...

    @inbox.handler("b", queue="reports")
    def b() -> None: ...

    for _ in range(3):
        a.enqueue(world.conn)
    b.enqueue(world.conn)
    with working(world, inbox, poll_seconds=0.05) as hired:
        hired.saw(JobCompleted, 4)
    claims = [span for span in spans.exporter.get_finished_spans() if span.name.startswith("claim")]
    assert sum(attributes(span)["messaging.batch.message_count"] for span in claims) == 4
    assert sum(len(span.links) for span in claims) == 4
    mixed = [span for span in claims if span.name == "claim"]
    assert all("messaging.destination.name" not in attributes(span) for span in mixed)


# -- how it ends


def test_a_stale_write_says_so(world: World, spans: Recorder) -> None:
    inbox, inside, go_on = Inbox(), threading.Event(), threading.Event()

    @inbox.handler("k")
    def handle() -> None:
        inside.set()
        go_on.wait(90)

    with working(world, inbox) as hired:
        handle.enqueue(world.conn)
        eventually(inside.is_set)
        world.sql("UPDATE live SET lease_generation = lease_generation + 1, fence_token = fence_token + 1")
        go_on.set()
        hired.saw(StaleWriteBlocked)
        settle = spans.one("complete default")
    assert attributes(settle)["error.type"] == "stale_lease"
    assert attributes(settle)["tenure.stale.reason"] == "token_mismatch"
    assert settle.status.status_code is StatusCode.ERROR
    assert below(settle, spans.one("process default"))


@pytest.mark.parametrize("pool", ["loop", "thread"])
@pytest.mark.parametrize("stale", [False, True], ids=["current", "stale"])
def test_a_handlers_own_completion_is_a_span_within_it(world: World, spans: Recorder, stale: bool, pool: str) -> None:
    inbox = Inbox()
    steal = "UPDATE live SET lease_generation = lease_generation + 1, fence_token = fence_token + 1"

    def work(job: Job) -> None:
        with job.fenced():
            if stale:
                world.sql(steal)

    async def work_awaiting(job: Job) -> None:
        async with job.fenced():
            if stale:
                world.sql(steal)

    handler = inbox.handler("k")(work_awaiting if pool == "loop" else work)
    with working(world, inbox) as hired:
        handler.enqueue(world.conn)
        hired.saw(StaleWriteBlocked) if stale else hired.saw(JobCompleted)
        process = spans.one("process default")
    complete = spans.one("complete default")
    assert below(complete, process)
    assert attributes(complete).get("error.type") == ("stale_lease" if stale else None)
    assert attributes(process).get("error.type") == ("stale_lease" if stale else None)
    assert attributes(process)["tenure.outcome"] == ("lost" if stale else "completed")


def test_a_fenced_block_that_raises_has_nothing_to_complete(world: World, spans: Recorder) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle(job: Job) -> None:
        with job.fenced():
            raise ValueError("no")

    with working(world, inbox) as hired:
        handle.enqueue(world.conn)
        hired.saw(JobRetried)
        assert below(spans.one("retry default"), spans.one("process default"))
    assert not [span for span in spans.exporter.get_finished_spans() if span.name.startswith("complete")]
    assert attributes(spans.one("process default"))["error.type"] == "ValueError"


@pytest.mark.parametrize(
    ("returned", "event", "settle", "error"),
    [
        (Retry("later", 600), JobRetried, "retry", None),
        (Snooze(600), JobReleased, "release", None),
        (DeadLetter("poison"), JobDeadLettered, "dead_letter", "deadletter"),
        (KeyError("x"), JobRetried, "retry", "KeyError"),
    ],
    ids=["retry", "snooze", "dead letter", "exception"],
)
def test_an_attempt_is_an_error_only_if_it_went_wrong(
    world: World, spans: Recorder, returned: Any, event: Any, settle: str, error: str | None
) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle() -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    with working(world, inbox) as hired:
        handle.enqueue(world.conn)
        hired.saw(event)
        span = spans.one(f"{settle} default")
    process = spans.one("process default")
    assert below(span, process)
    assert attributes(process).get("error.type") == error
    assert (process.status.status_code is StatusCode.ERROR) == (error is not None)
    assert span.status.status_code is StatusCode.UNSET, "the database did as it was asked"


def test_the_span_of_a_settlement_has_the_name_of_what_became_of_the_row(world: World, spans: Recorder) -> None:
    """A dead letter had a span named `retry`: that was asked, and something else was done."""
    inbox = Inbox()

    @inbox.handler("k", max_attempts=1)
    def handle() -> None:
        raise KeyError("x")

    with working(world, inbox) as hired:
        handle.enqueue(world.conn)
        hired.saw(JobDeadLettered)
        span = spans.one("dead_letter default")
    assert attributes(span)["messaging.operation.name"] == "dead_letter"
    assert attributes(span)["tenure.outcome"] == "dead_letter"
    assert not [each for each in spans.exporter.get_finished_spans() if each.name.startswith("retry")]


def test_an_attempt_that_raised_after_its_fenced_block_is_completed_and_has_the_error(
    world: World, spans: Recorder
) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle(job: Job) -> None:
        with job.fenced():
            pass
        raise KeyError("x")

    with working(world, inbox) as hired:
        handle.enqueue(world.conn)
        hired.saw(JobCompleted)
    process = spans.one("process default")
    assert (attributes(process)["tenure.outcome"], attributes(process)["error.type"]) == ("completed", "KeyError")


# -- the producer


@pytest.mark.parametrize("way", ["blocking", "awaiting"])
def test_a_row_that_was_refused_is_an_error_of_its_producer(world: World, spans: Recorder, way: str) -> None:
    inbox = Inbox(schema=world.schema)

    @inbox.handler("k")
    def handle(n: int) -> None: ...

    async def send(n: int) -> Any:
        async with await postgres.connect_async(world.url) as conn:
            return await handle.using(idempotency_key="i").enqueue(conn, n=n)

    def enqueue(n: int) -> Any:
        if way == "awaiting":
            return asyncio.run(send(n))
        return handle.using(idempotency_key="i").enqueue(world.conn, n=n)

    first, again = enqueue(1), enqueue(1)
    with pytest.raises(IdempotencyConflict):
        enqueue(2)
    with pytest.raises(InvalidPayload):
        handle.using(priority=1000).enqueue(world.conn, n=3)
    one, two, three, four = spans.named("enqueue default", 4)
    assert [attributes(span).get("tenure.outcome") for span in (one, two, three)] == ["enqueued", "duplicate", None]
    assert (attributes(two)["messaging.message.id"], again.id) == (str(first.id), first.id)
    assert [attributes(span).get("error.type") for span in (one, two, three, four)] == [
        None, None, "IdempotencyConflict", "InvalidPayload",
    ]  # fmt: skip
    assert trace.get_current_span() is trace.INVALID_SPAN, "nothing stays current"


def test_rows_sent_in_bulk_carry_the_context_they_were_made_in(world: World, spans: Recorder) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle() -> None: ...

    with spans.tracer.start_as_current_span("import") as span:
        rows = [handle.row() for _ in range(3)]
    world.run(verbs.enqueue_many(rows))
    for job in world.claim("A", 3):
        assert f"{span.get_span_context().trace_id:032x}" in (job.headers or "")


def test_a_context_that_is_there_or_has_no_room_is_left_alone(spans: Recorder) -> None:
    tracing, given = Tracing(), {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    full = {"a": "x" * (HEADERS_BYTES_MAX - 20)}
    with spans.tracer.start_as_current_span("request"):
        assert tracing.carried(given) is given
        assert tracing.carried(full) is full
        both = tracing.carried({"tenant": "a"})
        assert both is not None
        assert set(both) == {"tenant", "traceparent"}
    assert tracing.carried(None) is None, "no span, no context"


# -- never at the cost of a job


class Raising(SpanProcessor):
    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, span: Any, parent_context: context.Context | None = None) -> None:  # noqa: ARG002
        if self._when == "start":
            raise RuntimeError("the collector is gone")

    def on_end(self, span: ReadableSpan) -> None:  # noqa: ARG002
        if self._when == "end":
            raise RuntimeError("the collector is gone")


@pytest.mark.parametrize("when", ["start", "end"])
def test_an_exporter_that_raises_costs_no_job(world: World, spans: Recorder, when: str) -> None:
    spans.provider.add_span_processor(Raising(when))
    inbox = Inbox()

    @inbox.handler("loop")
    async def loop(job: Job) -> None:
        async with job.fenced():
            pass

    @inbox.handler("thread")
    def thread() -> None: ...

    with working(world, inbox) as hired:
        ids = [loop.enqueue(world.conn).id, thread.enqueue(world.conn).id]
        hired.saw(JobCompleted, 2)
    assert [world.status(id) for id in ids] == ["completed", "completed"]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_off_means_no_span_and_no_header(world: World, spans: Recorder) -> None:
    inbox = Inbox(trace="off")

    @inbox.handler("k")
    def handle() -> None: ...

    with working(world, inbox) as hired, spans.tracer.start_as_current_span("request"):
        id = handle.enqueue(world.conn).id
        hired.saw(JobCompleted)
    assert world.row(id).headers is None
    assert [span.name for span in spans.exporter.get_finished_spans()] == ["request"]


def test_the_api_alone_records_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    inbox = Inbox(schema=world.schema)

    @inbox.handler("k")
    def handle() -> None: ...

    assert not inbox.tracing.on
    assert world.row(handle.enqueue(world.conn).id).headers is None


def test_a_mode_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSettings, match="trace='both' is not known: choose from link, parent, off"):
        Inbox(trace="both")  # type: ignore[arg-type]
    monkeypatch.setenv("TENURE_TRACE", "always")
    with pytest.raises(BadSettings, match="TENURE_TRACE='always' is not known"):
        Inbox()


ALONE = """
import sys
sys.modules.update(dict.fromkeys(%r))  # None: not to be had
import tenure, tenure.worker, tenure.cli.worker
inbox = tenure.Inbox()
@inbox.handler("k")
def handle(): ...
assert handle.row().headers is None
assert not inbox.tracing.on
print([name for name, module in sys.modules.items() if name.startswith("opentelemetry") and module])
"""


@pytest.mark.parametrize("absent", [["opentelemetry"], []], ids=["absent", "unused"])
def test_an_application_without_opentelemetry_imports_nothing_of_it(absent: list[str]) -> None:
    answer = subprocess.run([sys.executable, "-c", ALONE % absent], capture_output=True, text=True, timeout=120)
    assert (answer.stdout, answer.stderr) == ("[]\n", "")


# -- across real processes


def test_a_trace_goes_through_a_worker_and_the_process_of_its_handler(
    world: World, spans: Recorder, tmp_path: Path
) -> None:
    path = tmp_path / "spans.jsonl"
    headers: dict[str, str] = {}
    with spans.tracer.start_as_current_span("request") as request:
        headers.update(Tracing().carried() or {})
    id = world.enqueue("parent", headers=headers)
    worker = Process(world, "apps.traced:inbox", tmp_path, TENURE_TEST_SPANS=str(path))
    with processes(worker):
        worker.saw("job_completed", 2)
        worker.end()
    assert world.status(id) == "completed"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = {(span["name"], span["attributes"].get("tenure.kind")): span for span in written}
    request_trace = f"0x{request.get_span_context().trace_id:032x}"

    process, inside = kinds["process default", "parent"], kinds["inside", None]
    assert [link["context"]["trace_id"] for link in process["links"]] == [request_trace]
    assert inside["parent_id"] == process["context"]["span_id"], "across the pipe to the child"
    enqueue, complete = kinds["enqueue default", "child"], kinds["complete default", "parent"]
    assert enqueue["parent_id"] == complete["parent_id"] == inside["context"]["span_id"]
    child = kinds["process default", "child"]
    assert [link["context"]["span_id"] for link in child["links"]] == [enqueue["context"]["span_id"]]


def test_a_worker_that_leaves_lets_its_last_spans_go(world: World, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    worker = Process(world, "apps.traced:inbox", tmp_path, TENURE_TEST_SPANS=str(path), TENURE_TEST_BATCH="yes")
    world.enqueue("child")
    with processes(worker):
        worker.saw("job_completed")
        assert worker.end() == 0
    assert {json.loads(line)["name"] for line in path.read_text().splitlines()} == {
        "claim default", "process default", "complete default",
    }  # fmt: skip


@pytest.fixture(autouse=True)
def no_context_left() -> Iterator[None]:
    """No test leaves a span current in this thread."""
    yield
    assert trace.get_current_span() is trace.INVALID_SPAN
