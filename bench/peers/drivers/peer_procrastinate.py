"""procrastinate. Best: an async worker that runs 50 at once, with NOTIFY."""

import procrastinate
from driver import do_async, fields

app = procrastinate.App(connector=procrastinate.PsycopgConnector())


@app.task(name="nothing")
async def nothing(k, email, note):
    await do_async("nothing", k)


@app.task(name="tell")
async def tell(k, email, note):
    await do_async("tell", k)


@app.task(name="hang")
async def hang(k, email, note):
    await do_async("hang", k)


TASKS = {"nothing": nothing, "tell": tell, "hang": hang}


def _sync(url):
    return app.replace_connector(procrastinate.SyncPsycopgConnector(conninfo=url))


def setup(url):
    with _sync(url) as other, other.open():
        other.schema_manager.apply_schema()


def one(url, kind, ks):
    with _sync(url) as other, other.open():
        yield None
        for k in ks:
            TASKS[kind].defer(**fields(k))
            yield k


def many(url, kind, ks):
    with _sync(url) as other, other.open():
        yield None
        for first in range(ks.start, ks.stop, 1000):
            TASKS[kind].batch_defer(*(fields(k) for k in range(first, min(first + 1000, ks.stop))))
        yield ks.stop


async def worker(url, best):
    connector = procrastinate.PsycopgConnector(conninfo=url, **({"max_size": 20} if best else {}))
    with app.replace_connector(connector) as other:
        async with other.open_async():
            await other.run_worker_async(**({"concurrency": 50} if best else {}))
