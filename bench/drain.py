"""How fast do worker processes drain a backlog? Against raw loops without handlers, on the same server in one run.

Every crew has a schema of its own, so that all are there at once and take turns with the raw loops, each turn on a
fresh backlog. The yardstick of the bars is the plain loop (bench/plain.py). Beside it stands the best guarded design
with our way of sending parameters (bench/raw.py): what is left between it and us is handlers, leases and a fleet.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from tenure import postgres, sql, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from . import plain, raw
from .cpu import Sessions, Taken, session_seconds
from .crew import WorkerProcess, eventually, hired
from .report import Bar, Report, eager, in_turns

BATCH = 100
START_SECONDS = 0.3  # for raw clients to connect, so that all begin at once
SLACK = 1.2  # the raw loop stops before its backlog runs dry: a short batch would tell of something else
BEST = ("--slots", "500")
RAW, RAW_TWO = "plain loop, 1 client", "plain loop, 2 clients"
GUARDED, GUARDED_TWO = "guarded loop, 1 client", "guarded loop, 2 clients"

_FILL = """
INSERT INTO tenure.live (kind, partition_key, payload)
SELECT 'nothing', 'order:' || k,
       jsonb_build_object('order_id', k, 'email', 'someone@example.com', 'note', repeat('x', 60))
FROM generate_series(1, %s) AS k
"""
_RATE = "SELECT count(*), date_part('epoch', max(completed_at) - min(claimed_at)) FROM tenure.archive"


@dataclass(frozen=True, slots=True)
class Crew:
    """Worker processes of one kind, in a schema of their own."""

    name: str
    schema: str
    app: str = "bench.apps:quick"
    workers: int = 1
    options: tuple[str, ...] = BEST
    part: float = 1.0  # of the jobs of a turn: slow ones take fewer


ONE = Crew("1 process, best settings", "one_best")
ONE_DEFAULT = Crew("1 process, default settings", "one_default", options=())
TWO = Crew("2 processes, best settings", "two_best", workers=2)
TWO_DEFAULT = Crew("2 processes, default settings", "two_default", workers=2, options=())
THREADS = Crew("threads, 20 slots", "threads", app="bench.apps:threads", options=("--slots", "20"), part=0.5)
PROCESSES = Crew("processes, 4 slots", "processes", "bench.apps:processes", options=("--slots", "4"), part=0.1)
CREWS = (ONE, ONE_DEFAULT, TWO, TWO_DEFAULT, THREADS, PROCESSES)

# Of which other figure each must be so much; the bars where coroutines start at once, and on Python 3.11.
OF_PLAIN = (
    (ONE.name, RAW, Bar(1.1), Bar(0.9)),
    (TWO.name, RAW_TWO, Bar(0.9), Bar(0.75)),
    (ONE_DEFAULT.name, ONE.name, Bar(0.8), Bar(0.8)),
    (TWO_DEFAULT.name, TWO.name, Bar(0.8), Bar(0.8)),
    (THREADS.name, RAW, Bar(0.7), Bar(0.7)),
    (PROCESSES.name, RAW, Bar(0.4), Bar(0.4)),
    (ONE.name, GUARDED, Bar(0.8), Bar(0.65)),
    (TWO.name, GUARDED_TWO, Bar(0.55), Bar(0.45)),
)
CLIENT_MOST, SERVER_MOST = Bar(20, least=False), Bar(28, least=False)


def measure(
    url: str, conn: Connection[Any], report: Report, rounds: int, jobs: int, crews: Sequence[Crew] = CREWS
) -> None:
    """These crews and the raw loops in turns; then the table."""
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as open_:
        clients = open_.enter_context(ProcessPoolExecutor(2, mp_context=spawn))
        contenders: dict[str, Callable[[], Taken]] = {
            RAW: lambda: drain_raw(url, conn, clients, "plain", 1, jobs),
            GUARDED: lambda: drain_raw(url, conn, clients, "guarded", 1, jobs),
            RAW_TWO: lambda: drain_raw(url, conn, clients, "plain", 2, jobs),
            GUARDED_TWO: lambda: drain_raw(url, conn, clients, "guarded", 2, jobs),
        }
        for crew in crews:
            contenders[crew.name] = open_.enter_context(ready(url, conn, crew, jobs))
        taken = in_turns(rounds, contenders)
    tell(report, taken)


def tell(report: Report, taken: dict[str, list[Taken]]) -> None:
    """Rates with what a job costs, then ratios."""
    report.begin("drain, a handler that does nothing, jobs/s")
    for name, turns in taken.items():
        report.turns(name, turns)
    for name, other, bar, on_311 in OF_PLAIN:
        if not {name, other} <= taken.keys():
            continue
        ours, theirs = ([turn.rate for turn in taken[each]] for each in (name, other))
        report.ratio(f"{name} / {other}", ours, theirs, bar if eager() else on_311)
    if one := taken.get(ONE.name):
        clients, servers = [turn.client for turn in one], [turn.server for turn in one]
        report.judged("client µs a job, 1 process", clients, CLIENT_MOST if eager() else None)
        report.judged("server µs a job, 1 process", servers, SERVER_MOST if any(servers) else None)


@contextmanager
def ready(url: str, conn: Connection[Any], crew: Crew, jobs: int) -> Iterator[Callable[[], Taken]]:
    """The crew at work in its schema, warm; each call drains a backlog."""
    migrate.apply(conn, crew.schema)
    with (
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
        hired(url, crew.app, folder, "--schema", crew.schema, *crew.options, n=crew.workers) as workers,
    ):
        drain(conn, crew.schema, workers, 200)
        yield lambda: drain(conn, crew.schema, workers, max(200, int(jobs * crew.part)))


def drain(conn: Connection[Any], schema: str, workers: list[WorkerProcess], jobs: int) -> Taken:
    """A backlog that comes at once: from the first claim to the last completion, by the database."""
    conn.execute(sql.in_schema("TRUNCATE tenure.live, tenure.archive", schema).encode())
    client, sessions = sum(worker.cpu_seconds() for worker in workers), Sessions(conn)
    last = [NewRow("nothing", {"order_id": k, "email": "", "note": ""}, key=f"k{k}") for k in range(10)]
    with conn.transaction():
        conn.execute(sql.in_schema(_FILL, schema).encode(), [jobs - len(last)])
        postgres.run(conn, verbs.enqueue_many(last), schema)  # more than one row: all workers are woken
    left = sql.in_schema("SELECT 1 FROM tenure.live LIMIT 1", schema).encode()
    eventually(lambda: conn.execute(left).fetchone() is None, seconds=300)
    client, server = sum(worker.cpu_seconds() for worker in workers) - client, sessions.seconds()
    done, seconds = conn.execute(sql.in_schema(_RATE, schema).encode()).fetchone() or (0, 0)
    assert done == jobs, f"{done} of {jobs} jobs were completed"
    return Taken(jobs / seconds, 1e6 * client / jobs, 1e6 * server / jobs)


def drain_raw(url: str, conn: Connection[Any], clients: ProcessPoolExecutor, design: str, n: int, jobs: int) -> Taken:
    """As many jobs by a raw loop, shared by n clients: from the first to start to the last to end."""
    backlog = max(2_000, int(jobs * SLACK) // 1000 * 1000)
    if design == "plain":
        plain.make(conn, backlog)
    else:
        raw.Loop(conn, "time", batch=BATCH, backlog=backlog, literals=True)
    turns, at = max(1, jobs // n // BATCH), time.monotonic() + START_SECONDS
    shares = [clients.submit(share_raw, url, design, turns, at) for _ in range(n)]
    began, ended, client, server = zip(*(share.result() for share in shares), strict=True)
    done = turns * n * BATCH
    return Taken(done / (max(ended) - min(began)), 1e6 * sum(client) / done, 1e6 * sum(server) / done)


def share_raw(url: str, design: str, turns: int, at: float) -> tuple[float, float, float, float]:
    """In a process of its own: one raw client's share. When it began and ended, and the processor time of both ends."""
    with psycopg.connect(url, autocommit=True, application_name="bench raw") as conn:
        loop: plain.Plain | raw.Loop = plain.Plain(conn, batch=BATCH)
        if design != "plain":
            loop = raw.Loop(conn, "time", batch=BATCH, literals=True)
        time.sleep(max(0.0, at - time.monotonic()))
        pid = conn.info.backend_pid
        began, client, server = time.monotonic(), time.process_time(), session_seconds(pid)
        for _ in range(turns):
            loop.turn()
        return began, time.monotonic(), time.process_time() - client, session_seconds(pid) - server
