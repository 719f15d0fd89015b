"""Orders as workflows in three versions, in a process of their own that may die at TENURE_TEST_CRASH.

A fenced step writes its effect into `deeds`, a plain one into `booked` by its key, as an honest receiver does.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import Any

import psycopg

from tenure import Fail, Fixed
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.shapes.flow import TIMED_OUT, Flow, Flows, Tries, step_key, undone_key

SCHEMA = os.environ.get("TENURE_SCHEMA", "tenure")
URL = os.environ.get("TENURE_DATABASE_URL", "")
FATAL = os.environ.get("TENURE_TEST_CRASH")
VERSIONS = [int(n) for n in os.environ.get("TENURE_TEST_VERSIONS", "1,2,3").split(",")]
ONCE_MORE = Tries(3, Fixed(0))
SEATED = asyncio.Event()

inbox = Inbox()
flows = Flows(inbox)


def reach(point: str) -> None:
    """Here the process ends, if this is the point."""
    if point == FATAL:
        os.kill(os.getpid(), signal.SIGKILL)


async def effect(tx: Any, flow: Flow, what: str) -> None:
    """Once and no more: in the transaction of its record."""
    await tx.execute(f"INSERT INTO {SCHEMA}.deeds VALUES (%s, %s)".encode(), [flow.id, what])
    reach(f"in {what}")


async def book(what: str) -> str:
    """At least once; the receiver knows the key."""
    await _said(
        "INSERT INTO {}.booked VALUES (%s, 1, 1) ON CONFLICT (key) DO UPDATE SET calls = booked.calls + 1", step_key()
    )
    reach(f"in {what}")
    return what


async def unbook(result: Any, what: str) -> None:
    """The booking is taken back, as often as this is called."""
    del result
    await _said("UPDATE {}.booked SET amount = 0 WHERE key = %s", undone_key() or "")
    reach(f"undoing {what}")


async def _said(query: str, key: str) -> None:
    async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as conn:
        await conn.execute(query.format(SCHEMA).encode(), [key])


async def order(flow: Flow, waits: bool, fails: bool) -> Any:
    """Reserve, charge, perhaps wait; version 2 notifies, version 3 asks a job."""
    await flow.fenced("reserve", effect, flow, "reserve")
    reach("between")
    await flow.step("charge", book, "charge", undo=unbook, retry=ONCE_MORE)
    if waits and await flow.wait_for("go", timeout_seconds=600) is TIMED_OUT:
        return Fail("nobody came")
    if flow.version >= 2:
        await flow.step("notify", book, "notify", undo=unbook)
    if flow.version >= 3:
        await flow.map(part, [1, 2])
    if fails:
        return Fail("it was meant to fail")
    await flow.fenced("end", effect, flow, "end")
    return flow.version


async def fan(flow: Flow, n: int) -> Any:
    """Many children, one of which may take its worker along."""
    ends = await flow.map(part, range(n))
    await flow.fenced("joined", effect, flow, "joined")
    return [end.status for end in ends]


async def race(flow: Flow) -> Any:
    """A fare is found first; the branch of the seat, which was taken by then, has lost."""

    async def seat() -> None:
        await flow.step("seat", book, "seat", undo=unbook)
        SEATED.set()
        await flow.wait_for("never")

    async def fare() -> str:
        await SEATED.wait()
        return str(await book("fare"))

    await flow.first(flow.step("fare", fare, undo=partial(unbook, what="fare")), seat())
    return Fail("it was meant to fail")


@inbox.handler("part", queue="parts")
async def part(job: Job, n: int) -> None:
    """One child: its effect and its end are one."""
    async with job.fenced() as tx:
        await tx.execute(f"INSERT INTO {SCHEMA}.deeds VALUES (%s, %s)".encode(), [job.id, "part"])
        if n == 7:
            reach("in part")


for number in VERSIONS:
    flows.workflow("order", version=number, result=True)(order)
flows.workflow("fan", result=True)(fan)
flows.workflow("race", result=True)(race)
