"""pgqueuer. Best: asyncpg, uvloop, batches of 250."""

import json

import asyncpg
import uvloop
from driver import do_async, fields
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries


async def setup(url):
    conn = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(conn)).install()
    await conn.close()


def _payload(k):
    return json.dumps(fields(k)).encode()


async def one(url, kind, ks):
    conn = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(conn))
    yield None
    for k in ks:
        await queries.enqueue(kind, _payload(k))
        yield k
    await conn.close()


async def many(url, kind, ks):
    conn = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(conn))
    yield None
    for first in range(ks.start, ks.stop, 1000):
        part = range(first, min(first + 1000, ks.stop))
        await queries.enqueue([kind] * len(part), [_payload(k) for k in part], [0] * len(part))
    yield ks.stop
    await conn.close()


def worker(url, best):
    uvloop.run(_work(url, best))


async def _work(url, best):
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    for kind in ("nothing", "tell", "hang"):

        @pgq.entrypoint(kind)
        async def run(job, kind=kind):
            await do_async(kind, json.loads(job.payload)["k"])

    await pgq.run(**({"batch_size": 250} if best else {}))
