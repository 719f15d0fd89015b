"""How fast are workflows? Beside plain jobs and DBOS, in one run; every line is judged, exit 1 if one falls short.

A park is counted from the start of the worker until every instance waits, a wake from when all are due until all have
ended: the time in between, in which they sleep, is not. --parked so many wait beside the claims that are timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from typing import Any

from bench.peers.catalog import PEERS, Unable
from bench.peers.stage import staged
from bench.server import bench_server
from tenure import Inbox, Terms, Worker, migrate, postgres, verbs
from tenure.model.rows import NewRow
from tenure.shapes.flow import Flow, Flows
from tenure.verbs import settle, steps

FLOW = {"tenure-version": "1"}
ROUNDS = 3  # of plain jobs and flows in turn: their medians count
CLAIMS, CLAIMED = 60, 50  # claims that are timed beside the parked, and their rows
DUE = "UPDATE bench.steps SET until = clock_timestamp(); UPDATE bench.live SET available_at = clock_timestamp()"
WAITING = "SELECT count(*) >= %s FROM bench.steps WHERE state = 'waiting'"
PARKED = """
INSERT INTO bench.live (id, kind, payload, queue, available_at, headers)
SELECT bench.new_id(), 'naps', '{}', 'default', clock_timestamp() + interval '10 days' + n * interval '1 ms',
       '{"tenure-flow": "naps"}'
FROM generate_series(1, %s) AS n"""


async def nothing() -> None:
    """A step that does nothing."""


def _inbox() -> Inbox:
    inbox = Inbox(schema="bench")
    flows = Flows(inbox)

    @inbox.handler("plain")
    async def plain() -> None: ...

    @flows.workflow("steps")
    async def three(flow: Flow) -> None:
        for name in ("one", "two", "three"):
            await flow.step(name, nothing)

    @flows.workflow("naps")
    async def naps(flow: Flow) -> None:
        await flow.wait_for("go")

    return inbox


class Bench:
    """One server, one connection to watch it."""

    def __init__(self, url: str, conn: Any, n: int) -> None:
        self.url, self.conn, self.n = url, conn, n
        self.short = 0

    def fill(self, kind: str) -> None:
        """So many rows of a kind."""
        headers = {"tenure-flow": kind, **FLOW} if kind != "plain" else None
        for _ in range(self.n // 500):
            postgres.run(self.conn, verbs.enqueue_many([NewRow(kind, headers=headers) for _ in range(500)]), "bench")

    def until(self, query: str, *params: Any) -> float:
        """Seconds from the start of a worker until the answer is true."""
        worker = Worker(_inbox(), Terms(self.url, schema="bench", queues={"default": 1.0}, slots=400))
        worker.garbage.ours = True  # as in `tenure worker`
        thread = threading.Thread(target=worker.run)
        began = time.monotonic()
        thread.start()
        while not self.conn.execute(query.encode(), params).fetchone()[0]:
            time.sleep(0.05)  # it counts rows: asked more often, it takes a tenth of the server
        seconds = time.monotonic() - began
        worker.stop()
        thread.join()
        return seconds

    def ended(self) -> float:
        """Seconds until a worker has ended all there is."""
        return self.until("SELECT NOT EXISTS (SELECT FROM bench.live)")

    def rate(self, kind: str) -> float:
        """Instances a second, from the start of the worker to the end of the last."""
        self.fill(kind)
        return self.n / self.ended()

    def parks_and_wakes(self) -> tuple[float, float]:
        """Parks a second, wakes a second."""
        self.fill("naps")
        parked = self.until(WAITING, self.n)
        self.conn.execute(DUE)
        return self.n / parked, self.n / self.ended()

    def claim_ms(self) -> float:
        """A claim of plain rows, each completed afterwards: the lower quartile, which a busy machine disturbs least."""
        self.fill("plain")
        took = []
        for _ in range(CLAIMS):
            began = time.monotonic()
            held = postgres.run(self.conn, verbs.claim("bench", CLAIMED, lease_seconds=60.0), "bench")
            took.append(1000 * (time.monotonic() - began))
            postgres.run(self.conn, settle.complete(held), "bench")
        return statistics.quantiles(took, n=4)[0]

    def recall_ms(self) -> float:
        """Reading back 1,000 steps of one instance, the lower quartile."""
        postgres.run(self.conn, verbs.enqueue(NewRow("steps", headers={"tenure-flow": "steps"})), "bench")
        (lease,) = postgres.run(self.conn, verbs.claim("bench", 1, lease_seconds=60.0), "bench")
        known = [steps.Step("", n, "one", "done", result='{"n": 1}') for n in range(1000)]
        postgres.run(self.conn, steps.record([steps.Recording(lease, 1, known)]), "bench")
        took = []
        for _ in range(20):
            began = time.monotonic()
            found = postgres.run(self.conn, steps.recall([(lease.id, 1)]), "bench")
            took.append(1000 * (time.monotonic() - began))
            assert len(found[lease.id]) == 1000
        postgres.run(self.conn, settle.complete([lease]), "bench")
        return statistics.quantiles(took, n=4)[0]

    def say(self, what: str, number: str, share: float, least: float) -> None:
        """One line, judged."""
        good = share >= least
        self.short += not good
        sys.stdout.write(f"  {'✓' if good else '✗'} {what:<44} {number:>12}   {share:.2f} (at least {least:g})\n")
        sys.stdout.flush()


def dbos(url: str, n: int) -> float | str:
    """3-step workflows of DBOS a second, or why there is no number."""
    (peer,) = [each for each in PEERS if each.name == "dbos"]
    try:
        peer.installed()
        with staged(peer, url) as stage:
            stage.bulk(n, "steps")
            return stage.drain(1, n)
    except Unable as error:
        return str(error)


def main() -> int:
    """Print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, default=10_000, help="instances a turn")
    parser.add_argument("--parked", type=int, default=100_000, help="instances that wait beside claims")
    parser.add_argument("--peer", type=int, default=600, help="instances of DBOS; 0: leave it out")
    given = parser.parse_args()
    with bench_server() as url, postgres.connect(url) as conn:
        migrate.apply(conn, "bench")
        bench = Bench(url, conn, given.flows)
        rounds = [(bench.rate("plain"), bench.rate("steps")) for _ in range(ROUNDS)]
        plain, three = (statistics.median(rates) for rates in zip(*rounds, strict=True))
        share = statistics.median(3 * flows / jobs for jobs, flows in rounds)
        bench.say("3-step flows, steps beside plain jobs", f"{3 * three:,.0f}/s", share, 0.5)
        parks, wakes = bench.parks_and_wakes()
        bench.say("parks/s", f"{parks:,.0f}/s", parks / 3000, 1.0)
        bench.say("wakes/s, with the end of the flow", f"{wakes:,.0f}/s", wakes / 3000, 1.0)
        recalled = bench.recall_ms()
        bench.say("1,000 steps recalled, 10 ms / time", f"{recalled:.1f} ms", 10 / recalled, 1.0)
        alone = bench.claim_ms()
        conn.execute(PARKED, [given.parked])
        conn.execute("VACUUM ANALYZE bench.live")
        beside = bench.claim_ms()
        bench.say(f"claims beside {given.parked:,} parked, alone / beside", f"{beside:.1f} ms", alone / beside, 0.83)
        if given.peer:
            other = dbos(url, given.peer)
            if isinstance(other, str):
                sys.stdout.write(f"  - DBOS is left out: {other}\n")
            else:
                bench.say("3-step flows beside DBOS, a tenth of", f"{other:,.0f}/s", three / other / 10, 1.0)
        sys.stdout.write(f"  plain jobs {plain:,.0f}/s, 3-step flows {three:,.0f}/s\n")
    return 1 if bench.short else 0


if __name__ == "__main__":
    sys.exit(main())
