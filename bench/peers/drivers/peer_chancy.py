"""chancy. Best: its asyncio executor, 200 at once, eager polling; its recovery plugin is on."""

from chancy import Chancy, Queue, Worker, job
from chancy.plugins.recovery import Recovery
from driver import do, do_async, fields


@job()
async def nothing(*, k: int, email: str, note: str):
    await do_async("nothing", k)


@job()
async def tell(*, k: int, email: str, note: str):
    await do_async("tell", k)


@job()
def hang(*, k: int, email: str, note: str):
    do("hang", k)


JOBS = {"nothing": nothing, "tell": tell, "hang": hang}


def _job(kind, k):
    return JOBS[kind].job.with_kwargs(**fields(k)).with_queue("default" if kind != "hang" else "defaults")


async def setup(url):
    async with Chancy(url, plugins=[Recovery()]) as app:
        await app.migrate()
        best = "chancy.executors.asyncex.AsyncExecutor"
        await app.declare(
            Queue("default", concurrency=200, executor=best, polling_interval=1, eager_polling=True, tags={"best"})
        )
        await app.declare(Queue("defaults", tags={"defaults"}))


async def one(url, kind, ks):
    async with Chancy(url) as app:
        yield None
        for k in ks:
            await app.push(_job(kind, k))
            yield k


async def many(url, kind, ks):
    async with Chancy(url) as app:
        yield None
        async for _ in app.push_many([_job(kind, k) for k in ks]):
            pass
        yield ks.stop


async def worker(url, best):
    async with (
        Chancy(url, plugins=[Recovery()]) as app,
        Worker(app, tags={"best" if best else "defaults"}) as running,
    ):
        await running.wait_for_shutdown()
