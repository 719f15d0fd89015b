"""dbos. Best: no limit of concurrency, polls every 50 ms. In bulk: a thousand in one transaction of SQLAlchemy."""

import os
import threading

import sqlalchemy
from dbos import DBOS, DBOSClient
from driver import do, fields


def _address(url):
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def setup(url):
    _launched(url, best=True)
    DBOS.destroy()


def _launched(url, best):
    executor = f"bench-{os.getpid()}"
    DBOS(config={"name": "bench", "system_database_url": url, "executor_id": executor, "log_level": "ERROR"})

    @DBOS.workflow(name="nothing")
    def nothing(k: int, email: str, note: str) -> None:
        do("nothing", k)

    @DBOS.workflow(name="tell")
    def tell(k: int, email: str, note: str) -> None:
        do("tell", k)

    @DBOS.workflow(name="hang")
    def hang(k: int, email: str, note: str) -> None:
        do("hang", k)

    @DBOS.step(name="step")
    def step() -> None: ...

    @DBOS.workflow(name="steps")
    def steps(k: int, email: str, note: str) -> None:
        for _ in range(3):
            step()
        do("nothing", k)

    DBOS.launch()
    DBOS.register_queue("default", polling_interval_sec=0.05 if best else 1.0, on_conflict="always_update")


def one(url, kind, ks):
    client = DBOSClient(system_database_url=url)
    yield None
    for k in ks:
        client.enqueue({"queue_name": "default", "workflow_name": kind}, **fields(k))
        yield k
    client.destroy()


def many(url, kind, ks):
    client, engine = DBOSClient(system_database_url=url), sqlalchemy.create_engine(_address(url))
    yield None
    for first in range(ks.start, ks.stop, 1000):
        with engine.begin() as conn:
            for k in range(first, min(first + 1000, ks.stop)):
                client.enqueue_in_transaction(conn, {"queue_name": "default", "workflow_name": kind}, **fields(k))
    yield ks.stop
    client.destroy()


def worker(url, best):
    _launched(url, best)
    threading.Event().wait()
