"""On Citus, a row that was committed and is hidden in a prepared transaction is not overtaken by a later one."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import SerializationFailure

import citus_cluster
from chaos import soak_torn
from citus_cluster import Cluster
from crew import eventually
from guarantees.test_citus_moves import ORDERED, enqueue, work
from patience import SECONDS_MAX
from tenure import postgres, verbs
from tenure.doctor.cluster import examine_cluster
from tenure.model.rows import NewRow
from tenure.postgres.citus_door import node_urls
from tenure.postgres.handoff import adopt_all

DECLARE = """
INSERT INTO tenure.kinds
  (kind, form, queue, keyed, ordered, hold, priority, max_attempts, encrypted, worker, started_at, seen_at)
VALUES ('declared', 'x', 'default', 'in_code', true, false, 0, 10, false, 'A', now(), now())
"""
CUT_OFF = "citus_99_1_1_0"  # no node has this number: no node ends it


@contextlib.contextmanager
def hidden(cluster: Cluster, key: str, gid: str = CUT_OFF, database: str | None = None) -> Iterator[None]:
    """A transaction that stays prepared on the node of the key while the block lasts."""
    url = cluster.nodes[cluster.home(key)]
    with psycopg.connect(make_conninfo(url, **({"dbname": database} if database else {})), autocommit=True) as conn:
        conn.execute("BEGIN")
        if database is None:
            conn.execute("SELECT tenure.enqueue('moved', %s, %s, ordered => true)", [json.dumps({"n": 0}), key])
        conn.execute(f"PREPARE TRANSACTION '{gid}'".encode())
        try:
            yield
        finally:
            conn.execute(f"COMMIT PREPARED '{gid}'".encode())


def old(cluster: Cluster, key: str) -> bool:
    """Everything that is prepared on the node of this key is over a second old."""
    with cluster.at(cluster.home(key)) as conn:
        found = conn.execute("SELECT max(prepared) < now() - interval '1.1 seconds' FROM pg_prepared_xacts").fetchone()
    return bool(found and found[0])


def refused(cluster: Cluster, key: str) -> bool:
    """An ordered row of the key is to be sent again, by whatever verb it is sent."""
    row = NewRow("moved", {"n": 1}, key=key, ordered=True)
    with cluster.at() as conn:
        for sending in (verbs.enqueue(row), verbs.enqueue_many([row])):
            with pytest.raises(SerializationFailure, match="are not settled yet, and may have earlier rows: send it"):
                postgres.run(conn, sending, "tenure_door")
        with pytest.raises(SerializationFailure):
            enqueue(conn, key, 1)
    return True


def test_an_ordered_row_is_refused_while_an_earlier_one_may_be_hidden(cluster: Cluster) -> None:
    key = cluster.keys("1", 1, "cut")[0]
    with hidden(cluster, key):
        assert eventually(lambda: old(cluster, key))
        assert refused(cluster, key)
    with cluster.at() as conn:
        enqueue(conn, key, 1)
    assert work(cluster, "1") == [0, 1]


def test_a_transaction_that_began_before_is_refused_too(cluster: Cluster) -> None:
    key = cluster.keys("1", 1, "cut")[0]
    with cluster.at("1") as conn:
        conn.execute("BEGIN")
        with hidden(cluster, key):
            assert eventually(lambda: old(cluster, key))
            with pytest.raises(SerializationFailure):
                enqueue(conn, key, 1)
        conn.execute("ROLLBACK")


def test_rows_without_an_order_and_of_other_nodes_are_taken_meanwhile(cluster: Cluster) -> None:
    key, other = cluster.keys("1", 1, "cut")[0], cluster.keys("2", 1, "cut")[0]
    rows = [NewRow("loose", {}, key=key), NewRow("loose", {})]
    with hidden(cluster, key), cluster.at() as conn:
        assert eventually(lambda: old(cluster, key))
        enqueue(conn, other, 1)
        postgres.run(conn, verbs.enqueue(rows[0]), "tenure_door")
        postgres.run(conn, verbs.enqueue_many(rows), "tenure_door")
        conn.execute("SELECT tenure_door.enqueue('loose', '{}', %s)", [key])
    assert work(cluster, "2") == [1]


def test_what_a_handler_has_declared_to_be_ordered_is_refused_too(cluster: Cluster) -> None:
    key = cluster.keys("1", 1, "cut")[0]
    with hidden(cluster, key), cluster.at("1") as there, cluster.at() as conn:
        assert eventually(lambda: old(cluster, key))
        there.execute(DECLARE)
        with pytest.raises(SerializationFailure):
            conn.execute("SELECT tenure_door.enqueue('declared', '{}', %s)", [key])
        there.execute("DELETE FROM tenure.kinds WHERE kind = 'declared'")


def test_a_transaction_that_was_prepared_a_moment_ago_refuses_nothing(cluster: Cluster) -> None:
    """Else two-phase commits would refuse each other."""
    key = cluster.keys("1", 1, "fresh")[0]

    def taken() -> bool:
        with hidden(cluster, key), cluster.at() as conn, contextlib.suppress(SerializationFailure):
            enqueue(conn, key, 1)
            return True
        return False

    assert eventually(taken)


def test_transactions_that_are_not_of_citus_or_of_another_database_refuse_nothing(cluster: Cluster) -> None:
    key = cluster.keys("1", 1, "theirs")[0]
    with (
        hidden(cluster, key, "theirs"),
        hidden(cluster, key, database="template1"),
        cluster.at() as conn,
    ):
        assert eventually(lambda: old(cluster, key))
        enqueue(conn, key, 1)


@pytest.mark.skipif(not citus_cluster.BIN, reason="servers that are killed must be our own (TENURE_CITUS_BIN)")
def test_a_row_that_was_acknowledged_before_a_crash_is_not_overtaken(tmp_path: Path) -> None:
    # What is given when a server starts, ALTER SYSTEM does not change: Citus would settle the row a second later.
    with soak_torn.cluster(tmp_path, {"citus.recover_2pc_interval": "-1"}) as (coordinator, node, _):
        cluster = Cluster(coordinator.url, node_urls(coordinator.url))
        adopt_all(cluster.url, "tenure")
        key = cluster.keys("1", 1, "crash")[0]
        with cluster.at() as conn, committing(conn, cluster, key) as sender:
            eventually(lambda: prepared(cluster))
            node.end("killed")
            node.start()
        sender.join(SECONDS_MAX)
        assert refused(cluster, key)
        (found,) = [each for each in examine_cluster(cluster.url, "tenure") if each.check == "prepared_left"]
        assert (found.level, found.value) == ("warn", {place(cluster, "1"): 1})
        with cluster.at() as conn:
            conn.execute("SELECT recover_prepared_transactions()")
            enqueue(conn, key, 1)
        assert work(cluster, "1") == [0, 1]


@contextlib.contextmanager
def committing(conn: psycopg.Connection[Any], cluster: Cluster, key: str) -> Iterator[threading.Thread]:
    """A sender whose commit the coordinator has decided, and waits with while the block lasts."""

    def send() -> None:
        with psycopg.connect(cluster.url) as mine:
            mine.execute(ORDERED, ["moved", '{"n": 0}', key])

    conn.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    conn.execute("SELECT pg_reload_conf()")
    eventually(lambda: conn.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
    sender = threading.Thread(target=send)
    sender.start()
    yield sender
    conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
    conn.execute("SELECT pg_reload_conf()")


def prepared(cluster: Cluster) -> bool:
    """The node has prepared what it was sent, and the coordinator waits with its commit."""
    with cluster.at("1") as there, cluster.at() as conn:
        waits = conn.execute("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()
        return waits is not None and there.execute("SELECT FROM pg_prepared_xacts").fetchone() is not None


def place(cluster: Cluster, inbox: str) -> str:
    """Where Citus says that a node is."""
    with cluster.at() as conn:
        found = conn.execute("SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid = %s", [inbox])
        return str((found.fetchone() or ("",))[0])
