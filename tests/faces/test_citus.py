"""Citus as users meet it: what commands say without one, a worker that follows the nodes, and the door from Python."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from citus_cluster import Cluster
from crew import Hired, eventually
from faces.serving import serving
from faces.test_worker_command import NOWHERE, SHOP, refused, tenure
from faces.web_tools import SHOWN
from patience import SECONDS_MAX
from tenure import Inbox, Job, postgres, settings
from tenure.embedded import attach
from tenure.errors import BAD_SETTINGS, BadSettings
from tenure.postgres import migrate
from tenure.postgres.citus_door import homes, open_door
from tenure.worker.config import Terms
from world import World


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


# -- without Citus


def test_a_plain_server_is_told_from_a_cluster(folder: Path, world: World) -> None:
    for command in (["migrate", "--citus"], ["doctor", "--citus"]):
        answer = tenure(folder, *command, TENURE_DATABASE_URL=world.url)
        assert answer.returncode == BAD_SETTINGS, answer.stderr
        assert answer.stderr == (
            "tenure: this database has no Citus: run CREATE EXTENSION citus on every node, or leave --citus out\n"
        )
    told = refused(folder, "shop:inbox", "--citus", TENURE_DATABASE_URL=world.url)
    assert "there is no schema tenure_door in this database: run `tenure migrate --citus`" in told


def test_options_that_contradict_citus_are_refused(folder: Path) -> None:
    assert "--colocate-with goes with --citus" in tenure(folder, "migrate", "--colocate-with", "orders").stderr
    assert "leave --check" in tenure(folder, "migrate", "--citus", "--check").stderr
    assert "--citus and --shards: give one of them" in refused(
        folder, "shop:inbox", "--citus", "--shards", f"a={NOWHERE}"
    )


def test_the_setting_is_on_or_off() -> None:
    assert settings.on_citus(environ={"TENURE_CITUS": "on"})
    assert not settings.on_citus(environ={"TENURE_CITUS": "off"})
    assert not settings.on_citus(environ={})
    with pytest.raises(BadSettings, match="TENURE_CITUS='yes' must be on or off"):
        settings.on_citus(environ={"TENURE_CITUS": "yes"})


def test_an_inbox_on_citus_sends_through_the_door() -> None:
    inbox = Inbox(schema="shop", citus=True)

    @inbox.handler("greet")
    def greet(name: str) -> None: ...

    assert (greet.schema, greet.sent_to) == ("shop", "shop_door")
    inbox.use_schema("other")
    assert greet.sent_to == "other_door"
    assert Inbox(schema="shop").citus is False


# -- nodes that come and go, by a coordinator of our own: its door knows only where the nodes are

STAND_IN = """
CREATE SCHEMA tenure_door;
CREATE TABLE tenure_door.places (inbox int, host text, port int);
CREATE FUNCTION tenure_door.nodes() RETURNS TABLE (inbox int, host text, port int) LANGUAGE sql
AS 'SELECT p.inbox, p.host, p.port FROM tenure_door.places AS p ORDER BY 1'
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two servers with an inbox each; the first also has a door that says where they are."""
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(attach(tmp_path / n, fast=True, linger_seconds=0.2)).url for n in "ab"]
        for url in urls:
            with postgres.connect(url) as conn:
                migrate.apply(conn)
        with postgres.connect(urls[0]) as conn:
            conn.execute(STAND_IN)
        yield urls[0], urls[1]


def place(url: str, inbox: int, at: str) -> None:
    """The cluster says that an inbox is there."""
    words = conninfo_to_dict(at)
    with postgres.connect(url) as conn:
        conn.execute("DELETE FROM tenure_door.places WHERE inbox = %s", [inbox])
        conn.execute("INSERT INTO tenure_door.places VALUES (%s, %s, %s)", [inbox, words["host"], words["port"]])


@contextlib.contextmanager
def following(first: str, ran: list[int], **shards: str) -> Iterator[Hired]:
    """A worker of a cluster that notes what it ran."""
    inbox = Inbox()

    @inbox.handler("count")
    def count(n: int) -> None:
        ran.append(n)

    nodes = {"1": first, **{name[1:]: url for name, url in shards.items()}}
    terms = Terms(shards=nodes, citus=first, poll_seconds=0.2, heartbeat_seconds=0.5, grace_seconds=SECONDS_MAX)
    hired = Hired(inbox, terms)
    try:
        yield hired
    finally:
        hired.worker.stop()
        hired.gone()


def enqueue(url: str, n: int) -> None:
    """One row for the worker, in that inbox."""
    with postgres.connect(url) as conn:
        conn.execute("SELECT tenure.enqueue('count', jsonb_build_object('n', %s::int))", [n])


@pytest.mark.one_server
def test_a_node_whose_address_changes_is_found_again(two: tuple[str, str]) -> None:
    first, second = two
    elsewhere = make_conninfo(second, host="/nowhere", connect_timeout=1)
    place(first, 1, first)
    place(first, 2, elsewhere)
    ran: list[int] = []
    with following(first, ran, _2=elsewhere):
        enqueue(first, 1)
        eventually(lambda: ran == [1])
        enqueue(second, 2)
        place(first, 2, second)
        eventually(lambda: ran == [1, 2])


@pytest.mark.one_server
def test_a_node_that_joins_is_served_without_a_restart(two: tuple[str, str]) -> None:
    first, second = two
    place(first, 1, first)
    ran: list[int] = []
    with following(first, ran) as hired:
        enqueue(second, 2)
        enqueue(first, 1)
        eventually(lambda: ran == [1])
        place(first, 2, second)
        eventually(lambda: ran == [1, 2])
        assert [post.terms.inbox for post in hired.worker.posts] == ["1", "2"]


@contextlib.contextmanager
def told_by_pages(url: str) -> Iterator[Callable[[], str]]:
    """What the server of pages tells of the inboxes of this cluster."""
    world = World(url, "tenure")
    try:
        with serving(world, "--port", "0", TENURE_CITUS="on") as server:
            yield lambda: httpx.get(f"{server.address}/metrics", headers=SHOWN, timeout=SECONDS_MAX).text
    finally:
        world.close()


@pytest.mark.one_server
def test_the_server_of_pages_shows_all_nodes_and_finds_one_that_has_moved(two: tuple[str, str]) -> None:
    first, second = two
    place(first, 1, first)
    place(first, 2, make_conninfo(second, host="/nowhere"))
    with told_by_pages(first) as told:
        assert 'tenure_inbox_up{inbox="1"} 1\n' in (text := told())
        assert 'tenure_inbox_up{inbox="2"} 0\n' in text
        place(first, 2, second)
        eventually(lambda: 'tenure_inbox_up{inbox="2"} 1\n' in told())


@pytest.mark.one_server
def test_the_server_of_pages_shows_a_node_that_joins(two: tuple[str, str]) -> None:
    first, second = two
    place(first, 1, first)
    with told_by_pages(first) as told:
        assert 'inbox="2"' not in told()
        place(first, 2, second)
        eventually(lambda: 'tenure_inbox_up{inbox="2"} 1\n' in told())


# -- with Citus


def test_one_worker_works_off_the_rows_of_all_nodes_and_sends_to_any(cluster: Cluster) -> None:
    inbox, ran = Inbox(citus=True), []

    @inbox.handler("second", key="{key}")
    def second(key: str) -> None:
        ran.append(key)

    @inbox.handler("first", key="{key}")
    def first(job: Job, key: str, to: str) -> None:
        with job.fenced() as tx:
            second.enqueue(tx, key=to)

    one, two = (cluster.keys(each, 1, "worked")[0] for each in cluster.nodes)
    with cluster.at() as conn:
        first.enqueue(conn, key=one, to=two)
        first.enqueue(conn, key=two, to=one)
    terms = Terms(shards=cluster.nodes, citus=cluster.url, queues=inbox.queues, poll_seconds=0.25)
    hired = Hired(inbox, terms)
    try:
        eventually(lambda: sorted(ran) == sorted([one, two]))
    finally:
        assert hired.stop() == 0
    assert not any(cluster.rows("first").values())


def test_a_schedule_is_planned_in_the_inbox_of_its_key(cluster: Cluster) -> None:
    names = [f"planned{n}" for n in range(6)]
    expected = {f"schedule:{name}": cluster.home(f"schedule:{name}") for name in names}
    assert homes(cluster.url, "tenure", expected) == expected
    assert homes(next(iter(cluster.nodes.values())), "tenure", expected) == expected, "every node knows it"


def test_the_door_is_open_to_connections_of_every_library(cluster: Cluster) -> None:
    asyncio.run(sent_by_every_library(cluster))
    assert sum(map(len, cluster.rows("library").values())) == 4


async def sent_by_every_library(cluster: Cluster) -> None:
    """One row by each."""
    inbox = Inbox(citus=True)

    @inbox.handler("library")
    def library(of: str) -> None: ...

    words: dict[str, Any] = conninfo_to_dict(cluster.url)
    with psycopg.connect(cluster.url) as conn:
        library.enqueue(conn, of="psycopg")
    async with await psycopg.AsyncConnection.connect(cluster.url) as awaiting:
        await library.enqueue(awaiting, of="psycopg, awaiting")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", connect_args=words)
    with engine.begin() as connection:
        library.enqueue(connection, of="sqlalchemy")
    engine.dispose()
    theirs = await asyncpg.connect(
        host=words["host"], port=int(words["port"]), user=words["user"], database=words["dbname"]
    )
    async with theirs.transaction():
        await library.enqueue(theirs, of="asyncpg")
    await theirs.close()


def test_commands_ask_all_nodes(cluster: Cluster, folder: Path) -> None:
    with cluster.at() as conn:
        for n in range(10):
            conn.execute("SELECT tenure_door.enqueue('asked', '{}', %s)", [f"asked:{n}"])
    on = {"TENURE_DATABASE_URL": cluster.url, "TENURE_CITUS": "on"}
    answer = tenure(folder, "rows", "kind:asked", **on)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("asked") >= 10
    one = tenure(folder, "rows", "kind:asked", "--inbox", next(iter(cluster.nodes)), **on)
    assert 0 < one.stdout.count("asked") < answer.stdout.count("asked")


def test_doctor_examines_the_cluster(cluster: Cluster, folder: Path) -> None:
    here = {"TENURE_DATABASE_URL": cluster.url}
    well = tenure(folder, "doctor", "--citus", **here)
    assert well.returncode == 0, well.stdout + well.stderr
    for said in ("every node can prepare", "inboxes at migration", "tenure_door leads each row"):
        assert said in well.stdout
    with cluster.at() as conn:
        conn.execute("UPDATE pg_dist_object SET force_delegation = false WHERE force_delegation")
    try:
        ill = tenure(folder, "doctor", "--citus", **here)
        assert ill.returncode == 1
        assert "tenure_door.put and tenure_door.put_many and tenure_door.take_key is not delegated" in ill.stdout
    finally:
        list(open_door(cluster.url))
    assert tenure(folder, "doctor", "--citus", **here).returncode == 0, "migrate --citus has put it right"


def test_migrating_twice_changes_nothing(cluster: Cluster, folder: Path) -> None:
    again = tenure(folder, "migrate", "--citus", TENURE_DATABASE_URL=cluster.url)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count(": 0 migrations applied") == len(cluster.nodes)
    assert f"door     tenure_door leads to {len(cluster.nodes)} inboxes" in again.stdout


def test_a_table_by_another_type_cannot_be_followed(cluster: Cluster, folder: Path) -> None:
    with cluster.at() as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS public.by_number (id bigint PRIMARY KEY)")
        conn.execute("SELECT create_distributed_table('public.by_number', 'id', colocate_with => 'none')")
    try:
        here = {"TENURE_DATABASE_URL": cluster.url, "TENURE_SCHEMA": "other"}
        answer = tenure(folder, "migrate", "--citus", "--colocate-with", "public.by_number", **here)
        assert answer.returncode == BAD_SETTINGS, answer.stderr
        assert "name a table that is distributed by a column of type text" in answer.stderr
    finally:
        with cluster.at() as conn:
            conn.execute("DROP TABLE public.by_number")


def test_a_door_is_opened_again_with_the_table_that_it_stays_with_and_no_other(folder: Path, cluster: Cluster) -> None:
    here = {"TENURE_DATABASE_URL": cluster.url}
    tables = {"beside": "tenure_door.keys", "apart": "none"}
    try:
        with cluster.at() as conn:
            for name, beside in tables.items():
                conn.execute(f"CREATE TABLE public.{name} (id text PRIMARY KEY)".encode())
                conn.execute("SELECT create_distributed_table(%s, 'id', colocate_with => %s)", [name, beside])
        again = tenure(folder, "migrate", "--citus", "--colocate-with", "public.beside", **here)
        assert again.returncode == 0, again.stderr
        assert "door     tenure_door leads to 2 inboxes" in again.stdout
        for other in ("public.apart", "public.nosuch"):
            refused = tenure(folder, "migrate", "--citus", "--colocate-with", other, **here)
            assert (refused.returncode, refused.stdout) == (BAD_SETTINGS, ""), "before anything is migrated"
            assert refused.stderr == (
                f"tenure: --colocate-with {other}: this cluster has a door already, and its ranges do not stay with "
                "that table; leave the option out\n"
            )
    finally:
        with cluster.at() as conn:
            conn.execute("DROP TABLE IF EXISTS public.beside, public.apart")
