"""Tenure itself, by the same protocol."""

import os
import sys

from driver import do_async, fields

from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.postgres import migrate

inbox = Inbox()


def setup(url):
    with postgres.connect(url) as conn:
        migrate.apply(conn)


@inbox.handler("nothing")
async def nothing(k: int, email: str, note: str) -> None:
    await do_async("nothing", k)


@inbox.handler("tell")
async def tell(k: int, email: str, note: str) -> None:
    await do_async("tell", k)


@inbox.handler("hang")
async def hang(k: int, email: str, note: str) -> None:
    await do_async("hang", k)


def one(url, kind, ks):
    handler = inbox.handlers[kind]
    with postgres.connect(url) as conn:
        yield None
        for k in ks:
            handler.enqueue(conn, **fields(k))
            yield k


def many(url, kind, ks):
    from tenure.model.rows import NewRow

    with postgres.connect(url) as conn:
        yield None
        for first in range(ks.start, ks.stop, 1000):
            part = range(first, min(first + 1000, ks.stop))
            postgres.run(conn, verbs.enqueue_many(NewRow(kind, fields(k)) for k in part))
        yield ks.stop


def worker(url, best):
    options = ["--slots", "500"] if best else []
    command = [sys.executable, "-c", "from tenure.cli import main; main()", "worker", "peer_tenure:inbox"]
    os.execv(sys.executable, [*command, "--database-url", url, *options])
