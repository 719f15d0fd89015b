"""The curves: each takes the ground as it is, lets one thing grow, and gives the rate at each size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import psutil  # type: ignore[import-untyped]
from psycopg import Connection

from tenure import postgres, verbs
from tenure.model.rows import Lane
from tenure.verbs import settle
from tenure.verbs.lifecycle import LEASE_SECONDS
from tenure.worker.crowding import Crowd
from tenure.worker.lane_memory import LaneMemory

from .. import snapshot
from ..cpu import Taken, session_seconds
from ..crew import WorkerProcess, eventually
from .ground import (
    BATCH,
    Point,
    clear,
    counted,
    drained,
    fill,
    history,
    in_turns,
    now,
    one_worker,
    plain_rate,
    rate_since,
    top_up,
    waited,
)

JOBS = 30_000
START_SECONDS = 3.0
LEAST_TURNS = 10  # of a session
LANES = (Lane(),)
WARM_TURNS = 6  # psycopg prepares what it sends for the sixth time
_IN = "SELECT clock_timestamp() + make_interval(secs => %s)"


@dataclass(frozen=True, slots=True)
class Run:
    """Where, and how large."""

    url: str
    conn: Connection[Any]
    scale: float
    hold_seconds: float

    def n(self, count: float, least: int = 1) -> int:
        """A count at this scale."""
        return max(least, round(count * self.scale))

    @property
    def jobs(self) -> int:
        """Jobs of one turn."""
        return self.n(JOBS, least=1_000)

    def drained(
        self, x: float, *options: str, behind: int = 0, jobs: int = 0, spare: float = 1.5, **rows: Any
    ) -> Point:
        """One worker, in turns, over jobs of such rows; some more are there, so that it does not run dry."""
        jobs = jobs or self.jobs
        ready = partial(top_up, self.conn, behind + round(spare * jobs), **rows)
        return in_turns(self.conn, x, ready, lambda: drained(self.url, self.conn, jobs, *options))


def backlog(run: Run) -> Iterator[Point]:
    """Rows that wait behind those that are measured."""
    for rows in (1e3, 1e4, 1e5, 1e6, 5e6):
        clear(run.conn)
        yield run.drained(run.n(rows), behind=run.n(rows))


def archive(run: Run) -> Iterator[Point]:
    """Rows completed before; only ever more of them."""
    clear(run.conn)
    before = 0
    for rows in (1e3, 1e5, 1e6, 1e7):
        history(run.conn, run.n(rows) - before)
        run.conn.execute("TRUNCATE tenure.live")
        yield run.drained(run.n(rows))
        before = run.n(rows)


def scheduled(run: Run) -> Iterator[Point]:
    """Rows that are due tomorrow."""
    for rows in (1e3, 1e4, 1e5, 1e6):
        clear(run.conn)
        fill(run.conn, run.n(rows), later=86_400.0)
        yield run.drained(run.n(rows))


def keys(run: Run) -> Iterator[Point]:
    """Ordered keys that share the rows."""
    for count in (1, 10, 100, 1_000, 10_000, 100_000):
        clear(run.conn)
        yield run.drained(count, spare=2, keys=min(count, run.n(100_000)), ordered=True)


def queues(run: Run) -> Iterator[Point]:
    """Queues that share the rows; one worker serves them all."""
    for count in (1, 10, 100, 1_000, 5_000):
        clear(run.conn)
        names = "default" if count == 1 else ",".join(f"q{n}" for n in range(count))
        yield run.drained(count, "--queues", names, spare=2, queues=count)


def payload(run: Run) -> Iterator[Point]:
    """Bytes of a payload."""
    for size in (100, 1_000, 10_000, 100_000):
        clear(run.conn)
        jobs = max(600, min(run.jobs, round(run.jobs * 3_000 / size)))
        yield run.drained(size, spare=2, jobs=jobs, note=size - 40)


def claimers(run: Run) -> Iterator[Point]:
    """Sessions that claim and complete at once, through our verbs; two processes share them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for count in (1, 2, 4, 8, 16, 32, 64):
            turns = max(LEAST_TURNS, run.jobs // count // BATCH)

            def ready(rows: int = (turns + 1) * count * BATCH) -> None:
                clear(run.conn)
                fill(run.conn, rows)

            yield in_turns(run.conn, count, ready, partial(claimed, run, pool, count, turns))


def claimed(run: Run, pool: ProcessPoolExecutor, count: int, turns: int) -> Taken:
    """So many sessions, each over so many batches, all from the same moment on."""
    wait = START_SECONDS + count * 0.1
    (begins,), at = run.conn.execute(_IN, [wait]).fetchone() or (None,), time.monotonic() + wait
    since = now(run.conn)._replace(at=begins)
    halves = [half for half in ((count + 1) // 2, count // 2) if half]
    shares = [pool.submit(claim_in_threads, run.url, half, turns, at) for half in halves]
    client, server = (sum(part) for part in zip(*(share.result() for share in shares), strict=True))
    jobs = turns * count * BATCH
    return Taken(rate_since(run.conn, since, jobs), 1e6 * client / jobs, 1e6 * server / jobs)


def claim_in_threads(url: str, count: int, turns: int, at: float) -> tuple[float, float]:
    """In a process of its own: so many sessions, a thread each. The processor time of both ends."""
    with ThreadPoolExecutor(count) as pool:
        both = [share.result() for share in [pool.submit(claim_loop, url, turns, at) for _ in range(count)]]
    return sum(client for client, _ in both), sum(server for _, server in both)


def claim_loop(url: str, turns: int, at: float) -> tuple[float, float]:
    """One session: end the last batch and claim the next, from where the last one ended and in the trips of workers."""
    with postgres.connect(url, application_name="tenure bench claimer") as conn:
        for nth in range(2 * WARM_TURNS):
            taken = postgres.run(conn, verbs.claim("bench", 1, in_crowd=nth % 2 == 0))
            postgres.run(conn, settle.complete(taken, ordered=False))
        time.sleep(max(0.0, at - time.monotonic()))
        pid, held, memory, crowd = conn.info.backend_pid, list[Any](), LaneMemory(), Crowd()
        client, server = time.thread_time(), session_seconds(pid)
        for _ in range(turns):
            ending, sent = settle.complete(held, ordered=False), time.monotonic()
            claim = verbs.claim("bench", BATCH, lanes=LANES, floors=memory.floors(LANES), in_crowd=crowd.is_thick)
            if crowd.is_thick:
                postgres.run(conn, ending)
                held = postgres.run(conn, claim)
            else:
                _, held = postgres.run_both(conn, ending, claim)
            crowd.answered(len(held), time.monotonic() - sent)
            if held:
                memory.taken(LANES, held, held[0].ends_seconds - LEASE_SECONDS)
        postgres.run(conn, settle.complete(held, ordered=False))
        return time.thread_time() - client, session_seconds(pid) - server


def memory(run: Run) -> Iterator[Point]:
    """Jobs done by one worker, a tenth at a time: the rate of each tenth; what the worker has in memory is told."""
    part, total = run.n(500_000, least=1_000), 0
    clear(run.conn)
    with one_worker(run.url) as worker:
        before = plain_rate(run.conn)
        for nth in range(10):
            since = now(run.conn)
            fill(run.conn, part)
            eventually(lambda: run.conn.execute("SELECT 1 FROM tenure.live LIMIT 1").fetchone() is None, seconds=900)
            total += part
            told_memory.append((total, resident(worker)))
            print(f"    {total:>12,} jobs   {told_memory[-1][1]:.0f} MB", flush=True)
            after = plain_rate(run.conn)
            yield Point(total, (Taken(rate_since(run.conn, since, part), 0.0, 0.0),), ((before + after) / 2,))
            before = after
            if nth % 2:
                run.conn.execute("TRUNCATE tenure.archive")


told_memory: list[tuple[int, float]] = []


def resident(worker: WorkerProcess) -> float:
    """MB of the worker's process."""
    return float(psutil.Process(worker.pid).memory_info().rss) / 1e6


def held(run: Run) -> Iterator[Point]:
    """Seconds for which another session has held a snapshot, at half of the full rate."""
    clear(run.conn)
    fill(run.conn, run.jobs + run.jobs // 2)
    rate = int(drained(run.url, run.conn, run.jobs).rate / 2)
    clear(run.conn)
    every = run.hold_seconds / 10
    print(f"    {rate:,} rows a second", flush=True)
    with one_worker(run.url), snapshot.producing(run.url, rate, "plain") as sent:
        eventually(lambda: sent.value > rate * min(snapshot.WARM_SECONDS, every))
        with snapshot.held_snapshot(run.url):
            began = time.monotonic()
            for nth in range(10):
                since = now(run.conn)
                waited((nth + 1) * every, began)
                yield counted(run.conn, (nth + 1) * every, since, every)


@dataclass(frozen=True, slots=True)
class Curve:
    """How it is drawn, and whether it must be flat."""

    points: Callable[[Run], Iterator[Point]]
    x: str
    judged: bool = True
    from_the_top: bool = False  # judged from its fastest point on: before it there is only too little to do


CURVES = {
    "backlog": Curve(backlog, "rows that wait"),
    "archive": Curve(archive, "rows completed before"),
    "scheduled": Curve(scheduled, "rows due tomorrow"),
    "claimers": Curve(claimers, "sessions that claim", from_the_top=True),
    "keys": Curve(keys, "ordered keys"),
    "queues": Curve(queues, "queues"),
    "payload": Curve(payload, "bytes of a payload", judged=False),
    "memory": Curve(memory, "jobs done by one worker"),
    "held": Curve(held, "seconds a snapshot is held, at half of the full rate"),
}
