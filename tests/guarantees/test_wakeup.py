"""An idle worker starts a row when its transaction commits, and asks the database next to nothing until then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import Hired, eventually, working
from patience import soon
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.events import ExecutionStarted, JobCompleted, WakeupChanged
from tenure.model.outcome import Snooze
from tenure.model.ring import Ring
from tenure.model.rows import BUCKETS, NewRow
from tenure.verbs import fleet, questions
from tenure.worker import claimer, lease_keeper
from world import World

pytestmark = pytest.mark.one_server

POLL = 600.0  # nothing that is found within seconds was found by polling
PROMPT_SECONDS = 2.0  # where nothing else runs


def noop() -> Inbox:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> None: ...

    return inbox


@contextmanager
def asleep(world: World, inbox: Inbox | None = None, **terms: Any) -> Iterator[Hired]:
    """A worker that waits to be woken."""
    with working(world, inbox or noop(), **{"poll_seconds": POLL, **terms}) as hired:
        sleeps(world, hired)
        yield hired


def sleeps(world: World, hired: Hired) -> None:
    """Returns once producers know that this worker waits, and it has looked once more."""
    told = "SELECT waiting FROM workers WHERE id = %s"
    eventually(lambda: world.sql(told, hired.worker.id) == [(True,)])
    its = hired.worker.claimer
    eventually(lambda: its.sleep.told and its.claims.rule.dry_until() > time.monotonic() + 1)


def started(hired: Hired, n: int = 1) -> list[UUID]:
    return [event.job_id for event in hired.saw(ExecutionStarted, n)]


# -- woken


def test_an_idle_worker_starts_a_row_at_its_commit_and_not_at_its_next_look(world: World) -> None:
    waits: list[float] = []
    with asleep(world) as hired:
        for n in range(1, 6):
            sleeps(world, hired)
            sent = time.monotonic()
            world.enqueue("work")
            started(hired, n)
            waits.append(time.monotonic() - sent)
    print(
        f"\nfrom enqueue to start: {sorted(waits)[2] * 1000:.1f} ms in the middle, {max(waits) * 1000:.1f} ms at most"
    )
    assert max(waits) < soon(PROMPT_SECONDS)


def test_control_without_notes_the_row_waits_for_the_next_look(world: World) -> None:
    with asleep(world) as hired:

        def waits() -> bool:
            sleeps(world, hired)
            world.sql("SET tenure_inbox.notify = off")
            id = world.enqueue("work")
            echoed(world)
            time.sleep(0.5)  # time enough to start, for a worker that was woken after all
            return id not in {event.job_id for event in hired.of(ExecutionStarted)}

        assert any(waits() for _ in range(5))  # a note about the ring may wake it just then
        assert hired.worker.lease_keeper.listening
        world.sql("SET tenure_inbox.notify = on")
        world.enqueue("work")
        eventually(lambda: len(hired.of(ExecutionStarted)) == world.sql("SELECT count(*) FROM inbox")[0][0])


def test_nothing_starts_before_the_commit_and_a_rollback_starts_nothing(world: World) -> None:
    producer = world.connect()
    with asleep(world) as hired:
        with producer.transaction():
            kept = world.run(verbs.enqueue(NewRow("work")), producer).id
            echoed(world)
            assert not hired.of(ExecutionStarted)
        assert started(hired) == [kept]
        sleeps(world, hired)
        with producer.transaction():
            world.run(verbs.enqueue(NewRow("work")), producer)
            raise psycopg.Rollback
        last = world.enqueue("work")
        assert started(hired, 2) == [kept, last]


def echoed(world: World) -> None:
    """Returns when a note of another transaction has gone round: whoever was to hear something has heard it."""
    with postgres.connect(world.url) as ears:
        channel = world.run(questions.channel())
        ears.execute(f'LISTEN "{channel}"'.encode())
        world.run(fleet.tell("nothing"))
        assert [note.payload for note in ears.notifies(timeout=120, stop_after=1)] == ["nothing"]


def test_a_row_that_was_long_in_its_transaction_is_found_although_later_ones_were_taken(world: World) -> None:
    slow = world.connect()
    with asleep(world) as hired, slow.transaction():
        late = world.run(verbs.enqueue(NewRow("work")), slow).id
        # As if it had been sent well before what is taken in between.
        slow.execute("UPDATE live SET available_at = available_at - interval '5 seconds'")
        between = world.enqueue("work")
        assert started(hired) == [between]
        hired.saw(JobCompleted)
        sleeps(world, hired)
        slow.execute("COMMIT; BEGIN")
        assert started(hired, 2) == [between, late]


def test_a_row_with_a_delay_starts_on_time(world: World) -> None:
    with asleep(world) as hired:
        sent = time.monotonic()
        world.enqueue("work", delay_seconds=1.0)
        started(hired)
        assert 1.0 <= time.monotonic() - sent < 1.0 + soon(PROMPT_SECONDS)


def test_rows_due_one_after_the_other_each_start_on_time(world: World) -> None:
    with asleep(world) as hired:
        sent = time.monotonic()
        ids = [world.enqueue("work", delay_seconds=delay) for delay in (1.5, 1.0, 0.5)]
        assert started(hired, 3) == ids[::-1]
        assert time.monotonic() - sent < 1.5 + soon(PROMPT_SECONDS)


def test_a_snoozed_row_starts_again_on_time(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("work")
    async def work(job: Job) -> Snooze | None:
        return Snooze(1.0) if job.token == 1 else None

    with asleep(world, inbox) as hired:
        sent = time.monotonic()
        world.enqueue("work")
        started(hired, 2)
        assert 1.0 <= time.monotonic() - sent < 1.0 + soon(PROMPT_SECONDS)


def test_rows_that_a_sweep_gave_back_start_without_another_look(world: World) -> None:
    with asleep(world) as hired:
        world.sql("SET tenure_inbox.notify = off")
        world.enqueue("work")
        world.run(verbs.claim("nobody", 1, lease_seconds=0.01))
        started(hired)


def test_a_row_committed_between_the_board_and_the_wish_to_be_woken_starts_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox is empty, so the last board has no lane to poll: only another board shows the row."""
    producer = world.connect()
    sent: list[UUID] = []

    def run(conn: Any, statement: Any) -> Any:
        if statement.name == "set_waiting" and statement.params["waiting"] and not sent:
            sent.append(world.run(verbs.enqueue(NewRow("work")), producer).id)  # nobody waits yet: no note is sent
        return postgres.run(conn, statement, world.schema)

    with asleep(world) as hired:
        echoed(world)  # whatever it heard while it joined, it has looked
        eventually(lambda: hired.worker.posts[0].news.empty)
        world.sql("UPDATE workers SET waiting = false")
        monkeypatch.setattr(claimer, "run", run)
        hired.worker.claimer.sleep.told = ""
        hired.worker.posts[0].news.wake()
        assert started(hired) == sent


# -- who is woken


def test_a_note_is_sent_only_when_somebody_waits(world: World) -> None:
    ears = world.connect()
    ears.execute(f'LISTEN "{world.run(questions.channel())}"'.encode())

    def notes() -> list[str]:
        world.run(fleet.tell("the end"))
        heard: list[str] = []
        for note in ears.notifies(timeout=120):
            if note.payload == "the end":
                return heard
            heard.append(note.payload)
        raise AssertionError("the channel is deaf")

    world.enqueue("work")
    assert notes() == []
    world.run(fleet.register("W"))
    world.run(fleet.set_waiting("W", waiting=True))
    id = world.enqueue("work")
    assert notes() == [f"0{world.run(questions.bucket(str(id)))} default"]
    world.run(verbs.enqueue_many([NewRow("work") for _ in range(50)]))
    assert notes() == ["* default"]
    world.sql("SET tenure_inbox.notify = off")
    world.enqueue("work")
    assert notes() == []


def test_a_worker_that_works_on_asks_not_to_be_woken(world: World) -> None:
    inbox = Inbox()
    done = threading.Event()

    @inbox.handler("work")
    async def work(job: Job) -> None:
        if not done.is_set():
            world.run(verbs.enqueue(NewRow("work")), other)

    other = world.connect()
    with asleep(world, inbox, slots=1) as hired:
        world.run(verbs.enqueue_many([NewRow("work") for _ in range(1_000)]))  # more than it claims ahead
        eventually(lambda: world.sql("SELECT waiting FROM workers") == [(False,)])
        done.set()
        sleeps(world, hired)
        looks = hired.worker.claimer.claims.rule._turn
        echoed(world)
        assert hired.worker.claimer.claims.rule._turn == looks, "it rests, and looks no more"


def test_rows_that_came_by_copy_are_found_by_looking(world: World) -> None:
    with asleep(world, poll_seconds=1.0) as hired:
        assert postgres.copy(world.conn, [NewRow("work") for _ in range(3)], world.schema) == 3
        started(hired, 3)


def test_only_the_owner_of_the_bucket_is_woken(world: World) -> None:
    with asleep(world) as one, asleep(world) as other:
        side_by_side(one, other)
        for hired in (one, other):
            sleeps(world, hired)
        ring = Ring([one.worker.id, other.worker.id])
        woken = {hired: counted(hired) for hired in (one, other)}
        ids = [world.enqueue("work") for _ in range(20)]
        eventually(lambda: len(one.of(ExecutionStarted)) + len(other.of(ExecutionStarted)) == 20)
        for hired in (one, other):
            own = {id for id in ids if ring.owner_of(world.run(questions.bucket(str(id)))) == hired.worker.id}
            assert 0 < len(own) < 20
            eventually(lambda hired=hired, own=own: len(woken[hired]) == len(own))  # type: ignore[misc]
        # Whoever is awake takes what has been due longest, and each row once.
        assert {event.job_id for hired in (one, other) for event in hired.of(ExecutionStarted)} == set(ids)
        # All of the buckets have one owner each: nobody waits for a look beyond.
        assert sum(len(ring.buckets_of(hired.worker.id)) for hired in (one, other)) == BUCKETS


def side_by_side(*crew: Hired) -> None:
    """Returns once each knows of all."""
    eventually(lambda: all(len(hired.worker.lease_keeper.ring.workers) == len(crew) for hired in crew))


def counted(hired: Hired) -> list[str]:
    """The notes that this worker takes for its own, from now on."""
    intake, heard = hired.worker.claimer.claims.rule, []
    look_again = type(intake).look_again

    class Counting(type(intake)):  # type: ignore[misc]
        __slots__ = ()

        def look_again(self, queue: str | None = None, ordered: bool | None = None) -> None:
            if queue is not None:
                heard.append(queue)
            look_again(self, queue, ordered)

    intake.__class__ = Counting
    return heard


def test_a_note_that_nobody_knows_harms_nobody(world: World) -> None:
    """A cancel is told to all: the one who runs the row stops, the others go on."""
    with asleep(world) as one, asleep(world) as other:
        side_by_side(one, other)
        for note in ("cancel somebody-else", "x", " ", "* ", "99999999 default", "-1 default", "ringing"):
            world.run(fleet.tell(note))
        ids = [world.enqueue("work") for _ in range(20)]
        eventually(lambda: {world.status(id) for id in ids} == {"completed"})
        assert (one.exit_code, other.exit_code) == (None, None)


# -- ears that fail


def test_a_listener_that_hears_nothing_says_so_and_polls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "ECHO_EVERY_SECONDS", 1.0)
    with asleep(world, poll_seconds=1.0, grace_seconds=1.5) as hired:
        (first,) = hired.of(WakeupChanged)
        assert first.source == "notify"
        world.sql("SET tenure_inbox.notify = off")
        deafen(hired)
        (_, second) = hired.saw(WakeupChanged, 2)
        assert (second.source, second.reason[:19]) == ("poll", "a note to ourselves")
        world.enqueue("work")
        started(hired)
        hired.worker.lease_keeper.__class__ = lease_keeper.LeaseKeeper
        hired.saw(WakeupChanged, 3)
        assert [event.source for event in hired.of(WakeupChanged)] == ["notify", "poll", "notify"]


def deafen(hired: Hired) -> None:
    """From now on its notes to itself go where it does not listen."""

    class Deaf(lease_keeper.LeaseKeeper):
        def _test_ears(self, conn: Any) -> None:
            kept, self._ears.echoes = self._ears.echoes, f"{self._ears.echoes}_elsewhere"
            try:
                super()._test_ears(conn)
            finally:
                self._ears.echoes = kept

    hired.worker.lease_keeper.__class__ = Deaf


def test_who_hears_the_echo_of_another_sends_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "ECHO_EVERY_SECONDS", 3600.0)
    with asleep(world) as hired:
        keeper = hired.worker.lease_keeper
        planned = keeper._due["echo"]
        world.run(fleet.echo(keeper._ears.echoes, "of another"))
        eventually(lambda: keeper._due["echo"] != planned)


def test_who_thinks_that_it_is_deaf_and_hears_an_echo_tests_its_ears(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_keeper, "ECHO_EVERY_SECONDS", 1.0)
    with asleep(world, grace_seconds=1.5) as hired:
        deafen(hired)
        monkeypatch.setattr(lease_keeper, "ECHO_EVERY_SECONDS", 3600.0)
        hired.saw(WakeupChanged, 2)
        hired.worker.lease_keeper.__class__ = lease_keeper.LeaseKeeper
        world.run(fleet.echo(hired.worker.lease_keeper._ears.echoes, "of another"))
        hired.saw(WakeupChanged, 3)


def test_a_deaf_ear_costs_no_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "ECHO_EVERY_SECONDS", 0.2)
    inbox = Inbox()
    gate = threading.Event()

    @inbox.handler("work")
    def work(job: Job) -> None:
        gate.wait(90)

    with asleep(world, inbox, grace_seconds=2.0) as hired:
        id = world.enqueue("work")
        started(hired)
        tests = calls(hired, "_test_ears")
        deafen(hired)
        eventually(lambda: len(tests) > 3)
        gate.set()
        hired.saw(JobCompleted)
    assert world.row(id).lease_generation == 1


def calls(hired: Hired, name: str) -> list[float]:
    kept: list[float] = []
    real: Callable[..., Any] = getattr(hired.worker.lease_keeper, name)

    def counting(*args: Any) -> Any:
        kept.append(time.monotonic())
        return real(*args)

    setattr(hired.worker.lease_keeper, name, counting)
    return kept


def test_without_listening_rows_are_found_by_looking_and_nobody_is_asked_to_wake(world: World) -> None:
    with working(world, noop(), listen=False, poll_seconds=0.5) as hired:
        world.enqueue("work")
        started(hired)
        assert world.sql("SELECT waiting, metadata->>'wakeup' FROM workers") == [(False, "poll")]


def test_a_worker_whose_listening_session_was_cut_is_woken_again_afterwards(world: World) -> None:
    with asleep(world) as hired:
        cut(world, "lease_keeper")
        hired.saw(WakeupChanged, 3)
        # Whoever keeps house may have missed it meanwhile, and then nobody would wake it.
        world.sql("UPDATE workers SET waiting = false")
        cut(world, "lease_keeper")
        hired.saw(WakeupChanged, 5)
        sleeps(world, hired)
        world.enqueue("work")
        started(hired)


def test_a_worker_declared_dead_goes_on_under_another_id_and_is_woken_under_it(world: World) -> None:
    with asleep(world, heartbeat_seconds=0.5, ttl_seconds=600.0) as hired:
        before = hired.worker.id
        world.sql("UPDATE workers SET status = 'dead'")
        eventually(lambda: hired.worker.id != before)
        sleeps(world, hired)
        world.enqueue("work")
        started(hired)
        assert [event.worker for event in hired.of(ExecutionStarted)] == [hired.worker.id]


def cut(world: World, who: str) -> None:
    """End the sessions of one line of the workers of this world."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
    with suppress(psycopg.Error):
        for (id,) in world.sql("SELECT id FROM workers"):
            world.sql(ended, f"tenure {who} {id}"[:63] + "%")
