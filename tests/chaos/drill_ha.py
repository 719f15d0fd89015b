"""`make drill-ha`: clusters from deploy/ha, a switchover and a kill under load, judged as in `tenure drill failover`.

A cluster whose programs are not at hand is left out, and that is said. Exit 1 if an assertion did not hold.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

from chaos.ha_auto_failover import AutoFailover
from chaos.ha_patroni import Patroni
from chaos.ha_processes import Missing, Processes
from tenure.drills.failover.course import SCHEMA, wait
from tenure.drills.failover.judge import Failover, checks, epoch_at_work, judge, settled, watch
from tenure.drills.failover.load import Load, furnish

ROWS, CLAIMS = 200, 10  # acknowledged and claimed before anything happens


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
        """Wait until there is a synchronous standby again."""

    def kill(self) -> None:
        """SIGKILL to the primary and its agent."""


CLUSTERS: dict[str, Callable[[Processes], Cluster]] = {"patroni": Patroni, "pg_auto_failover": AutoFailover}


def main() -> None:
    """Drill each cluster."""
    good = [drill(name) for name in CLUSTERS]
    sys.exit(0 if all(good) else 1)


def drill(name: str) -> bool:
    """A switchover and a kill; whether every assertion held."""
    try:
        with Processes(name) as processes:
            cluster = CLUSTERS[name](processes)
            print(f"  {cluster.versions()}", flush=True)
            cluster.start()
            furnish(cluster.url, SCHEMA)
            with Load(cluster.url, SCHEMA, lambda _: None) as load:
                seen = [under(load, "switchover", cluster.switch, planned=True)]
                cluster.rejoin()
                seen.append(under(load, "kill", cluster.kill))
                load.hush()
                twice = settled(load)
    except Missing as missing:
        print(f"  {name} is left out: {missing}")
        return True
    found = [check for check in checks(seen, twice) if check.name != "none_alone"]  # nobody is cut off here
    for check in found:
        print(f"   {'ok  ' if check.ok else 'FAIL'} {check.sentence}")
    return all(check.ok for check in found)


def under(load: Load, words: str, act: Callable[[], None], *, planned: bool = False) -> Failover:
    """One failover under load: act, watch, judge, and say what was seen."""
    load.stock()
    before = epoch_at_work(load)
    wait(load, ROWS, CLAIMS)
    asked = time.monotonic()
    act()
    failover = Failover(asked if planned else time.monotonic(), before)
    watch(load, failover, planned=planned)
    judge(load, failover)
    back = max(failover.back_seconds.values())
    print(
        f"  {words:<10} gap {failover.gap_seconds:.1f} s, workers back after {back:.1f} s, "
        f"{failover.lost} of {failover.acknowledged} lost, epoch {before} to {failover.epoch}",
        flush=True,
    )
    return failover


if __name__ == "__main__":
    main()
