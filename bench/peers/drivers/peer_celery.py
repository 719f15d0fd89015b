"""celery with redis (the broker of its docs that is quickest). Best: 2 processes, a long prefetch, results ignored."""

import os

from celery import Celery
from driver import do, fields

app = Celery("peer_celery", broker=os.environ["BENCH_BROKER"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)


@app.task(name="nothing")
def nothing(k, email, note):
    do("nothing", k)


@app.task(name="tell")
def tell(k, email, note):
    do("tell", k)


@app.task(name="hang")
def hang(k, email, note):
    do("hang", k)


def setup(url):
    app.control.purge()


def one(url, kind, ks):
    app.connection_for_write().ensure_connection()
    yield None
    for k in ks:
        app.tasks[kind].apply_async(kwargs=fields(k))
        yield k


def many(url, kind, ks):
    with app.producer_pool.acquire(block=True) as producer:
        yield None
        for k in ks:
            app.tasks[kind].apply_async(kwargs=fields(k), producer=producer)
        yield ks.stop


def worker(url, best):
    quiet = ["worker", "-l", "critical", "-n", f"w{os.getpid()}@bench"]
    fast = ["-c", "2", "--prefetch-multiplier", "200", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main([*quiet, *(fast if best else [])])
