"""How do other queues do on the same server? `make bench-peers`, or some: `make bench-peers PEERS=pgqueuer,oban`.

Each is installed in a folder of its own (.peers/, or TENURE_PEERS), runs on a database of its own with the settings
that its documentation calls fast, and takes turns with the others. After kill -9 it has its default settings. What
cannot be installed or run here is told in a line. Exit 1 where Tenure is not first: in draining before all, in the
other rows before all that are for Python.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

from tenure import postgres

from ..report import Report, about
from ..server import bench_server
from .catalog import PEERS, Peer, Unable
from .stage import Stage, p99, staged

ROWS = (
    ("one enqueue a transaction, rows/s", "one", True),
    ("bulk, rows/s", "bulk", True),
    ("drain, 1 process, jobs/s", "drain_1", True),
    ("drain, 2 processes, jobs/s", "drain_2", True),
    ("commit → start, idle, p50 ms", "p50", False),
    ("commit → start, idle, p99 ms", "p99", False),
    ("kill -9 → rerun, defaults, s", "rerun", False),
)


@dataclass
class Found:
    """What was measured of one peer."""

    peer: Peer
    version: str = ""
    figures: dict[str, list[float]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)  # what stands in place of a figure, and why

    def middle(self, row: str) -> float | None:
        """The median of its turns."""
        figures = self.figures.get(row)
        return statistics.median(figures) if figures else None

    def cell(self, row: str) -> str:
        """How it stands in the table."""
        middle = self.middle(row)
        if middle is None:
            return self.told.get(row, "–")
        return f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"

    def take(self, row: str, measure: Callable[[], float]) -> None:
        """One more turn; one that fails is told, and not tried again."""
        if row in self.told:
            return
        try:
            self.figures.setdefault(row, []).append(measure())
        except (Unable, OSError) as error:
            self.told[row] = "failed"
            print(f"  {self.peer.name}: {row}: {error}", flush=True)


def main() -> int:
    """All rows for all peers that are there; the table last."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(names), help=f"some of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows and jobs")
    parser.add_argument("--wait", type=float, default=120.0, help="seconds to wait for a rerun after kill -9; 0: none")
    parser.add_argument("--json", help="the file to keep the figures in (default: in the system's temporary folder)")
    given = parser.parse_args()
    chosen = [peer for peer in PEERS if peer.name in given.peers.split(",") or peer.ours]
    founds = [found for peer in chosen if (found := installed(peer))]
    with bench_server() as url, postgres.connect(url) as conn:
        told = about(
            conn, rounds=given.rounds, scale=given.scale, command=" ".join(["make bench-peers", *sys.argv[1:]])
        )
        with ExitStack() as stack:
            stages = opened(stack, url, founds)
            for n in range(given.rounds):
                print(f"round {n + 1} of {given.rounds}", flush=True)
                for found, stage in stages:
                    round_of(found, stage, given.scale)
            if given.wait:
                with ThreadPoolExecutor(len(stages)) as together:  # they only wait: all at once
                    list(together.map(lambda pair: rerun(pair[0], pair[1], given.wait), stages))
    report = Report(told, quiet=True)
    file = report.keep(given.json, "peers", peers=[asdict(found) for found in founds])
    table(told, founds)
    behind = list(judged(founds))
    print(f"\n{len(behind)} places to gain; kept in {file}")
    for line in behind:
        print(f"  {line}")
    return 1 if behind else 0


def installed(peer: Peer) -> Found | None:
    """The peer and its version, or a line that says why not."""
    try:
        version = peer.installed()
    except Unable as error:
        print(f"{peer.name} is left out: {error}", flush=True)
        return None
    print(f"{peer.name} {version}", flush=True)
    return Found(peer, version)


def opened(stack: ExitStack, url: str, founds: list[Found]) -> list[tuple[Found, Stage]]:
    """Those whose tables could be made."""
    stages = []
    for found in list(founds):
        try:
            stages.append((found, stack.enter_context(staged(found.peer, url))))
        except Unable as error:
            founds.remove(found)
            print(f"{found.peer.name} is left out: {error}", flush=True)
    return stages


def round_of(found: Found, stage: Stage, scale: float) -> None:
    """One turn of every row. What enqueueing left is drained with the rest."""
    jobs, rows = max(20, int(found.peer.jobs * scale)), max(10, int(300 * scale))
    backlog = 0

    def fill(n: int) -> float:
        nonlocal backlog
        backlog += n
        return stage.bulk(n)

    def drain(workers: int) -> float:
        nonlocal backlog
        jobs_there, backlog = backlog, 0
        return stage.drain(workers, jobs_there)

    found.take("one", lambda: stage.rate(rows))
    backlog += rows
    found.take("bulk", lambda: fill(jobs))
    found.take("drain_1", lambda: drain(1))
    found.take("bulk", lambda: fill(2 * jobs))
    found.take("drain_2", lambda: drain(2))
    if "p50" not in found.told:
        try:
            waited = stage.waits(max(5, int(60 * scale)))
        except Unable as error:
            found.told |= {"p50": "failed", "p99": "failed"}
            print(f"  {found.peer.name}: commit → start: {error}", flush=True)
        else:
            found.figures.setdefault("p50", []).append(1000 * statistics.median(waited))
            found.figures.setdefault("p99", []).append(1000 * p99(waited))


def rerun(found: Found, stage: Stage, most: float) -> None:
    """After kill -9: the seconds, or that it was not seen."""
    try:
        seconds = stage.rerun(most)
    except (Unable, OSError) as error:
        found.told["rerun"] = "failed"
        print(f"  {found.peer.name}: kill -9: {error}", flush=True)
        return
    if seconds is None:
        found.told["rerun"] = f">{most:.0f} s"
    else:
        found.figures["rerun"] = [seconds]


def table(told: dict[str, str], founds: list[Found]) -> None:
    """Peers down, rows across would be too wide: a row of the table each, peers across in two halves."""
    print()
    for name, value in told.items():
        print(f"{name:<10} {value}")
    for part in (founds[:6], founds[6:]):
        if part:
            print("\n" + " " * 36 + "".join(f"{found.peer.name:>16}" for found in part))
            print(" " * 36 + "".join(f"{found.version:>16}" for found in part))
            for title, row, _ in ROWS:
                print(f"{title:<36}" + "".join(f"{found.cell(row):>16}" for found in part), flush=True)


def judged(founds: list[Found]) -> list[str]:
    """Where Tenure is not first."""
    ours = next(found for found in founds if found.peer.ours)
    behind = []
    for title, row, most_wins in ROWS:
        mine = ours.middle(row)
        for found in founds:
            theirs = found.middle(row)
            if found is ours or theirs is None or (found.peer.node and not row.startswith("drain")):
                continue
            if mine is None or (mine < theirs if most_wins else mine > theirs):
                behind.append(f"{title}: {found.peer.name} {found.cell(row)}, tenure {ours.cell(row)}")
    return behind


if __name__ == "__main__":
    sys.exit(main())
