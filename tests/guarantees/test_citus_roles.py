"""Postgres roles on Citus: a producer enqueues through the door from any node, and has no right to its tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from citus_cluster import Cluster
from crew import Hired, eventually
from guarantees.test_citus_door import send, two_homes
from guarantees.test_citus_moves import away_from, move
from tenure import Inbox, postgres, verbs
from tenure.doctor.cluster import examine_cluster
from tenure.model.rows import NewRow
from tenure.postgres.citus_door import grant, open_door
from tenure.postgres.handoff import adopt_all
from tenure.verbs.citus_keys import forget_keys
from tenure.worker.config import Terms

PREFIX, ROLES = "roled", ("producer", "worker", "operator", "readonly")
KNOWN = "SELECT key, row_id FROM tenure_door.idempotency ORDER BY key"


@pytest.fixture
def roled(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a login for each role; Citus makes them on every node."""
    grant(cluster.url, "tenure", PREFIX)
    with cluster.at() as conn:
        for role in ROLES:
            conn.execute(f"CREATE ROLE {PREFIX}_{role}_login LOGIN IN ROLE {PREFIX}_{role}".encode())
    try:
        yield cluster
    finally:
        drop(cluster, ", ".join(f"{PREFIX}_{role}{login}" for role in ROLES for login in ("_login", "")))


def drop(cluster: Cluster, names: str) -> None:
    """Drop these roles, with all that they were granted anywhere."""
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            conn.execute(f"DROP OWNED BY {names}".encode())
    with cluster.at() as conn:
        conn.execute(f"DROP OWNED BY {names}".encode())
        conn.execute(f"DROP ROLE {names}".encode())


def url(at: str, role: str) -> str:
    """The address of a server as the login of a role."""
    return make_conninfo(at, user=f"{PREFIX}_{role}_login")


@contextlib.contextmanager
def connected(cluster: Cluster, role: str, inbox: str | None = None) -> Iterator[psycopg.Connection[Any]]:
    """As the login of a role, to the coordinator or a node."""
    place = cluster.nodes[inbox] if inbox else cluster.url
    with psycopg.connect(url(place, role), autocommit=True) as conn:
        yield conn


@pytest.fixture
def orders(roled: Cluster) -> Iterator[None]:
    """A table that is spread like the keys, for producers to write to."""
    with roled.at() as conn:
        conn.execute("CREATE TABLE public.orders (customer text PRIMARY KEY, total int)")
        colocated = "SELECT create_distributed_table('public.orders', 'customer', colocate_with => 'tenure_door.keys')"
        conn.execute(colocated)
        conn.execute(f"GRANT INSERT ON public.orders TO {PREFIX}_producer".encode())
    yield
    with roled.at() as conn:
        conn.execute("DROP TABLE public.orders")


def test_a_producer_enqueues_from_any_node_in_every_way(roled: Cluster) -> None:
    one, two = two_homes(roled, "roled")
    for place in (None, *roled.nodes):
        with connected(roled, "producer", place) as conn:
            for key in (one, two):
                assert send(conn, "roled", key)[1] == "enqueued"
                id, outcome = send(conn, "roled", key, once=f"roled:{place}:{key}")
                assert outcome == "enqueued"
                assert send(conn, "roled", key, once=f"roled:{place}:{key}") == (id, "duplicate")
                assert send(conn, "roled", key, '{"n": 1}', once=f"roled:{place}:{key}") == (id, "conflict")
            rows = [NewRow("roled", {}, key=key, ordered=ordered) for key in (one, two) for ordered in (False, True)]
            rows.append(NewRow("roled", {}, key=one, idempotency_key=f"many:{place}"))
            postgres.run(conn, verbs.enqueue_many(rows), "tenure_door")
            for again in ("after_start", "after_end"):
                row = NewRow("roled", {}, key=one, idempotency_key=f"{again}:{place}", again=again)
                assert postgres.run(conn, verbs.enqueue(row), "tenure_door").outcome == "enqueued"
    assert sum(map(len, roled.rows("roled").values())) == 3 * (4 + 5 + 2)


@pytest.mark.usefixtures("orders")
def test_a_producer_writes_to_its_own_table_beside_in_one_transaction(roled: Cluster) -> None:
    one, two = two_homes(roled, "beside")
    insert = "INSERT INTO public.orders VALUES (%s, 1)"
    for place in (None, *roled.nodes):
        with connected(roled, "producer", place) as conn:
            for key in (f"{one}:{place}", f"{two}:{place}"):
                with conn.transaction():
                    conn.execute(insert, [key])
                    assert send(conn, "beside", key, once=key)[1] == "enqueued"
                    conn.execute(insert, [f"{key}:after"])
    with roled.at() as conn:
        assert conn.execute("SELECT count(*) FROM public.orders").fetchone() == (12,)
    assert sum(map(len, roled.rows("beside").values())) == 6


DENIED = (
    "SELECT * FROM tenure_door.idempotency",
    "DELETE FROM tenure_door.idempotency",
    "INSERT INTO tenure_door.idempotency VALUES ('mine', NULL, '', now())",
    "UPDATE tenure_door.idempotency SET row_id = NULL",
    "DELETE FROM tenure_door.keys WHERE partition_key = 'k'",
    "DELETE FROM tenure_door.inboxes",
    "SELECT tenure_door.forget('infinity')",
)


def test_a_producer_neither_reads_nor_changes_what_others_have_sent(roled: Cluster) -> None:
    with roled.at() as conn:
        send(conn, "others", "k", once="others:1")
        known = conn.execute(KNOWN).fetchall()
    for place in (None, *roled.nodes):
        with connected(roled, "producer", place) as conn:
            for statement in (*DENIED, "SELECT * FROM tenure.live") if place else DENIED:
                with pytest.raises(InsufficientPrivilege):
                    conn.execute(statement.encode())
            for id in (None, "01a1ee88-8fef-7999-9b6e-aa37e36eb6c4"):
                conn.execute("SELECT FROM tenure_door.note_key('others:1', %s)", [id])
    with roled.at() as conn:
        assert conn.execute(KNOWN).fetchall() == known, "a key that has a row is nobody's to change"


def test_a_key_that_was_taken_and_has_no_row_is_free(roled: Cluster) -> None:
    key = two_homes(roled, "alone")[0]
    with connected(roled, "producer") as conn:
        conn.execute("SELECT FROM tenure_door.take_key(%s, 'x')", [key])
        id, outcome = send(conn, "alone", key, once=key)
        assert outcome == "enqueued"
        assert send(conn, "alone", key, once=key) == (id, "duplicate")


@pytest.fixture
def stranger(cluster: Cluster) -> Iterator[str]:
    """A login that may look into the schemas and was granted nothing else; what functions are open to all is as new."""
    name = "usage_alone"
    with cluster.at() as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN".encode())
        conn.execute(f"GRANT USAGE ON SCHEMA tenure_door TO {name}".encode())
        conn.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_door TO PUBLIC")
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            conn.execute(f"GRANT USAGE ON SCHEMA tenure TO {name}".encode())
            conn.execute("GRANT EXECUTE ON FUNCTION tenure.adopt, tenure.keep_order, tenure.keep_waiting TO PUBLIC")
    list(open_door(cluster.url))
    try:
        yield name
    finally:
        drop(cluster, name)


OPEN = """
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE p.pronamespace = ANY (ARRAY[to_regnamespace('tenure'), to_regnamespace('tenure_door')])
  AND has_function_privilege(p.oid, 'EXECUTE')
"""


def test_without_roles_a_login_that_only_sees_the_schema_runs_nothing(cluster: Cluster, stranger: str) -> None:
    with cluster.at() as conn:
        send(conn, "shut", "k", once="shut:1")
        known = conn.execute(KNOWN).fetchall()
    for place in (cluster.url, *cluster.nodes.values()):
        with psycopg.connect(make_conninfo(place, user=stranger), autocommit=True) as conn:
            assert conn.execute(OPEN.encode()).fetchall() == []
            with pytest.raises(InsufficientPrivilege):
                conn.execute("SELECT tenure_door.forget('infinity')")
    with cluster.at() as conn:
        assert conn.execute(KNOWN).fetchall() == known


def test_a_node_that_has_just_joined_is_shut_until_it_is_migrated(cluster: Cluster) -> None:
    """Citus makes functions there anew, open to everybody, whatever they are elsewhere."""
    key, calls = cluster.keys("2", 1, "joined")[0], ("take_key(%s, 'x')", "note_key(%s, NULL)", "forget('infinity')")
    every = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_door TO PUBLIC"
    with cluster.at("2") as conn:
        conn.execute("SET citus.enable_ddl_propagation TO off")
        conn.execute(every.encode())
        for call in calls:
            with pytest.raises(psycopg.Error, match="run `tenure migrate --citus` on the coordinator") as refused:
                conn.execute(f"SELECT FROM tenure_door.{call}".encode(), [key] if "%s" in call else [])
            assert refused.value.sqlstate == "TN002"
        list(open_door(cluster.url))
        assert send(conn, "joined", key, once=key)[1] == "enqueued"


def test_a_worker_of_the_role_works_sends_adopts_and_keeps_house(roled: Cluster) -> None:
    inbox, ran = Inbox(citus=True), []

    @inbox.handler("roled_work", key="{key}", ordered=True)
    def work(key: str, n: int) -> None:
        ran.append(n)

    adopt_all(roled.url, "tenure")
    key = "roled:moved"
    with connected(roled, "producer") as conn:
        work.enqueue(conn, key=key, n=0)
        move(roled, key, away_from(roled, key))
        work.enqueue(conn, key=key, n=1)
    places = {name: url(at, "worker") for name, at in roled.nodes.items()}
    hired = Hired(inbox, Terms(shards=places, citus=url(roled.url, "worker"), queues=inbox.queues, poll_seconds=0.25))
    try:
        eventually(lambda: ran == [0, 1])
    finally:
        assert hired.stop() == 0
    with postgres.connect(next(iter(places.values()))) as conn:
        assert postgres.run(conn, forget_keys()) == 0


@pytest.mark.parametrize("role", ROLES[1:])
def test_whoever_reads_counts_the_rows_of_all_inboxes(roled: Cluster, role: str) -> None:
    pending = "SELECT sum(n) FROM tenure_door.counts() WHERE status = 'pending'"
    with roled.at() as conn:
        send(conn, "counted", "k")
    for place in (None, *roled.nodes):
        with connected(roled, role, place) as conn:
            assert conn.execute(pending).fetchone() == (1,)


@pytest.mark.parametrize("role", ROLES)
def test_doctor_says_of_what_it_may_not_see_that_it_may_not_look(roled: Cluster, role: str) -> None:
    found = {each.check: each for each in examine_cluster(url(roled.url, role), "tenure")}
    assert not [each for each in found.values() if each.level == "fault"], found
    if role == "producer":
        assert found["rights"].said.startswith("this login may not look into the inbox on ")
    elif role != "worker":
        assert "rights" not in found
        assert found["inboxes"].level == found["ranges"].level == "ok"
