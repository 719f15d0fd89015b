"""`make drill-ha`: clusters from deploy/ha, a switchover and kills under load, judged as in `tenure drill failover`.

A worker that serves another inbox as well runs as many rows of that one meanwhile as in calm times.
A cluster whose programs are not at hand is left out, and that is said. Exit 1 if an assertion did not hold.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from chaos.ha_auto_failover import AutoFailover
from chaos.ha_citus import CitusNode
from chaos.ha_neighbour import Neighbour
from chaos.ha_patroni import Patroni
from chaos.ha_processes import Missing, Processes
from tenure.drills.failover.course import SCHEMA, wait
from tenure.drills.failover.judge import Failover, checks, epoch_at_work, judge, settled, watch
from tenure.drills.failover.load import Load, furnish
from tenure.drills.stage.verdict import Check

ROWS, CLAIMS = 200, 10  # acknowledged and claimed before anything happens
SHARE = 0.95  # of its rate in calm times: that of another inbox while the primary is away


class Cluster(Protocol):
    """What is drilled."""

    name: str

    @property
    def url(self) -> str:
        """All of its servers in one address."""

    def start(self) -> None:
        """Start it, until commits wait for a standby."""

    def versions(self) -> str:
        """What runs."""

    def switch(self) -> None:
        """Let the standby take over in good order."""

    def rejoin(self) -> None:
        """Start what was killed, and wait until there is a synchronous standby again."""

    def kill(self) -> None:
        """SIGKILL to the primary and its agent."""

    def neighbour(self) -> AbstractContextManager[Neighbour]:
        """Another inbox, which the same worker serves."""


CLUSTERS: dict[str, Callable[[Processes], Cluster]] = {
    "patroni": Patroni,
    "pg_auto_failover": AutoFailover,
    "citus": CitusNode,
}


@dataclass
class Rates:
    """Of the other inbox: rows a second in calm times, and while the primary was away."""

    calm: float
    away: float

    @property
    def share(self) -> float:
        """What was left of it."""
        return self.away / self.calm if self.calm > 0 else 0.0


def main() -> None:
    """Drill each cluster."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=1, help="how often the primary is killed")
    parser.add_argument("--only", choices=CLUSTERS, action="append", help="this cluster")
    given = parser.parse_args()
    if given.times < 1:
        parser.error(f"--times: {given.times} must be at least 1")
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # each killed connection is a warning
    good = [drill(name, given.times) for name in given.only or CLUSTERS]
    sys.exit(0 if all(good) else 1)


def drill(name: str, times: int) -> bool:
    """A switchover and so many kills, from each of which the old primary comes back; whether every assertion held."""
    try:
        with Processes(name) as processes:
            cluster = CLUSTERS[name](processes)
            print(f"  {cluster.versions()}", flush=True)
            cluster.start()
            furnish(cluster.url, SCHEMA)
            with cluster.neighbour() as other, Load(cluster.url, SCHEMA, lambda _: None) as load:
                seen = [under(load, other, "switchover", cluster.switch, planned=True)]
                for n in range(1, times + 1):
                    cluster.rejoin()
                    seen.append(under(load, other, f"kill {n}" if times > 1 else "kill", cluster.kill))
                cluster.rejoin()
                load.hush()
                other.hush()
                twice = settled(load)
    except Missing as missing:
        print(f"  {name} is left out: {missing}")
        return True
    found = [
        check for check in checks([each for each, _ in seen], twice) if check.name != "none_alone"
    ]  # nobody is cut off
    found.append(unharmed([rates for _, rates in seen[1:]]))
    for check in found:
        print(f"   {'ok  ' if check.ok else 'FAIL'} {check.sentence}")
    return all(check.ok for check in found)


def under(
    load: Load, other: Neighbour, words: str, act: Callable[[], None], *, planned: bool = False
) -> tuple[Failover, Rates]:
    """One failover under load: act, watch, judge, and say what was seen."""
    load.stock()
    before = epoch_at_work(load)
    wait(load, ROWS, CLAIMS)
    calm = other.calm()
    asked = time.monotonic()
    act()
    failover = Failover(asked if planned else time.monotonic(), before)
    watch(load, failover, planned=planned)
    rates = Rates(calm, other.rate(failover.at, failover.at + failover.gap_seconds))
    judge(load, failover)
    back, crowd = max(failover.back_seconds.values()), os.getloadavg()[0] / (os.cpu_count() or 1)
    print(
        f"  {words:<10} gap {failover.gap_seconds:.1f} s, workers back after {back:.1f} s, "
        f"{failover.lost} of {failover.acknowledged} lost, epoch {before} to {failover.epoch}, "
        f"the other inbox {rates.away:.0f}/s of {rates.calm:.0f}, load {crowd:.0f} a core",
        flush=True,
    )
    return failover, rates


def unharmed(seen: Sequence[Rates]) -> Check:
    """The other inbox kept its rate, over all the kills: one gap is short, and the machine has other work."""
    calm, away = (sum(values) / len(seen) for values in zip(*((each.calm, each.away) for each in seen), strict=True))
    least = min(each.share for each in seen)
    words = f"the other inbox ran {away:.0f} rows a second of {calm:.0f}, in the worst gap {least:.2f} of its rate"
    return Check("neighbour", words, away >= SHARE * calm > 0)


if __name__ == "__main__":
    main()
