"""No token twice: whatever a server comes back as, what was handed out before it went is refused after it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos.own_server import OwnServer, own_server
from crew import eventually
from tenure import verbs
from tenure.errors import StaleFence
from tenure.model.rows import Lease
from world import World, new_world

pytestmark = pytest.mark.one_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnServer]:
    # What is committed without waiting stays in memory for as long as it can.
    with own_server(tmp_path / "pg", wal_writer_delay="10s", autovacuum="off", bgwriter_delay="10s") as mine:
        yield mine


@pytest.fixture
def world(server: OwnServer) -> Iterator[World]:
    with new_world(server.url) as mine:
        mine.enqueue()
        yield mine


def cold_copy(server: OwnServer, world: World) -> Lease:
    """A copy of the stopped server's folder is put back over what came after it."""
    server.end("fast")
    copy(server.cluster, server.cluster.with_name("kept"))
    server.start()
    lost = taken(world, "A")
    server.end("fast")
    put_back(server, server.cluster.with_name("kept"))
    return lost


def cold_copy_after_restarts(server: OwnServer, world: World) -> Lease:
    """The same, and the server was started more than once in between."""
    server.end("fast")
    copy(server.cluster, server.cluster.with_name("kept"))
    server.start()
    taken(world, "A")
    for _ in range(2):
        server.end("fast")
        server.start()
        reconnected(world).enqueue()
        lost = taken(world, "A")
    server.end("fast")
    put_back(server, server.cluster.with_name("kept"))
    return lost


def base_backup(server: OwnServer, world: World) -> Lease:
    """A base backup is started as it is: without a signal file it recovers as after a crash, on the same timeline."""
    begin, end = ("pg_backup_start", "pg_backup_stop") if major(world) >= 15 else ("pg_start_backup", "pg_stop_backup")
    kept = server.cluster.with_name("kept")
    more = ", true" if major(world) >= 15 else ", true, false"
    world.sql(f"SELECT {begin}('kept'{more})")
    copy(server.cluster, kept)
    ((label,),) = world.sql(f"SELECT labelfile FROM {end}(false)")
    world.sql("SELECT pg_switch_wal()")
    subprocess.run(["cp", "-a", f"{server.cluster}/pg_wal/.", kept / "pg_wal"], check=True)
    (kept / "backup_label").write_text(label)
    os.chown(kept / "backup_label", kept.stat().st_uid, kept.stat().st_gid)
    (kept / "postmaster.pid").unlink()
    lost = taken(world, "A")
    server.end("fast")
    put_back(server, kept)
    return lost


def crash(server: OwnServer, world: World) -> Lease:
    """The server crashes before it has written what it said was committed."""
    world.sql("SET synchronous_commit = off")
    lost = taken(world, "A", reconnect=False)
    server.end("immediate")
    server.start()
    return lost


def crash_of_a_session(server: OwnServer, world: World) -> Lease:
    """One session is killed: the server starts its sessions anew and keeps the time of its start."""
    bystander = world.connect()
    world.sql("SET synchronous_commit = off")
    lost = taken(world, "A", reconnect=False)
    os.kill(bystander.info.backend_pid, signal.SIGKILL)
    eventually(lambda: not alive(world.conn))
    return lost


def copy_by_the_server(server: OwnServer, world: World) -> Lease:
    """The running server copied the database before the claim, and the copy takes its place."""
    world.conn.close()
    with psycopg.connect(server.url, dbname="postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE kept TEMPLATE tenure")
        lost = taken(world, "A")
        world.conn.close()
        admin.execute("DROP DATABASE tenure WITH (FORCE)")
        admin.execute("ALTER DATABASE kept RENAME TO tenure")
    return lost


CALAMITIES = (cold_copy, cold_copy_after_restarts, base_backup, crash, crash_of_a_session, copy_by_the_server)
WAYS: dict[str, Callable[[OwnServer, World], Lease]] = {each.__name__: each for each in CALAMITIES}


@pytest.mark.parametrize("way", WAYS)
def test_a_token_from_before_is_refused_after(server: OwnServer, world: World, way: str) -> None:
    before = WAYS[way](server, world)
    reconnected(world)
    world.enqueue()  # if the claim outlived the crash, there is another row to take
    for row in world.claim("B", 10):
        assert row.lease.fence > before.fence
        world.run(verbs.fence("printer", row.lease.fence))
        with pytest.raises(StaleFence):
            world.run(verbs.fence("printer", before.fence))
        if row.id == before.id:
            assert world.complete(before).standing == "stale"
        assert world.complete(row.lease).standing == "applied"


def taken(world: World, worker: str, *, reconnect: bool = True) -> Lease:
    if reconnect:
        reconnected(world)
    return world.claim_one(worker).lease


def reconnected(world: World) -> World:
    """Its connection anew, as soon as the server lets it in."""

    def connected() -> bool:
        try:
            world.conn = world.connect()
        except psycopg.OperationalError:
            return False
        return True

    eventually(connected)
    return world


def alive(conn: psycopg.Connection[Any]) -> bool:
    try:
        conn.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def major(world: World) -> int:
    return world.conn.info.server_version // 10_000


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


def put_back(server: OwnServer, kept: Path) -> None:
    """Start the server on what was kept."""
    server.cluster.rename(server.cluster.with_name("given-up"))
    kept.rename(server.cluster)
    server.start()
