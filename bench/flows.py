"""How fast workflows are: 3-step flows beside plain jobs counted in steps, and parks with their wakes, in one run."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from bench.server import bench_server
from tenure import Inbox, Terms, Worker, migrate, postgres, verbs
from tenure.model.rows import NewRow
from tenure.shapes.flow import Flow, Flows

FLOW = {"tenure-version": "1"}


async def nothing() -> None:
    """A step that does nothing."""


def _inbox() -> Inbox:
    inbox = Inbox(schema="bench")
    flows = Flows(inbox)

    @inbox.handler("plain")
    async def plain() -> None: ...

    @flows.workflow("steps")
    async def steps(flow: Flow) -> None:
        for name in ("one", "two", "three"):
            await flow.step(name, nothing)

    @flows.workflow("naps")
    async def naps(flow: Flow) -> None:
        await flow.wait_for("go", timeout_seconds=1.0)

    return inbox


def _rate(url: str, kind: str, n: int, slots: int) -> float:
    """Instances a second, from the start of the worker to the end of the last."""
    headers = {"tenure-flow": kind, **FLOW} if kind != "plain" else None
    with postgres.connect(url) as conn:
        for _ in range(n // 1000):
            postgres.run(conn, verbs.enqueue_many([NewRow(kind, headers=headers) for _ in range(1000)]), "bench")
        worker = Worker(_inbox(), Terms(url, schema="bench", queues={"default": 1.0}, slots=slots))
        thread = threading.Thread(target=worker.run)
        began = time.monotonic()
        thread.start()
        while _left(conn):
            time.sleep(0.05)
        seconds = time.monotonic() - began
        worker.stop()
        thread.join()
    return n / seconds


def _left(conn: Any) -> bool:
    return bool(conn.execute("SELECT EXISTS (SELECT FROM bench.live)").fetchone()[0])


def main() -> None:
    """Print one line for each."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with bench_server() as url:
        with postgres.connect(url) as conn:
            migrate.apply(conn, "bench")
        plain = _rate(url, "plain", n, 400)
        flows = _rate(url, "steps", n, 400)
        naps = _rate(url, "naps", n, 400)
    said = [
        f"plain jobs               {plain:8.0f}/s",
        f"3-step flows             {flows:8.0f}/s, {3 * flows:.0f} steps/s: {3 * flows / plain:.2f} of plain (bar 0.5)",
        f"park + wake of a flow    {naps:8.0f}/s (bar 3000; with the second that each sleeps)",
    ]
    sys.stdout.write("\n".join(said) + "\n")


if __name__ == "__main__":
    main()
