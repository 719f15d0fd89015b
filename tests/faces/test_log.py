"""Logs: an event is one line, on a stream of ours or through the application's own logging, and never costs a job."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import pytest

from crew import eventually, working
from faces.test_metrics import every_event
from tenure import Inbox, Retry, Terms, Worker
from tenure.events import Bus, ClaimAnswered, Event, JobCompleted, JobRetried, StaleWriteBlocked, Woken
from tenure.telemetry.log import Bridge, JsonFormatter, Log
from world import World

ID = UUID(int=1)
RETRIED = JobRetried(
    "w", ID, 1, "send_receipt", "mail", 0.25, 'Traceback\n  File "x"\nValueError: no such \x1b[31m address\nb'
)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the logger `tenure` writes as JSON, at every level."""
    stream, logger = io.StringIO(), logging.getLogger("tenure")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    before, logger.propagate = logger.level, False
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)
    logger.propagate = True


def read(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_ways_write_the_same_line_but_for_its_time(lines: io.StringIO) -> None:
    own = io.StringIO()
    for event in every_event():
        Log(own, as_json=True)(event)
        Bridge()(event)
    theirs, ours = read(lines), read(own)
    assert len(ours) > 15
    for line in (*theirs, *ours):
        assert datetime.fromisoformat(str(line.pop("at"))).utcoffset() is not None
    assert theirs == ours


def test_an_application_sees_the_event_as_extras(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tenure"):
        Bridge()(RETRIED)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tenure", "WARNING")
    assert vars(record)["event"] == "job_retried"
    assert (vars(record)["job_id"], vars(record)["queue"], vars(record)["run_seconds"]) == (str(ID), "mail", 0.25)
    assert "no such" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_what_nobody_logs_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tenure"):
        Bridge()(JobCompleted("w", ID, 1))
        assert not caplog.records
        Bridge()(StaleWriteBlocked("w", ID, 1, 2, "token_mismatch"))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("event", [ClaimAnswered("w", 0, 0.001), Woken("w", "poll")], ids=lambda event: event.name)
def test_a_mere_number_is_no_line(lines: io.StringIO, event: ClaimAnswered | Woken) -> None:
    own = io.StringIO()
    Log(own)(event)
    Bridge()(event)
    assert (own.getvalue(), lines.getvalue()) == ("", "")


def test_others_records_keep_their_text_their_extras_and_their_traceback(lines: io.StringIO) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("tenure.shop").exception("order %s", 9182, extra={"tenant": "a", "odd": {1}})
    (line,) = read(lines)
    assert (line["logger"], line["message"], line["level"]) == ("tenure.shop", "order 9182", "error")
    assert (line["tenant"], line["odd"]) == ("a", "{1}")
    assert str(line["traceback"]).endswith("ValueError: no")
    assert set(line) == {"at", "level", "logger", "message", "tenant", "odd", "traceback"}


def test_a_line_for_people_cannot_steer_their_terminal() -> None:
    own = io.StringIO()
    Log(own)(RETRIED)
    assert "\x1b" not in own.getvalue()
    assert own.getvalue().count("\n") == 1


class Broken(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(28, "no space left on device")


def test_a_stream_that_breaks_is_given_up() -> None:
    log = Log(Broken())
    log(RETRIED)
    log(RETRIED)


@pytest.mark.one_server
def test_logging_that_raises_does_not_cost_a_job(world: World) -> None:
    class Raising(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise RuntimeError("the log server is gone")

    logger = logging.getLogger("tenure.test")
    logger.addHandler(Raising())
    inbox = Inbox()

    @inbox.handler("k")
    def handle(n: int) -> Retry | None:
        return Retry("again", after_seconds=0) if n == 1 else None

    with working(world, inbox) as hired:
        hired.worker.bus.subscribe(Bridge(logger))
        handle.enqueue(world.conn, n=1)
        handle.enqueue(world.conn, n=2)
        hired.saw(JobRetried)
        hired.saw(JobCompleted)


def test_a_bus_goes_on_without_a_subscriber_that_raises_and_says_so_once(lines: io.StringIO) -> None:
    bus, calls = Bus(), []

    def raises(event: Event) -> None:
        calls.append(event)
        raise RuntimeError("no")

    bus.subscribe(raises)
    bus.subscribe(Bridge())
    bus.emit(RETRIED)
    bus.emit(RETRIED)
    dropped, *events = read(lines)
    assert [line["event"] for line in events] == ["job_retried"] * 2
    assert (dropped["level"], len(calls)) == ("error", 1)
    assert "raises" in str(dropped["message"])
    assert "RuntimeError: no" in str(dropped["traceback"])


def test_nobody_who_subscribes_while_another_leaves_is_lost() -> None:
    bus = Bus()
    heard: list[Event] = []

    class Leaving:
        def __eq__(self, other: object) -> bool:
            if joining.ident is None:
                joining.start()
                joining.join(0.3)  # it may go as far as it can
            return self is other

        __hash__ = None  # type: ignore[assignment]

        def __call__(self, _event: Event) -> None: ...

    leaving = Leaving()
    joining = threading.Thread(target=lambda: bus.subscribe(heard.append))
    bus.subscribe(leaving, each_job=False)
    bus.unsubscribe(leaving)
    joining.join()
    bus.emit(RETRIED)
    assert heard == [RETRIED]


def test_what_is_said_in_a_part_is_heard_in_the_whole_and_made_only_if_somebody_listens() -> None:
    whole = Bus()
    part = Bus(whole)
    heard: list[Event] = []
    assert not part.each_job
    whole.subscribe(heard.append, each_job=False)
    assert not part.each_job
    whole.subscribe(heard.append)
    assert part.each_job
    part.emit(RETRIED)
    assert heard == [RETRIED, RETRIED]
    part.leave(whole)
    part.emit(RETRIED)
    assert (len(heard), part.each_job) == (2, False)


def test_a_worker_that_nobody_listens_to_makes_no_events_of_what_its_handlers_send(world: World) -> None:
    inbox = Inbox()
    asked: list[bool] = []

    @inbox.handler("sends")
    def sends() -> None:
        asked.append(inbox.bus.each_job)

    bus = Bus()
    worker = Worker(inbox, Terms(world.url, schema=world.schema, poll_seconds=0.1), bus)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        world.enqueue("sends", {})
        eventually(lambda: asked == [False])
        bus.subscribe(lambda _: None)
        world.enqueue("sends", {})
        eventually(lambda: asked == [False, True])
    finally:
        worker.stop()
        thread.join()
