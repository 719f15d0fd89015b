"""One worker at several inboxes: one set of slots, shared fairly; trouble of one inbox stays there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crew import Hired, Process, eventually, processes, working
from pairs import Pair, both_ready, new_pair, ready, serving
from tenure.app.clock_times import Cron
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import TRY_LATER
from tenure.events import DatabaseUnreachable, ExecutionStarted, JobReleased, LeaseLost
from tenure.worker import places
from tenure.worker.health import Health
from tenure.worker.held import HeldAttempts
from tenure.worker.homes import home_of
from tenure.worker.slots import Slots
from world import World

pytestmark = pytest.mark.one_server


class Counting:
    """An inbox whose handlers count how many of them run at once, and how many of each inbox have."""

    def __init__(self, seconds: float = 0.0, pool: str = "loop") -> None:
        self.inbox, self._lock, self._seconds = Inbox(), threading.Lock(), seconds
        self.now = self.most = 0
        self.order: list[str] = []
        handler = self.inbox.handler("counts")
        if pool == "loop":

            @handler
            async def counts(job: Job, of: str) -> None:
                with self._one(of):
                    await asyncio.sleep(self._seconds)
        else:

            @handler
            def counts(job: Job, of: str) -> None:
                with self._one(of):
                    time.sleep(self._seconds)

        self.counts = counts

    @contextlib.contextmanager
    def _one(self, of: str) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(of)
        yield
        with self._lock:
            self.now -= 1


def fill(world: World, of: str, n: int) -> None:
    """So many rows in this inbox."""
    world.sql("SELECT enqueue('counts', jsonb_build_object('of', %s::text)) FROM generate_series(1, %s)", of, n)


def done(world: World) -> int:
    """How many rows are completed."""
    return int(world.sql("SELECT count(*) FROM archive")[0][0])


class Held:
    """An inbox whose handlers run until they are let go."""

    def __init__(self) -> None:
        self.inbox, self.gate, self.returned = Inbox(), threading.Event(), 0

        @self.inbox.handler("waits")
        async def waits(job: Job) -> None:
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
            self.returned += 1


# -- one set of slots


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_rows_of_both_inboxes_are_completed_with_one_set_of_slots(pair: Pair, pool: str) -> None:
    counting = Counting(0.01, pool)
    for of, world in zip("ab", pair, strict=True):
        fill(world, of, 30)
    with serving(pair, counting.inbox, slots=3):
        eventually(lambda: [done(world) for world in pair] == [30, 30])
    assert counting.most == 3
    ((a,),), ((b,),) = (world.sql("SELECT DISTINCT finished_by FROM archive") for world in pair)
    assert (a.removesuffix("@a"), a[-2:], b[-2:]) == (b.removesuffix("@b"), "@a", "@b")


def test_control_two_workers_have_two_sets_of_slots(pair: Pair) -> None:
    counting = Counting(0.05)
    for of, world in zip("ab", pair, strict=True):
        fill(world, of, 30)
    with working(pair.a, counting.inbox, slots=3), working(pair.b, counting.inbox, slots=3):
        eventually(lambda: [done(world) for world in pair] == [30, 30])
    assert counting.most > 3


FLOOD, FEW = 1500, 30


def before_the_last_of_b(pair: Pair, pool: str) -> int:
    """A flood in `a`, then a few rows in `b`: how many of the flood start before those."""
    counting = Counting(0.002, pool)
    with serving(pair, counting.inbox, slots=2) as hired:
        both_ready(hired)
        fill(pair.a, "a", FLOOD)
        eventually(lambda: len(counting.order) > 50)
        fill(pair.b, "b", FEW)
        begun = len(counting.order)
        eventually(lambda: done(pair.b) == FEW)
        order = list(counting.order)
    last = max(n for n, of in enumerate(order) if of == "b")
    return last - begun - FEW


@pytest.mark.parametrize("pool", ["loop", "thread"])
def test_a_flood_in_one_inbox_leaves_the_other_its_share(pair: Pair, pool: str) -> None:
    assert before_the_last_of_b(pair, pool) < FLOOD / 2


def next_after_one_of_a(pair: Pair) -> str:
    """Both slots have rows of `a`, and both inboxes have more rows: whose row gets the first slot that is free?"""
    inbox, order, may_end = Inbox(), list[str](), threading.Event()

    @inbox.handler("counts")
    async def counts(job: Job, of: str) -> None:
        order.append(of)
        first = len(order) == 1
        while not (first and may_end.is_set()):
            await asyncio.sleep(0.01)

    fill(pair.a, "a", 10)
    with serving(pair, inbox, slots=2, drain_seconds=0.1) as hired:
        both_ready(hired)
        eventually(lambda: order == ["a", "a"])
        fill(pair.b, "b", 3)
        eventually(lambda: hired.worker.posts[1].held.hungry)
        may_end.set()
        eventually(lambda: len(order) > 2)
    return order[2]


def test_a_slot_goes_to_the_inbox_that_has_less_than_its_share(pair: Pair) -> None:
    assert next_after_one_of_a(pair) == "b"


def test_control_without_shares_who_has_the_slots_keeps_them(
    pair_urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slots, "_part", lambda slots, *_: slots.most)
    seen: list[str] = []
    while "a" not in seen and len(seen) < 4:  # by chance the other may be faster, but not always
        with new_pair(*pair_urls) as pair:
            seen.append(next_after_one_of_a(pair))
    assert "a" in seen


def test_slots_are_shared_among_those_who_want_some() -> None:
    a, b, c = takers = [Taker() for _ in range(3)]
    slots = Slots(8)
    for taker in takers:
        slots.add(taker)
    assert [slots.offered(each) for each in takers] == [8, 8, 8], "nobody else wants any"
    a.hungry = b.hungry = True
    assert [slots.offered(each) for each in (a, b)] == [4, 4]
    a.in_flight = a.slots_running = 8  # from before
    assert [slots.offered(each) for each in (a, b)] == [-4, 0]
    assert (slots.room(a)[0], slots.room(b)[0]) == (-4, 0)
    a.slots_running, a.in_flight = 3, 8  # five have returned and are not settled: the others need not wait for that
    assert [slots.offered(each) for each in (a, b)] == [-4, 4]
    assert (slots.room(a)[0], slots.room(b)[0]) == (1, 4)
    b.hungry = False
    slots.freed(b)
    assert [each.nudged for each in takers] == [1, 0, 0]
    assert c.nudged == 0


def test_the_only_slot_goes_from_one_to_the_other() -> None:
    a, b = takers = [Taker(), Taker()]
    slots = Slots(1)
    for taker in takers:
        slots.add(taker)
        taker.hungry = True
    for taker, other in ((a, b), (b, a), (a, b)):
        assert (slots.offered(taker), slots.offered(other)) == (1, 0)
        slots.took(taker)


class Taker:
    """One that says what the test wants."""

    def __init__(self) -> None:
        self.slots_running = self.in_flight = self.nudged = 0
        self.hungry = False

    def nudge(self) -> None:
        """Counted."""
        self.nudged += 1


# -- trouble of one inbox


def cut_off(pair: Pair, *, a_waits: bool) -> tuple[Hired, int]:
    """All slots have rows of `b`, whose database goes silent; they return, and then `a` has rows."""
    held = Held()
    counting = Counting()
    held.inbox.handlers.update(counting.inbox.handlers)
    with FaultProxy(pair.b.url) as proxy, serving(pair, held.inbox, urls={"b": proxy.url}, slots=2) as hired:
        both_ready(hired)
        ids = [pair.b.enqueue("waits") for _ in range(2)]
        hired.saw(ExecutionStarted, 2)
        proxy.blackhole()
        held.gate.set()
        eventually(lambda: held.returned == 2)
        fill(pair.a, "a", 20)
        if a_waits:
            time.sleep(3.0)
        else:
            with Health(hired.worker, "127.0.0.1", 0) as health:
                eventually(lambda: json.loads(health.answer("GET", "/readyz").body)["slots_used"] == 0)
            eventually(lambda: done(pair.a) == 20)
        meanwhile = done(pair.a)
        proxy.heal()
        eventually(lambda: [pair.b.status(id) for id in ids] == ["completed"] * 2)
        eventually(lambda: done(pair.a) == 20)
    assert hired.of(LeaseLost) == []
    assert [pair.b.row(id).attempts for id in ids] == [1, 1]
    return hired, meanwhile


def test_while_one_database_is_silent_the_rows_of_the_other_go_on(pair: Pair) -> None:
    hired, _ = cut_off(pair, a_waits=False)
    assert {event.worker[-2:] for event in hired.of(DatabaseUnreachable)} <= {"@b"}


def test_control_if_what_cannot_be_settled_kept_its_slot_the_other_inbox_would_wait(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldAttempts, "slots_running", HeldAttempts.slots_used)
    assert cut_off(pair, a_waits=True)[1] == 0


def test_a_worker_begins_although_one_database_is_away_and_serves_it_when_it_is_there(pair: Pair) -> None:
    counting = Counting()
    for of, world in zip("ab", pair, strict=True):
        fill(world, of, 5)
    with FaultProxy(pair.b.url) as proxy:
        proxy.refuse()
        with serving(pair, counting.inbox, urls={"b": proxy.url}) as hired:
            eventually(lambda: done(pair.a) == 5)
            assert {event.who for event in hired.saw(DatabaseUnreachable)} == {"post"}
            assert (ready(hired.worker.posts[1]), done(pair.b)) == (False, 0)
            proxy.heal()
            eventually(lambda: done(pair.b) == 5)
            assert hired.stop() == 0


# -- the end


@contextlib.contextmanager
def hanging_up() -> Iterator[tuple[str, list[object]]]:
    """The address of a server that lets nobody in, and whoever came."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, address = listener.accept()
                    came.append(address)
                    caller.close()

        threading.Thread(target=answer, daemon=True).start()
        yield f"postgresql://tenure@127.0.0.1:{listener.getsockname()[1]}/tenure?sslmode=disable", came


@pytest.mark.parametrize(("seconds", "asked"), [(places.AWAY_SECONDS, 1), (0.0, 2)])
def test_an_inbox_that_is_away_is_waited_for_once_at_the_start_and_not_by_every_post(
    pair: Pair, seconds: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "AWAY_SECONDS", seconds)  # none: the control
    with hanging_up() as (url, came):
        known = places.Places({"a": pair.a.url, "b": pair.b.url, "away": url}, "tenure")
        for here, other in ("ab", "ba"):
            with known.others(here) as others:
                assert set(others) == {other}
        assert len(came) == asked


def test_a_drain_gives_back_rows_of_both(pair: Pair) -> None:
    held = Held()
    ids = [world.enqueue("waits") for world in pair]
    with serving(pair, held.inbox, drain_seconds=0.3) as hired:
        hired.saw(ExecutionStarted, 2)
        assert hired.stop() == 0
        held.gate.set()
    assert len(hired.of(JobReleased)) == 2
    rows = [world.row(id) for world, id in zip(pair, ids, strict=True)]
    assert [(row.status, row.attempts) for row in rows] == [("pending", 0)] * 2
    assert [world.count("workers") for world in pair] == [0, 0]


def test_a_drain_while_one_is_silent_gives_back_rows_of_the_other_and_says_what_is_left(pair: Pair) -> None:
    held = Held()
    ids = [world.enqueue("waits") for world in pair]
    with (
        FaultProxy(pair.b.url) as proxy,
        serving(pair, held.inbox, urls={"b": proxy.url}, drain_seconds=0.3) as hired,
    ):
        hired.saw(ExecutionStarted, 2)
        proxy.blackhole()
        assert hired.stop() == TRY_LATER
        held.gate.set()
    assert [world.row(id).status for world, id in zip(pair, ids, strict=True)] == ["pending", "processing"]
    assert [world.count("workers") for world in pair] == [0, 1]


@pytest.mark.parametrize("pool", ["loop", "process"])
def test_the_command_serves_both_in_every_pool_and_its_lines_name_the_inbox(
    pair: Pair, tmp_path: Path, pool: str
) -> None:
    (tmp_path / "both.py").write_text(BOTH[pool])
    shards = ",".join(f"{of}={world.url}" for of, world in zip("ab", pair, strict=True))
    for world in pair:
        world.sql("CREATE TABLE IF NOT EXISTS public.greeted (fence bigint)")
        world.enqueue("greet")
    process = Process(pair.a, f"{tmp_path / 'both.py'}:inbox", tmp_path, "--shards", shards)
    with processes(process):
        lines = process.saw("job_completed", 2)
        assert process.end() == 0
    assert sorted(line["inbox"] for line in lines) == ["a", "b"]
    assert all(line["worker"].endswith(f"@{line['inbox']}") for line in lines)
    assert [world.count("greeted") for world in pair] == [1, 1]


INSERT = 'tx.execute("INSERT INTO public.greeted VALUES (%s)", [job.fence])'
BOTH = {
    "loop": f"""from tenure import Inbox, Job

inbox = Inbox()


@inbox.handler("greet")
async def greet(job: Job) -> None:
    async with job.fenced() as tx:
        await {INSERT}
""",
    "process": f"""from tenure import Inbox, Job

inbox = Inbox()


@inbox.handler("greet", pool="process")
def greet(job: Job) -> None:
    with job.fenced() as tx:
        {INSERT}
""",
}


# -- what belongs to one inbox


def twins(pair: Pair, kind: str) -> None:
    """A row in each inbox with the same id; both have the same token when they are claimed."""
    id, other = pair.a.enqueue(kind, {"of": "a"}), pair.b.enqueue(kind, {"of": "b"})
    pair.b.sql("UPDATE live SET id = %s WHERE id = %s", id, other)


def test_a_token_of_one_inbox_is_never_taken_for_one_of_the_other(pair: Pair) -> None:
    inbox = Inbox()

    @inbox.handler("twin")
    async def twin(job: Job, of: str) -> None:
        if of == "b":
            raise RuntimeError("this one fails")
        async with job.fenced() as tx:
            await tx.execute("INSERT INTO twins_seen VALUES (%s)", [of])

    for world in pair:
        world.sql("CREATE TABLE public.twins_seen (of text)")
    twins(pair, "twin")
    pair.b.sql("UPDATE live SET max_attempts = 1")
    with serving(pair, inbox):
        eventually(lambda: (done(pair.a), pair.b.count("dead")) == (1, 1))
    assert (done(pair.a), pair.a.count("dead"), done(pair.b)) == (1, 0, 0)
    assert [world.sql("SELECT of FROM twins_seen") for world in pair] == [[("a",)], []]


def test_control_only_the_connection_of_its_post_keeps_tokens_apart(pair: Pair) -> None:
    twins(pair, "twin")
    (a,), (b,) = (world.claim("A") for world in pair)
    pair.b.sql("UPDATE live SET fence_token = %s", a.lease.fence)  # as it may be: two new servers begin alike
    assert (a.id, a.lease.generation) == (b.id, b.lease.generation)
    assert pair.b.complete(a.lease).standing == "applied"


def test_a_schedule_is_planned_in_one_inbox_only(pair: Pair) -> None:
    counting = Counting()
    for n in range(6):
        counting.inbox.schedule(f"s{n}", Cron("0 3 * * *"), counting.counts, of="s")
    with serving(pair, counting.inbox) as hired:
        both_ready(hired)
        planned = [{name for (name,) in world.sql("SELECT name FROM schedules")} for world in pair]
    assert planned[0] | planned[1] == {f"s{n}" for n in range(6)}
    assert planned == [{f"s{n}" for n in range(6) if home_of(f"schedule:s{n}", "ab") == of} for of in "ab"]
    assert all(planned), "both have some"


@pytest.mark.parametrize("away", [False, True])
def test_its_metrics_have_the_name_of_the_inbox_and_tell_the_one_that_is_away(pair: Pair, away: bool) -> None:
    urls = {"b": pair.b.url.replace("/posts_", "/nowhere_")} if away else {}
    with serving(pair, Counting().inbox, urls=urls) as hired, Health(hired.worker, "127.0.0.1", 0) as health:

        def told(line: str) -> bool:
            return f"{line}\n" in health.answer("GET", "/metrics").body

        sent = {"a": (pair.a, 3)} if away else {"a": (pair.a, 3), "b": (pair.b, 1)}
        for inbox, (world, n) in sent.items():
            for _ in range(n):
                world.enqueue("counts", {"of": inbox})
            settled = f'tenure_settled_total{{inbox="{inbox}",queue="default",kind="counts",outcome="completed"}} {n}'
            eventually(partial(told, settled))
        assert told('tenure_inbox_up{inbox="a"} 1')
        assert told(f'tenure_inbox_up{{inbox="b"}} {int(not away)}')
        assert told('tenure_connected{inbox="a",who="claimer"} 1')
        assert told("tenure_slots 20"), "one set: a sum over inboxes must not count it for each"
        heads = [line for line in health.answer("GET", "/metrics").body.split("\n") if line.startswith("# HELP")]
        assert len(heads) == len(set(heads))
