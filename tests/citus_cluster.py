"""A Citus cluster for tests: one that runs (TENURE_TEST_CITUS_URL), or three servers made with TENURE_CITUS_BIN."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tenure.embedded import attach
from tenure.postgres.citus_door import Node, node_urls, open_door
from tenure.postgres.handoff import adopt_all
from tenure.settings import DEFAULT_SCHEMA

URL = os.environ.get("TENURE_TEST_CITUS_URL")
BIN = os.environ.pop("TENURE_CITUS_BIN", None)  # commands that tests start would not know it
BIN = os.environ["TENURE_TEST_CITUS_BIN"] = BIN or os.environ.get("TENURE_TEST_CITUS_BIN", "")  # for workers of xdist
NONE = "no Citus at hand (TENURE_CITUS_BIN, TENURE_TEST_CITUS_URL): its tests are left out"
SETTINGS = {
    "shared_preload_libraries": "citus",
    "max_prepared_transactions": "50",
    "wal_level": "logical",
    "shared_buffers": "32MB",
    "citus.shard_count": "8",
    "citus.enable_statistics_collection": "off",
    "citus.recover_2pc_interval": "1s",
}


@dataclass(frozen=True)
class Cluster:
    """A coordinator whose door is open, and the inboxes behind it by name."""

    url: str
    nodes: dict[str, str]

    @contextlib.contextmanager
    def at(self, inbox: str | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection to the coordinator, or to the node with this inbox."""
        with psycopg.connect(self.nodes[inbox] if inbox else self.url, autocommit=True) as conn:
            yield conn

    def home(self, key: str) -> str:
        """The inbox that a key belongs to."""
        with self.at() as conn:
            return str(conn.execute("SELECT tenure_door.home(%s)", [key]).fetchone()[0])  # type: ignore[index]

    def keys(self, inbox: str, n: int, prefix: str) -> list[str]:
        """So many keys that belong to this inbox."""
        found = (key for key in (f"{prefix}:{i}" for i in range(1000)) if self.home(key) == inbox)
        return [next(found) for _ in range(n)]

    def rows(self, kind: str) -> dict[str, list[Any]]:
        """The keys of the rows of a kind, by inbox."""
        asked = "SELECT partition_key FROM tenure.live WHERE kind = %s ORDER BY seq"
        found = {}
        for inbox in self.nodes:
            with self.at(inbox) as conn:
                found[inbox] = [key for (key,) in conn.execute(asked, [kind])]
        return found

    def empty(self) -> None:
        """Drop the rows and keys of earlier tests."""
        tables = "tenure.live, tenure.waiting, tenure.idempotency, tenure.arrivals, tenure.workers"
        for inbox in self.nodes:
            with self.at(inbox) as conn:
                conn.execute(f"TRUNCATE {tables} CASCADE".encode())
        with self.at() as conn:
            conn.execute("SELECT tenure_door.forget('infinity')")


@contextlib.contextmanager
def running(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """The cluster, with its door open."""
    with contextlib.ExitStack() as stack:
        url = URL or _started(folder, stack, {**SETTINGS, **(settings or {})})
        list(open_door(url))
        adopt_all(url, DEFAULT_SCHEMA)
        yield Cluster(url, node_urls(url))


def _started(folder: Path, stack: contextlib.ExitStack, settings: Mapping[str, str]) -> str:
    """Three servers: the coordinator first, then two nodes that it knows."""
    before = os.environ.get("TENURE_PG_BIN")
    os.environ["TENURE_PG_BIN"] = str(BIN)
    try:
        urls = [
            stack.enter_context(attach(folder / name, fast=True, linger_seconds=0.2, settings=settings)).url
            for name in ("c", "n1", "n2")
        ]
    finally:
        os.environ.pop("TENURE_PG_BIN")
        if before is not None:
            os.environ["TENURE_PG_BIN"] = before
    join(urls)
    return urls[0]


def join(urls: Sequence[str]) -> None:
    """Make servers a cluster: the first is the coordinator."""
    places = [Node(0, str(words["host"]), int(str(words["port"]))) for words in map(conninfo_to_dict, urls)]
    for url, place in zip(urls, places, strict=True):
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE EXTENSION citus")
            conn.execute(f"ALTER SYSTEM SET citus.local_hostname = '{place.host}'".encode())
            conn.execute("SELECT pg_reload_conf()")
    with psycopg.connect(urls[0], autocommit=True) as conn:
        conn.execute("SELECT citus_set_coordinator_host(%s, %s)", [places[0].host, places[0].port])
        for place in places[1:]:
            conn.execute("SELECT citus_add_node(%s, %s)", [place.host, place.port])
