"""`tenure workers`, `ring` and `tail`: the fleet for people and for programs, as real processes."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

import warm
from faces.terminal import Terminal
from faces.test_metrics import every_event
from guarantees.facts import Beside, until
from tenure.app.inbox import Inbox
from tenure.errors import NO, UNREACHABLE, USAGE
from tenure.events import Bus, Event, JobCompleted, JobFailed, WorkerDraining
from tenure.model.ring import Ring
from tenure.telemetry import tail
from tenure.telemetry.tail import EVENTS_MAX, PAUSE_SECONDS, PAYLOAD_BYTES_MAX, PAYLOADS_MAX, WATCHED_SECONDS, Tailer
from tenure.verbs import fleet, questions
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server

# Minds Ctrl-C also when the tests were started in the background of a shell, which lets its children ignore it.
MIND_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
TENURE = [sys.executable, "-c", f"{MIND_CTRL_C}; from tenure.cli import main; main()"]
NOWHERE = "postgresql://tenure@127.0.0.1:1/tenure"
ID = UUID(int=1)
SAID = {"host": "box", "pid": 7, "queues": ["mail", "default"], "slots": 20, "slots_used": 3, "wakeup": "notify"}


def command(world: World, *arguments: str) -> list[str]:
    return [*TENURE, *arguments, "--database-url", world.url, "--schema", world.schema]


def tenure(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments, "--database-url", world.url, "--schema", world.schema)


def document(world: World, *arguments: str) -> dict[str, Any]:
    answer = tenure(world, *arguments, "--json")
    assert answer.stderr == ""
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.fixture
def fleet_of_three(world: World) -> World:
    """Three workers in the registry: one whose session is here, one that never showed one, one declared dead."""
    for worker in ("w-here", "w-pooled", "w-dead"):
        world.run(fleet.register(worker, SAID))
    world.run(fleet.appear("w-here"))
    world.sql("UPDATE workers SET status = 'dead', last_seen_at = last_seen_at - interval '1 hour' WHERE id = 'w-dead'")
    return world


# -- workers


def test_workers_are_listed_with_what_they_say_of_themselves(fleet_of_three: World) -> None:
    with Terminal(command(fleet_of_three, "workers")) as terminal:
        assert terminal.end() == 0
        head = terminal.seen.splitlines()[0]
    assert head.split() == ["worker", "status", "seen", "up", "slots", "queues", "host", "pid", "wakeup", "presence"]
    here, pooled, dead = tenure(fleet_of_three, "workers").stdout.splitlines()
    assert "\t" in here, "for programs"
    assert [here.split()[n] for n in (0, 1, 4, 5, 6, 7, 8, 9)] == [
        "w-here", "alive", "3/20", "mail,default", "box", "7", "notify", "here",
    ]  # fmt: skip
    assert (pooled.split()[0], pooled.split()[-1]) == ("w-pooled", "none")
    assert dead.split()[:2] == ["w-dead", "dead"]
    assert (dead.split()[4], dead.split()[-1]) == ("-", "-"), "the dead have neither slots nor a session"
    assert 3600 <= int(dead.split()[2].removesuffix("s")) < 3700


def test_a_worker_whose_session_ended_is_seen_as_gone(world: World) -> None:
    world.run(fleet.register("w", SAID))
    session = world.connect()
    world.run(fleet.appear("w"), session)
    assert document(world, "workers")["workers"][0]["present"] is True
    session.close()
    until(lambda: world.run(questions.workers())[0].present is False, "its lock is gone")
    assert document(world, "workers")["workers"][0]["present"] is False
    assert tenure(world, "workers").stdout.splitlines()[0].endswith("gone")


def test_a_worker_that_says_nothing_of_itself_is_listed_too(world: World) -> None:
    world.run(fleet.register("w"))
    assert tenure(world, "workers").stdout.splitlines()[0].split()[4:] == ["?/?", "?", "?", "?", "?", "none"]


def test_without_workers_it_says_so(world: World) -> None:
    answer = tenure(world, "workers")
    assert (answer.stdout, answer.stderr) == ("", "no workers\n")
    assert document(world, "workers") == {"schema": 1, "workers": []}


def test_the_document_of_workers_has_every_field(fleet_of_three: World) -> None:
    found = document(fleet_of_three, "workers")["workers"]
    assert [set(each) for each in found] == [set(questions.Member._fields)] * 3
    assert [each["present"] for each in found] == [True, None, None]
    assert found[0]["metadata"] == SAID


# -- ring


def test_the_ring_is_what_the_live_workers_make_of_it(fleet_of_three: World) -> None:
    ring = Ring(["w-here", "w-pooled"])
    shares = [[id, str(len(ring.buckets_of(id)))] for id in ring.workers]
    with Terminal(command(fleet_of_three, "ring"), NO_COLOR="") as terminal:
        assert terminal.end() == 0
        head, *lines = terminal.seen.splitlines()
    assert head.split() == ["worker", "buckets", "share", "queues"]
    assert [line.split()[:2] for line in lines] == shares
    assert all("█" in line for line in lines)
    cells = [line.split("\t") for line in tenure(fleet_of_three, "ring").stdout.splitlines()]
    assert [line[:2] for line in cells] == shares, "for programs no head"
    assert [line[3:] for line in cells] == [["default,mail"]] * 2, "and no drawing"
    found = document(fleet_of_three, "ring")["workers"]
    queues = ["default", "mail"]
    assert found == [{"id": id, "buckets": len(ring.buckets_of(id)), "queues": queues} for id in ring.workers]


def test_nothing_is_drawn_for_who_wants_no_colour(fleet_of_three: World) -> None:
    with Terminal(command(fleet_of_three, "ring"), NO_COLOR="1") as terminal:
        assert terminal.end() == 0
    assert "w-here" in terminal.seen
    assert "█" not in terminal.seen


def test_workers_of_other_queues_have_a_ring_of_their_own(fleet_of_three: World) -> None:
    fleet_of_three.run(fleet.register("w-reports", {**SAID, "queues": ["reports"]}))
    shares = {each["id"]: each["buckets"] for each in document(fleet_of_three, "ring")["workers"]}
    assert shares["w-reports"] == 1024
    assert shares["w-here"] + shares["w-pooled"] == 1024
    said = tenure(fleet_of_three, "ring", "--bucket", "5").stdout.splitlines()
    assert said[1] == "bucket 5 is owned by w-reports for reports"


def test_the_owner_of_a_key_is_the_owner_of_the_databases_bucket(fleet_of_three: World) -> None:
    fleet_of_three.enqueue(key="order:9182")
    ((bucket,),) = fleet_of_three.sql("SELECT partition_bucket FROM inbox WHERE partition_key = 'order:9182'")
    owner = Ring(["w-here", "w-pooled"]).owner_of(bucket)
    said = f"key 'order:9182' is in bucket {bucket}, which is owned by {owner}\n"
    assert tenure(fleet_of_three, "ring", "--key", "order:9182").stdout == said
    found = document(fleet_of_three, "ring", "--bucket", str(bucket))
    assert found == {"schema": 1, "bucket": bucket, "owner": owner, "owners": {"default,mail": owner}}


def test_a_ring_without_workers_owns_nothing(world: World) -> None:
    answer = tenure(world, "ring")
    assert (answer.stdout, answer.stderr) == ("", "no live workers: nobody owns a bucket\n")
    answer = tenure(world, "ring", "--bucket", "5")
    assert (answer.returncode, answer.stdout) == (NO, "bucket 5 has no owner: no worker is alive\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ring", "--bucket", "1024"], "1024 is not in the range 0<=x<=1023"),
        (["ring", "--bucket", "5", "--key", "k"], "--key and --bucket contradict each other: give one"),
        (["ring", "--key", "\udcff"], "key contains a lone surrogate"),
        (["tail", "--filter", "job_exploded"], "there is no event 'job_exploded': there are "),
        (["tail", "--seconds", "0"], "0.0 is not in the range x>0"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(world: World, arguments: list[str], says: str) -> None:
    answer = tenure(world, *arguments)
    assert answer.returncode == USAGE
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", ["workers", "ring", "tail"])
def test_without_a_database_they_say_so(name: str) -> None:
    answer = warm.run(name, "--database-url", NOWHERE)
    assert answer.returncode == UNREACHABLE
    assert answer.stderr.startswith("tenure: the database does not answer")
    assert len(answer.stderr.splitlines()) == 1


# -- tail, from the worker's side


class Switched:
    """A tailer, with a record of when it was switched on and off."""

    def __init__(self) -> None:
        self.turns: list[bool] = []
        self.tailer = Tailer(self.turns.append)

    def lines(self, at: float) -> list[dict[str, Any]]:
        return [json.loads(line) for payload in self.tailer.drain(at) for line in payload.splitlines()]


def failed(error: str = "boom") -> JobFailed:
    return JobFailed("w", ID, 1, "send_receipt", "mail", 0.5, error)


def test_nobody_watches_and_nothing_is_sent() -> None:
    assert Switched().tailer.drain(0.0) == []
    assert Switched().turns == []


def test_while_somebody_watches_events_are_sent_in_order() -> None:
    site = Switched()
    site.tailer.hear(100.0)
    site.tailer.hear(105.0)
    assert site.turns == [True]
    site.tailer(WorkerDraining("w", 2))
    site.tailer(failed())
    draining, job = site.lines(105.1)
    assert (draining["event"], draining["held"], draining["level"]) == ("worker_draining", 2, "info")
    assert (job["event"], job["job_id"], job["error"]) == ("job_failed", str(ID), "boom")
    assert abs(datetime.fromisoformat(job["at"]) - datetime.now(UTC)).total_seconds() < 60


def test_a_watcher_that_stays_away_is_forgotten() -> None:
    site = Switched()
    site.tailer.hear(100.0)
    site.tailer(failed())
    assert site.tailer.drain(100.0 + WATCHED_SECONDS) == []
    assert site.turns == [True, False]
    site.tailer.hear(200.0)
    assert site.turns == [True, False, True]
    assert site.lines(200.1) == [], "what nobody watched is not sent to the next one"


def test_no_payload_is_too_long_for_a_note_and_none_come_too_often() -> None:
    site = Switched()
    site.tailer.hear(0.0)
    for _ in range(500):
        site.tailer(failed("x" * 90))
    first = site.tailer.drain(1.0)
    assert len(first) == PAYLOADS_MAX
    assert site.tailer.drain(1.0 + PAUSE_SECONDS / 2) == []
    at, sent = 1.0, len("\n".join(first).splitlines())
    while payloads := site.tailer.drain(at := at + PAUSE_SECONDS):
        assert all(len(payload.encode()) > PAYLOAD_BYTES_MAX - 500 for payload in payloads[:-1])
        assert all(len(payload.encode()) <= PAYLOAD_BYTES_MAX for payload in payloads)
        sent += len("\n".join(payloads).splitlines())
    assert sent == 500


def test_what_is_too_much_is_dropped_and_counted_where_it_is_missing() -> None:
    site = Switched()
    site.tailer.hear(0.0)
    for n in range(EVENTS_MAX + 30):
        site.tailer(WorkerDraining("w", n))
    first, second, *_ = site.lines(1.0)
    assert first == {"event": "tail_dropped", "n": 30}
    assert second["held"] == 30
    assert "tail_dropped" not in {line["event"] for line in site.lines(2.0)}, "told once"


def test_the_longest_event_fits_and_is_plain_ascii() -> None:
    long = "\U0001f4a5" * 9000 + "\udcff the end"
    for event in every_event():
        texts = {field.name: long for field in dataclasses.fields(event) if str(field.type) == "str"}
        line = tail.as_line(datetime.now(UTC), dataclasses.replace(event, **texts))
        assert len(line) <= PAYLOAD_BYTES_MAX
        assert line.isascii()
        assert all(json.loads(line)[name].endswith("the end") for name in texts)


# -- tail, as a process


class Tail:
    """`tenure tail` while it runs; the test plays the worker."""

    def __init__(self, world: World, process: subprocess.Popen[str]) -> None:
        self.world, self.process = world, process
        self.channel = tail.channel_of(world.run(questions.channel()))

    def send(self, *events: Event) -> None:
        """What a worker would send."""
        site = Switched()
        site.tailer.hear(0.0)
        for event in events:
            site.tailer(event)
        for payload in site.tailer.drain(1.0):
            self.world.run(fleet.echo(self.channel, payload))

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return Beside(self.process.stdout.readline).result()

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Its exit code, and what it said besides."""
        self.process.send_signal(how)
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said


@contextmanager
def tailing(world: World, *arguments: str) -> Iterator[Tail]:
    """A tail that listens: it has said so to the fleet."""
    ears = world.connect()
    ears.execute(f'LISTEN "{world.run(questions.channel())}"'.encode())
    piped = subprocess.PIPE
    with subprocess.Popen(command(world, "tail", *arguments), stdout=piped, stderr=piped, text=True) as process:
        try:
            heard = Beside(lambda: next(ears.notifies(timeout=120)))
            assert heard.result().payload == tail.NOTE
            yield Tail(world, process)
        finally:
            process.kill()


def test_a_tail_prints_what_workers_send_until_it_is_interrupted(fleet_of_three: World) -> None:
    with tailing(fleet_of_three) as watching:
        watching.send(failed('Traceback\n  File "x.py", line 3\nValueError: no such order'))
        at, level, name, *facts = watching.line().split(maxsplit=4)
        assert (len(at), level, name) == (12, "error", "job_failed")
        assert 'error="ValueError: no such order"' in facts[-1]
        assert "run_seconds=0.500" in facts[-1]
        assert watching.end() == (0, "2 workers are alive; Ctrl-C ends this\n")


def test_a_tail_for_programs_prints_one_object_a_line_and_only_what_was_asked_for(world: World) -> None:
    with tailing(world, "--json", "--filter", "job_failed, worker_draining") as watching:
        watching.send(JobCompleted("w", ID, 1), failed(), JobCompleted("w", ID, 1), WorkerDraining("w", 2))
        assert [json.loads(watching.line())["event"] for _ in range(2)] == ["job_failed", "worker_draining"]


def test_a_tail_ends_by_itself(world: World) -> None:
    answer = tenure(world, "tail", "--seconds", "0.1")
    assert (answer.returncode, answer.stdout) == (0, "")
    assert answer.stderr == "0 workers are alive; Ctrl-C ends this\n"


def test_a_tail_whose_reader_left_ends_quietly(world: World) -> None:
    with tailing(world) as watching:
        assert watching.process.stdout is not None
        watching.process.stdout.close()
        watching.send(failed())
        assert watching.process.wait(90) == 0
        assert watching.process.stderr is not None
        assert watching.process.stderr.read() == "0 workers are alive; Ctrl-C ends this\n"


def test_a_tail_follows_a_real_worker_and_costs_it_nothing_before_and_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "WATCHED_SECONDS", 1.0)
    inbox, bus = Inbox(), Bus()

    @inbox.handler("greet")
    async def greet() -> None:
        return None

    worker = Worker(inbox, Terms(world.url, schema=world.schema, poll_seconds=0.5), bus)
    life = Beside(worker.run)
    try:
        until(lambda: worker.lease_keeper.listening, "it listens")
        assert not bus.each_job, "nobody watches"
        with tailing(world, "--json") as watching:
            until(lambda: bus.each_job, "it has heard that somebody watches")
            id = world.enqueue("greet")
            events = []
            while "job_completed" not in events:
                line = json.loads(watching.line())
                assert line["worker"] == worker.id
                events += [line["event"]] if line.get("job_id") == str(id) else []
            assert events == ["lease_acquired", "execution_started", "job_completed"]
        until(lambda: not bus.each_job, "the watcher is forgotten")
    finally:
        worker.stop()
        life.result()
