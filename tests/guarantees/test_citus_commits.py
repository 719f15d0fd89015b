"""On Citus, what a transaction writes where it runs and what it sends elsewhere is committed together or not at all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import SerializationFailure

import citus_cluster
from chaos import soak_torn
from citus_cluster import Cluster
from guarantees.test_citus_door import changed
from slices import slice_of
from tenure import postgres, verbs
from tenure.model.rows import NewRow

ENQUEUE = "SELECT tenure_door.enqueue('kept', '{}', %s)"
NO_RANGES = (
    "CREATE OR REPLACE FUNCTION tenure_door.ranges_here() RETURNS TABLE (range bigint, placed bigint)"
    " LANGUAGE sql AS 'SELECT 0::bigint, 0::bigint WHERE false'"
)
GUTTED = "CREATE OR REPLACE FUNCTION tenure_door.commit_together() RETURNS void LANGUAGE sql AS ''"


@pytest.fixture(params=["coordinator", "node", "node without ranges"])
def place(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str | None]:
    """Where a transaction runs that writes to a plain table there; for a node, its inbox."""
    where = None if request.param == "coordinator" else next(iter(cluster.nodes))
    with contextlib.ExitStack() as stack:
        if request.param == "node without ranges":
            stack.enter_context(changed(cluster, NO_RANGES))
        with cluster.at(where) as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            conn.execute("CREATE TABLE skewed (n int)")
        yield where
        with cluster.at(where) as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            conn.execute("DROP TABLE skewed")


def elsewhere(cluster: Cluster, place: str | None) -> str:
    """A key whose home is another node."""
    return cluster.keys(next(inbox for inbox in cluster.nodes if inbox != place), 1, "elsewhere")[0]


def skewed(cluster: Cluster, place: str | None, key: str) -> list[Any]:
    """Two transactions: Postgres refuses the second at its commit, when Citus has asked the other node already."""
    with cluster.at(place) as one, cluster.at(place) as two:
        for conn in (one, two):
            conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            conn.execute("SELECT count(*) FROM skewed")
            conn.execute(ENQUEUE, [key])
        for conn in (one, two):
            conn.execute("INSERT INTO skewed VALUES (1)")
        one.execute("COMMIT")
        with pytest.raises(SerializationFailure):
            two.execute("COMMIT")
    return cluster.rows("kept")[cluster.home(key)]


def test_a_commit_that_fails_here_leaves_no_row_elsewhere(cluster: Cluster, place: str | None) -> None:
    key = elsewhere(cluster, place)
    assert skewed(cluster, place, key) == [key]


def test_without_the_guard_the_row_of_a_refused_transaction_stays(cluster: Cluster, place: str | None) -> None:
    key = elsewhere(cluster, place)
    with changed(cluster, GUTTED):
        assert skewed(cluster, place, key) == [key, key]


@contextlib.contextmanager
def phases(conn: psycopg.Connection[Any]) -> Iterator[list[str]]:
    """What Citus asks of other nodes at the end of the transactions in the block."""
    asked: list[str] = []

    def told(notice: psycopg.errors.Diagnostic) -> None:
        said = re.match("issuing (PREPARE|COMMIT)", notice.message_primary or "")
        asked.extend(said.groups() if said else [])

    conn.add_notice_handler(told)
    conn.execute("SET citus.log_remote_commands TO on")
    yield asked
    conn.execute("SET citus.log_remote_commands TO off")
    conn.remove_notice_handler(told)


def row(key: str, name: str | None = None) -> NewRow:
    return NewRow("kept", {}, key=key, idempotency_key=name)


def test_a_row_that_is_sent_alone_takes_one_phase(cluster: Cluster) -> None:
    key = elsewhere(cluster, None)
    for where in (None, next(inbox for inbox in cluster.nodes if inbox != cluster.home(key))):
        with cluster.at(where) as conn, phases(conn) as asked:
            postgres.run(conn, verbs.enqueue(row(key)), "tenure_door")
            postgres.run(conn, verbs.enqueue(row(key, key)), "tenure_door")  # its idempotency key is on the same node
        assert "PREPARE" not in asked, where


def test_rows_of_this_node_and_of_another_take_two_phases(cluster: Cluster) -> None:
    here, there = cluster.nodes
    mine, theirs = cluster.keys(here, 1, "mine")[0], cluster.keys(there, 1, "theirs")[0]
    with cluster.at(here) as conn:
        for keys in ([mine, theirs], [theirs, mine]):
            with phases(conn) as asked:
                with conn.transaction():
                    for key in keys:
                        conn.execute(ENQUEUE, [key])
                postgres.run(conn, verbs.enqueue_many([row(key) for key in keys]), "tenure_door")
            assert asked == ["PREPARE", "COMMIT"] * 2, keys


def test_an_idempotency_key_elsewhere_is_not_taken_without_its_row_here(cluster: Cluster) -> None:
    here, there = cluster.nodes
    mine = cluster.keys(here, 1, "mine")[0]
    name = cluster.keys(there, 1, "name")[0]
    with cluster.at(here) as conn, phases(conn) as asked:
        postgres.run(conn, verbs.enqueue(row(mine, name)), "tenure_door")
    assert asked == ["PREPARE", "COMMIT"]
    with cluster.at() as conn, phases(conn) as asked:
        postgres.run(conn, verbs.enqueue(row(mine, cluster.keys(there, 2, "name")[1])), "tenure_door")
    assert asked == ["PREPARE", "PREPARE", "COMMIT", "COMMIT"], "both are elsewhere, and not on one node"


def test_a_drained_node_goes_on_though_the_coordinator_has_an_inbox(cluster: Cluster) -> None:
    here, there = cluster.nodes
    key = cluster.keys(there, 1, "drained")[0]
    none = "CREATE OR REPLACE FUNCTION tenure_door.ranges_here() RETURNS TABLE (range bigint, placed bigint)"
    with (
        changed(cluster, f"{none} LANGUAGE sql AS 'SELECT 0::bigint, 0::bigint WHERE false'"),
        cluster.at(here) as conn,
    ):
        conn.execute("INSERT INTO tenure_door.inboxes VALUES (0)")
        with phases(conn) as asked:
            conn.execute(ENQUEUE, [key])
        with phases(conn) as for_one_there:  # if the row is the coordinator's, a write there is no second place
            conn.execute("SELECT tenure_door.commit_together()")
        conn.execute("DELETE FROM tenure_door.inboxes WHERE group_id = 0")
    assert asked == for_one_there == ["PREPARE", "PREPARE", "COMMIT", "COMMIT"]


def test_sql_that_may_write_more_takes_two_phases(cluster: Cluster) -> None:
    key = elsewhere(cluster, None)
    with cluster.at() as conn:
        with phases(conn) as asked:
            conn.execute(ENQUEUE, [key])
            with conn.pipeline():  # one transaction, though nobody has begun one
                postgres.run(conn, verbs.enqueue(row(key)), "tenure_door")
        assert asked == ["PREPARE", "COMMIT"] * 2


def test_each_transaction_is_asked_for_anew(cluster: Cluster) -> None:
    key = elsewhere(cluster, None)
    with cluster.at() as conn, phases(conn) as asked:
        for _ in range(2):
            with conn.transaction():
                conn.execute(ENQUEUE, [key])
                conn.execute(ENQUEUE, [key])
    assert asked == ["PREPARE", "COMMIT"] * 2


@pytest.mark.skipif(not citus_cluster.BIN, reason="servers that are killed must be our own (TENURE_CITUS_BIN)")
def test_transactions_over_two_nodes_survive_kills(tmp_path: Path) -> None:
    with soak_torn.cluster(tmp_path) as servers:
        tally = soak_torn.soak(servers, slice_of(60.0, 12.0), seed=3)
    assert tally.held, str(tally)
    assert tally.kills >= 2, str(tally)
