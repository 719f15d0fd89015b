"""Two inboxes, each in a database of its own, and one worker at both: for tests of posts."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from psycopg.conninfo import conninfo_to_dict

from crew import Hired, eventually
from patience import SECONDS_MAX
from tenure import postgres
from tenure.app.inbox import Inbox
from tenure.postgres import migrate
from tenure.worker.config import Terms
from tenure.worker.post import Post
from world import World

_numbers = itertools.count(1)


class Pair(NamedTuple):
    """The inboxes `a` and `b`."""

    a: World
    b: World


def at(url: str, database: str) -> str:
    """The address of another database of this server."""
    before = conninfo_to_dict(url)["dbname"]
    return url.replace(f"/{before}?", f"/{database}?")


@contextlib.contextmanager
def databases(url: str) -> Iterator[tuple[str, str]]:
    """Two migrated databases on this server, dropped when the block ends."""
    a, b = (f"posts_{os.getpid()}_{next(_numbers)}" for _ in "ab")
    with postgres.connect(url) as conn:
        conn.execute(f"CREATE DATABASE {a}".encode())
        with postgres.connect(at(url, a)) as there:
            migrate.apply(there, "tenure")
            there.execute("SELECT tenure.next_fence()")
        conn.execute(f"CREATE DATABASE {b} TEMPLATE {a}".encode())
        try:
            yield at(url, a), at(url, b)
        finally:
            for name in (a, b):
                conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextlib.contextmanager
def new_pair(*urls: str) -> Iterator[Pair]:
    """Worlds in both databases, emptied when the block ends."""
    pair = Pair(*(World(url, "tenure") for url in urls))
    before = [_filled(world) for world in pair]
    try:
        yield pair
    finally:
        for world, tables in zip(pair, before, strict=True):
            left = ", ".join(sorted(_filled(world) - tables))
            if left:
                world.sql("SET session_replication_role = replica")  # the audit is only ever added to
                world.sql(f"TRUNCATE {left}")
            world.close()


def read_only(url: str) -> str:
    """The same inbox, where every write is refused."""
    return f"{url}&options=-c%20default_transaction_read_only%3Don"


@contextlib.contextmanager
def login(world: World, role: str) -> Iterator[str]:
    """The address of this inbox for somebody with the rights of a role: worker, operator or readonly."""
    prefix = f"pairs_{world.conn.info.backend_pid}"
    migrate.grant(world.conn, "tenure", prefix)
    world.sql(f"CREATE ROLE {prefix}_login LOGIN IN ROLE {prefix}_{role}")
    try:
        yield f"{world.url}&user={prefix}_login"
    finally:
        for each in ("login", "producer", "worker", "operator", "readonly"):
            world.sql(f"DROP OWNED BY {prefix}_{each}")
            world.sql(f"DROP ROLE {prefix}_{each}")


@contextlib.contextmanager
def third(pair: Pair) -> Iterator[World]:
    """An inbox in one more database, dropped when the block ends."""
    name = f"third_{os.getpid()}_{next(_numbers)}"
    pair.a.conn.execute(f"CREATE DATABASE {name}".encode())
    try:
        with postgres.connect(at(pair.a.url, name)) as conn:
            migrate.apply(conn, "tenure")
        with contextlib.closing(World(at(pair.a.url, name), "tenure")) as world:
            yield world
    finally:
        pair.a.conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _filled(world: World) -> set[str]:
    asked = "SELECT relname FROM pg_class WHERE relnamespace IN ('tenure'::regnamespace, 'public'::regnamespace)"
    return {name for (name,) in world.sql(f"{asked} AND relkind = 'r' AND pg_relation_size(oid) > 0")}


@contextlib.contextmanager
def serving(pair: Pair, inbox: Inbox, *, urls: dict[str, str] | None = None, **terms: Any) -> Iterator[Hired]:
    """One worker at both inboxes, drained at the end."""
    with hired_at(inbox, {"a": pair.a.url, "b": pair.b.url, **(urls or {})}, **terms) as hired:
        yield hired


@contextlib.contextmanager
def hired_at(inbox: Inbox, shards: dict[str, str], **terms: Any) -> Iterator[Hired]:
    """One worker at these inboxes, drained at the end."""
    terms.setdefault("grace_seconds", SECONDS_MAX)
    terms.setdefault("poll_seconds", 0.3)
    hired = Hired(inbox, Terms(shards=shards, **terms))
    try:
        eventually(lambda: any(ready(post) for post in hired.worker.posts))
        yield hired
    finally:
        if hired.exit_code is None:
            hired.worker.stop()
            hired.worker.stop()
            hired._thread.join(SECONDS_MAX)


def ready(post: Post) -> bool:
    """It is in the ring of its inbox, and can claim."""
    return bool(post.lease_keeper.ring.workers) and post.claimer.connected


def both_ready(hired: Hired) -> Hired:
    """Itself, once it serves both."""
    eventually(lambda: all(ready(post) for post in hired.worker.posts))
    return hired
