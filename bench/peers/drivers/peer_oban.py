"""oban (oban-py, the open one). Best: a queue with 100 slots and a pool of 10."""

import asyncio

from driver import do_async, fields
from oban import Oban, job
from oban.schema import install
from psycopg_pool import AsyncConnectionPool


@job(queue="default")
async def nothing(k, email, note):
    await do_async("nothing", k)


@job(queue="default")
async def tell(k, email, note):
    await do_async("tell", k)


@job(queue="default")
async def hang(k, email, note):
    await do_async("hang", k)


JOBS = {"nothing": nothing, "tell": tell, "hang": hang}


def _pool(url):
    return AsyncConnectionPool(url, min_size=1, max_size=10, open=False)


async def setup(url):
    async with _pool(url) as pool:
        await install(pool)


async def one(url, kind, ks):
    async with _pool(url) as pool:
        oban = Oban(pool=pool)
        yield None
        for k in ks:
            await oban.enqueue(JOBS[kind].new(**fields(k)))
            yield k


async def many(url, kind, ks):
    async with _pool(url) as pool:
        oban = Oban(pool=pool)
        yield None
        for first in range(ks.start, ks.stop, 1000):
            await oban.enqueue_many([JOBS[kind].new(**fields(k)) for k in range(first, min(first + 1000, ks.stop))])
        yield ks.stop


async def worker(url, best):
    async with _pool(url) as pool, Oban(pool=pool, queues={"default": 100 if best else 10}):
        await asyncio.Event().wait()
