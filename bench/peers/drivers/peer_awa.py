"""awa-pg. Best: its queue storage (the newer engine), 200 at once, COPY in bulk."""

import asyncio
from dataclasses import dataclass

from awa import AsyncClient
from driver import do_async, fields


@dataclass
class Nothing:
    k: int
    email: str
    note: str


@dataclass
class Tell(Nothing):
    pass


@dataclass
class Hang(Nothing):
    pass


KINDS = {"nothing": Nothing, "tell": Tell, "hang": Hang}


async def setup(url):
    client = AsyncClient(url)
    await client.migrate()
    await client.install_queue_storage()
    await client.close()


async def one(url, kind, ks):
    client = AsyncClient(url)
    yield None
    for k in ks:
        await client.insert(KINDS[kind](**fields(k)), queue="default")
        yield k
    await client.close()


async def many(url, kind, ks):
    client = AsyncClient(url)
    yield None
    for first in range(ks.start, ks.stop, 1000):
        part = range(first, min(first + 1000, ks.stop))
        await client.enqueue_many_copy([KINDS[kind](**fields(k)) for k in part], queue="default")
    yield ks.stop
    await client.close()


async def worker(url, best):
    client = AsyncClient(url)
    for kind, args in KINDS.items():

        @client.task(args, queue="default")
        async def run(job, kind=kind):
            await do_async(kind, job.args.k)

    await client.start([("default", 200 if best else 4)])
    await asyncio.Event().wait()
