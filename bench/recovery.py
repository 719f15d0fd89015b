"""How long until the jobs of a worker that is gone run elsewhere? Two worker processes, one is killed, drained, paused.

Killed, with default settings (a lease of 90 seconds): from SIGKILL to the start of each next attempt on the other
worker; above --most the exit code is 1. Drained: SIGTERM, handlers that do not finish give their rows back. Paused:
SIGSTOP is what only the lease can end, so it costs the whole of it (shown with a short one), and what the paused worker
writes when it wakes is refused.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres import migrate

from .crew import WorkerProcess, hired
from .server import bench_server

JOBS = 5
MOST_SECONDS = 10.0
DRAIN_SECONDS = 2.0
LEASE_SECONDS = 8.0


def main() -> int:
    """The three ends of a worker; what a kill costs stands last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=MOST_SECONDS, help="seconds a kill may cost a job")
    given = parser.parse_args()
    with bench_server() as url, postgres.connect(url) as conn:
        migrate.apply(conn)
        drained = after_drain(url)
        paused, refused = after_pause(url)
        killed = after_kill(url)
    table(f"SIGTERM with --drain-seconds {DRAIN_SECONDS:g}", drained)
    table(f"SIGSTOP with --lease-seconds {LEASE_SECONDS:g}", paused)
    print(f"  late writes of the paused worker refused: {refused} of {JOBS}")
    table("SIGKILL with default settings", killed)
    print(f"\nslowest after SIGKILL {max(killed):.1f} s   (at most {given.most:g})")
    return 0 if max(killed) <= given.most and refused == JOBS and min(paused) > LEASE_SECONDS / 2 else 1


def table(what: str, seconds: list[float]) -> None:
    """One line a job."""
    print(f"\n{what}: from the signal to the start of the next attempt elsewhere")
    for n, each in enumerate(sorted(seconds), 1):
        print(f"  job {n} {each:>8.2f} s")


@contextmanager
def holding(url: str, kind: str, seconds: float, *options: str) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """Two workers, of which the first runs all the jobs there are: it is alone when they come."""
    with (
        tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
        hired(url, "bench.apps:long", folder, "-v", *options) as first,
    ):
        with postgres.connect(url) as conn:
            conn.execute("TRUNCATE tenure.live")
            postgres.run(conn, verbs.enqueue_many([NewRow(kind, {"seconds": seconds})] * JOBS))
        first[0].saw("execution_started", JOBS)
        with hired(url, "bench.apps:long", folder, "-v", *options) as second:
            yield first[0], second[0]


def after(sent: datetime, other: WorkerProcess) -> list[float]:
    """Seconds from the signal to each start on the other worker."""
    starts = other.saw("execution_started", JOBS, seconds=120)
    return [(datetime.fromisoformat(start["at"]) - sent).total_seconds() for start in starts[:JOBS]]


def after_kill(url: str) -> list[float]:
    """SIGKILL: nobody is left to say anything."""
    with holding(url, "waits", 600) as (first, second):
        sent = datetime.now(UTC)
        first.end(signal.SIGKILL)
        return after(sent, second)


def after_drain(url: str) -> list[float]:
    """SIGTERM: the rows are given back, at no cost of an attempt."""
    with holding(url, "waits", 600, "--drain-seconds", str(DRAIN_SECONDS)) as (first, second):
        sent = datetime.now(UTC)
        assert first.end(signal.SIGTERM) == 0, "a drained worker leaves nothing behind"
        return after(sent, second)


def after_pause(url: str) -> tuple[list[float], int]:
    """SIGSTOP, and SIGCONT once the other has the jobs: the seconds, and how many late writes were refused."""
    limits = ("--lease-seconds", str(LEASE_SECONDS), "--drain-seconds", str(DRAIN_SECONDS))
    with holding(url, "blocks", 15, *limits) as (first, second):
        sent = datetime.now(UTC)
        first.send(signal.SIGSTOP)
        took = after(sent, second)
        first.send(signal.SIGCONT)
        return took, len(first.saw("stale_write_blocked", JOBS))


if __name__ == "__main__":
    sys.exit(main())
