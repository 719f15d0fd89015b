"""However many requests begin at once, a probe goes before them, and each of them has its turn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.types import Receive, Scope, Send

from tenure.web.turns import PROBE, Turns


def ran(paths: list[str], *, cancelled: int | None = None) -> list[str]:
    """The paths in the order in which an app got them that keeps the loop busy at each, when all came at once."""
    order: list[str] = []

    async def busy(scope: Scope, _receive: Receive, _send: Send) -> None:
        time.sleep(0.001)
        order.append(scope["path"])

    async def story() -> None:
        turns, unused = Turns(busy, "/ops"), _unused
        tasks = [asyncio.create_task(turns({"type": "http", "path": path}, unused, unused)) for path in paths]
        if cancelled is not None:
            await asyncio.sleep(0)
            tasks[cancelled].cancel()
        await asyncio.wait(tasks)

    asyncio.run(story())
    return order


async def _unused(*_given: Any) -> Any:
    raise AssertionError


def test_a_probe_goes_before_a_hundred_that_came_before_it_and_they_keep_their_order() -> None:
    others = [f"/ops/{n}" for n in range(100)]
    order = ran([*others, f"/ops{PROBE}"])
    assert order.index(f"/ops{PROBE}") <= 2
    assert [path for path in order if path != f"/ops{PROBE}"] == others


def test_one_that_gives_up_while_it_waits_keeps_nobody_up() -> None:
    others = [f"/ops/{n}" for n in range(10)]
    assert ran(others, cancelled=5) == [path for path in others if path != "/ops/5"]
