"""The applications that benches run: a handler that does nothing (in each pool), and two that take their time."""

from __future__ import annotations

import asyncio
import os
import time

from tenure.app.codec import Codec
from tenure.app.inbox import Inbox

quick = Inbox()
threads = Inbox()
processes = Inbox()
prompt = Inbox()
long = Inbox()
secret = Inbox(codec=Codec({"k1": b"a key for a bench, and no other"[:31] + b"."}))


@quick.handler("nothing")
async def nothing(order_id: int, email: str, note: str) -> None:
    """The work of a drain bench: none, so that all that is measured is ours."""


@threads.handler("nothing")
def nothing_in_a_thread(order_id: int, email: str, note: str) -> None:
    """The same in a thread."""


@processes.handler("nothing", pool="process")
def nothing_in_a_process(order_id: int, email: str, note: str) -> None:
    """The same in a child process."""


@prompt.handler("nothing")
async def told(order_id: int, **_: str) -> None:
    """It says when it began, in the ledger that BENCH_STARTS names: a line with its order and the time."""
    began = time.monotonic()
    with open(os.environ["BENCH_STARTS"], "a") as ledger:
        ledger.write(f"{order_id} {began}\n")


@long.handler("waits")
async def waits(seconds: float) -> None:
    """Work that can be stopped at any moment."""
    await asyncio.sleep(seconds)


@long.handler("blocks")
def blocks(seconds: float) -> None:
    """Work that cannot: it writes when it wakes, however late that is."""
    time.sleep(seconds)


@secret.handler("in_clear", encrypt=False, key="order:{order_id}")
async def in_clear(order_id: int, email: str, note: str) -> None:
    """No work, with a payload that anybody may read."""


@secret.handler("encrypted", encrypt=["email", "note"], key="order:{order_id}")
async def encrypted(order_id: int, email: str, note: str) -> None:
    """No work, with a payload that has to be opened first."""
