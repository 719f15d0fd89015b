"""Nodes of a Citus cluster that are drained, come back, or are away: what the door takes, and what commands say."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import Result
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import LockNotAvailable

import citus_cluster
from chaos import soak_torn
from citus_cluster import Cluster
from crew import eventually
from faces.test_citus_shards import shards
from faces.test_worker_command import tenure
from guarantees.test_citus_moves import ORDERED, away_from, move, work
from patience import SECONDS_MAX
from tenure import postgres, verbs
from tenure.cli.database import Database
from tenure.cli.drain_ends import DrainStopped, told_what_stands
from tenure.doctor.cluster import examine_cluster
from tenure.errors import INTERRUPTED, TRY_LATER, UNREACHABLE, BadSettings
from tenure.model.rows import NewRow
from tenure.postgres.citus_door import Node, node_urls, nodes, open_door
from tenure.postgres.connection import connect
from tenure.postgres.handoff import adopt_all

MARK = """
SELECT citus_set_node_property(d.nodename, d.nodeport, 'shouldhaveshards', %s)
FROM pg_dist_node AS d WHERE d.groupid = ANY (%s)
"""


def mark(cluster: Cluster, has_ranges: bool, *inboxes: str) -> None:
    """Whether Citus places ranges on the nodes of these inboxes."""
    with cluster.at() as conn:
        conn.execute(MARK, [has_ranges, [*map(int, inboxes)]])


def marked(cluster: Cluster) -> list[str]:
    """The inboxes on whose nodes Citus places ranges."""
    with cluster.at() as conn:
        found = conn.execute("SELECT groupid FROM pg_dist_node WHERE shouldhaveshards ORDER BY groupid")
        return [str(group) for (group,) in found]


def rebalanced(cluster: Cluster) -> None:
    """Citus deals the ranges anew, once it has dropped what earlier moves have left."""

    def dealt() -> bool:
        try:
            with cluster.at() as conn:
                conn.execute("SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')")
        except psycopg.Error:
            return False
        return True

    assert eventually(dealt)


@pytest.fixture
def whole(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, and after the test all its nodes have ranges and inboxes again."""
    adopt_all(cluster.url, "tenure")
    try:
        yield cluster
    finally:
        mark(cluster, True, *cluster.nodes)
        list(open_door(cluster.url))
        rebalanced(cluster)
        adopt_all(cluster.url, "tenure")


def findings(cluster: Cluster) -> dict[str, Any]:
    """What doctor finds, by check."""
    return {each.check: each for each in examine_cluster(cluster.url, "tenure")}


def test_a_node_is_drained_when_its_rows_are_worked_off_and_takes_none_when_it_is_back(whole: Cluster) -> None:
    key = whole.keys("2", 1, "drained")[0]
    with whole.at() as conn:
        conn.execute(ORDERED, ["moved", '{"n": 0}', key])
    move(whole, key, away_from(whole, key))
    assert work(whole, "2") == [0]
    answer = shards(whole.url, "drain", "2")
    assert answer.exit_code == 0, answer.output
    assert "Citus moves the ranges of inbox 2 to other nodes" in answer.stderr
    assert "inbox 2 has no rows: SELECT citus_remove_node(" in answer.stdout
    assert list(node_urls(whole.url)) == ["1"]

    mark(whole, True, "2")
    rebalanced(whole)
    key = whole.keys("2", 1, "back")[0]
    row = NewRow("back", {}, key=key)
    with whole.at() as conn:
        for sending in (verbs.enqueue(row), verbs.enqueue_many([row])):
            with pytest.raises(
                psycopg.Error, match="has no inbox that workers know: run `tenure migrate --citus`"
            ) as no:
                postgres.run(conn, sending, "tenure_door")
            assert no.value.sqlstate == "TN002"
    assert whole.rows("back") == {"1": [], "2": []}
    ill = findings(whole)["inboxes"]
    assert ill.level == "fault"
    assert "its inbox is not known to workers: what goes there is refused" in ill.said

    list(open_door(whole.url))
    with whole.at() as conn:
        postgres.run(conn, verbs.enqueue(row), "tenure_door")
    assert whole.rows("back") == {"1": [], "2": [key]}
    assert findings(whole)["inboxes"].level == "ok"


def test_the_last_node_is_not_drained(whole: Cluster) -> None:
    mark(whole, False, "2")
    refused = shards(whole.url, "drain", "1")
    assert isinstance(refused.exception, BadSettings), refused.output
    assert "inbox 1 is on the last node that may have ranges: add another" in str(refused.exception)
    assert marked(whole) == ["1"], "nothing was changed"


def test_where_no_node_is_to_have_rows_the_step_is_named(whole: Cluster) -> None:
    mark(whole, False, "1", "2")
    with pytest.raises(BadSettings, match="citus_set_node_property"):
        list(examine_cluster(whole.url, "tenure"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 128 + signal.SIGTERM)], ids=["INT", "TERM"]
)
def test_a_drain_that_is_ended_says_what_stands(
    whole: Cluster, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    key = whole.keys("2", 1, "stays")[0]
    with whole.at() as conn:
        conn.execute(ORDERED, ["moved", '{"n": 0}', key])
    command = [sys.executable, "-m", "tenure", "shards", "drain", "2", "--database-url", whole.url]
    log = tmp_path / "log"
    with log.open("w") as err, subprocess.Popen(command, stderr=err, cwd=tmp_path) as drain:
        try:
            eventually(lambda: "rows to work off" in log.read_text())
            drain.send_signal(number)
            assert drain.wait(SECONDS_MAX) == code
        finally:
            drain.kill()
    assert "the node of inbox 2 gets no more ranges: run `tenure shards drain 2` again to go on, or" in log.read_text()
    assert "'shouldhaveshards', true)" in log.read_text()


def test_a_drain_that_gets_no_lock_is_to_be_tried_later(whole: Cluster) -> None:
    words = conninfo_to_dict(whole.nodes["2"])
    node = Node(2, str(words["host"]), int(str(words["port"])))
    with (
        connect(whole.url, application_name="drain") as conn,
        pytest.raises(DrainStopped, match=r"all ranges of inbox 2 .*; nothing was changed") as refused,
        told_what_stands(conn, node, Database(whole.url, "tenure", "", "")),
    ):
        raise LockNotAvailable
    assert refused.value.exit_code == TRY_LATER


@pytest.mark.skipif(not citus_cluster.BIN, reason="servers that are killed must be our own (TENURE_CITUS_BIN)")
def test_a_drain_whose_node_crashes_is_to_be_tried_later(tmp_path: Path) -> None:
    with soak_torn.cluster(tmp_path) as (coordinator, _, node):
        own = Cluster(coordinator.url, node_urls(coordinator.url))
        told: list[Result] = []
        drain = threading.Thread(target=lambda: told.append(shards(own.url, "drain", "2")))
        waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with own.at() as conn, own.at() as held:
            held.execute("BEGIN")
            for key in own.keys("2", 20, "held"):
                held.execute("SELECT tenure_door.hold_range(%s)", [key])
            drain.start()
            assert eventually(lambda: conn.execute(waits).fetchone() is not None)
            node.end("killed")
            held.execute("ROLLBACK")
            drain.join(SECONDS_MAX)
        (refused,) = told
        node.start()
    assert isinstance(refused.exception, DrainStopped), refused.output
    assert "run `tenure shards drain 2` again to go on" in str(refused.exception)


@contextmanager
def draining(cluster: Cluster, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A drain of inbox 2 in a process of its own, whose ranges have left already, and what it says."""
    with cluster.at() as conn:
        conn.execute("SELECT citus_drain_node(nodename, nodeport, 'block_writes') FROM pg_dist_node WHERE groupid = 2")
    command = [sys.executable, "-m", "tenure", "shards", "drain", "2", "--database-url", cluster.url]
    log = folder / "log"
    with log.open("w") as err, subprocess.Popen(command, stderr=err, stdout=err, cwd=folder) as drain:
        try:
            yield drain, log
        finally:
            drain.kill()


@pytest.mark.parametrize("n", [1, 3])
def test_a_drain_waits_for_a_row_that_is_sent_and_not_committed(whole: Cluster, tmp_path: Path, n: int) -> None:
    key = whole.keys("2", 1, "open")[0]
    row = NewRow("open", {}, key=key)
    with whole.at() as conn:
        conn.autocommit = False
        postgres.run(conn, verbs.enqueue(row) if n == 1 else verbs.enqueue_many([row] * n), "tenure_door")
        with draining(whole, tmp_path) as (drain, log):
            assert eventually(lambda: "a transaction that has sent it rows is open still" in log.read_text())
            conn.commit()
            assert eventually(lambda: f"{n} rows to work off" in log.read_text())
            with whole.at("2") as there:
                there.execute("TRUNCATE tenure.live CASCADE")
            assert eventually(lambda: drain.poll() == 0), log.read_text()


def test_who_sends_to_an_inbox_that_is_forgotten_meanwhile_is_refused(whole: Cluster) -> None:
    """Between the first check of a row and its lock: here the lock is kept from it, as a drain keeps it."""
    held = "SELECT pg_advisory_xact_lock(hashtextextended('tenure_door', 'tenure_door.inboxes'::regclass::oid::bigint))"
    key, said = whole.keys("2", 1, "late")[0], []

    def late() -> None:
        with whole.at() as conn, pytest.raises(psycopg.Error, match="has no inbox that workers know") as no:
            postgres.run(conn, verbs.enqueue(NewRow("late", {}, key=key)), "tenure_door")
        said.append(no.value.sqlstate)

    with whole.at("2") as there, whole.at() as conn:
        with there.transaction():
            there.execute(held.encode())
            sender = threading.Thread(target=late)
            sender.start()
            waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            assert eventually(lambda: there.execute(waits).fetchone() is not None)
            conn.execute("DELETE FROM tenure_door.inboxes WHERE group_id = 2")
        sender.join()
    assert said == ["TN002"]


def test_a_drain_waits_for_ordered_rows_whose_range_has_left_again(whole: Cluster, tmp_path: Path) -> None:
    key = whole.keys("1", 1, "passed")[0]
    with whole.at() as conn:
        conn.execute(ORDERED, ["moved", '{"n": 0}', key])
        move(whole, key, "2")
        conn.execute(ORDERED, ["moved", '{"n": 1}', key])
        move(whole, key, "1")
    with draining(whole, tmp_path) as (drain, log):
        assert eventually(lambda: "1 rows to work off, 0 ended badly" in log.read_text()), log.read_text()
        assert work(whole, "1") == [0]
        adopt_all(whole.url, "tenure")
        assert work(whole, "2") == [1]
        assert eventually(lambda: drain.poll() == 0), log.read_text()


def test_a_drain_says_nothing_stands_where_nothing_was_marked(whole: Cluster) -> None:
    """Ranges are still there, for Citus was not allowed to move them."""
    with whole.at() as conn:
        conn.execute("CREATE ROLE mover LOGIN")
        conn.execute("GRANT USAGE ON SCHEMA tenure_door TO mover")
        conn.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_door TO mover")
        conn.execute("GRANT SELECT ON tenure_door.inboxes, tenure_door.keys TO mover")
    try:
        refused = shards(make_conninfo(whole.url, user="mover"), "drain", "2")
    finally:
        with whole.at() as conn:
            conn.execute("DROP OWNED BY mover")
            conn.execute("DROP ROLE mover")
    assert isinstance(refused.exception, BadSettings), refused.output
    assert str(refused.exception).endswith("; nothing was changed")
    assert marked(whole) == ["1", "2"]


@contextmanager
def away(cluster: Cluster, inbox: str) -> Iterator[None]:
    """The coordinator does not reach this node."""
    change = "UPDATE pg_dist_node SET nodename = %s WHERE groupid = %s"
    with cluster.at() as conn:
        (host,) = conn.execute("SELECT nodename FROM pg_dist_node WHERE groupid = %s", [inbox]).fetchone() or ("",)
        conn.execute(change, ["/nowhere", inbox])
        try:
            yield
        finally:
            conn.execute(change, [host, inbox])


def test_doctor_examines_a_cluster_with_a_node_away(cluster: Cluster, tmp_path: Path) -> None:
    with away(cluster, "2"):
        answer = tenure(tmp_path, "doctor", "--citus", TENURE_DATABASE_URL=cluster.url)
    assert answer.returncode == 1, answer.stderr
    assert "/nowhere:5432 of 3 nodes does not answer the coordinator" in answer.stdout
    assert "Traceback" not in answer.stderr


def test_commands_name_the_inbox_that_does_not_answer(cluster: Cluster, tmp_path: Path) -> None:
    adopt_all(cluster.url, "tenure")
    with away(cluster, "2"):
        for command in (["shards", "drain", "2"], ["migrate", "--citus"], ["shards", "adopt", "--without", "1"]):
            answer = tenure(tmp_path, *command, TENURE_DATABASE_URL=cluster.url)
            assert answer.returncode == UNREACHABLE, answer.stderr
            assert answer.stderr.startswith("tenure: inbox 2: the database does not answer"), answer.stderr
    assert marked(cluster) == ["1", "2"], "nothing was changed"


def test_doctor_looks_for_rows_that_wait_on_a_cluster(cluster: Cluster) -> None:
    found = findings(cluster)["ranges"]
    assert (found.level, found.said) == ("ok", "no ordered row waits for the range of its key")


STANDBY = """
INSERT INTO pg_dist_node (nodeid, groupid, nodename, nodeport, hasmetadata, isactive, noderole)
SELECT 99, d.groupid, '/standby', 5432, true, true, 'secondary' FROM pg_dist_node AS d WHERE d.groupid = 2
"""


def test_workers_are_sent_to_no_standby_and_to_no_node_that_is_disabled(cluster: Cluster) -> None:
    with connect(cluster.url, application_name="nodes") as conn:
        known = nodes(conn)
        with conn.transaction(force_rollback=True):
            conn.execute(STANDBY.encode())
            assert nodes(conn) == known, "failover tools list standbys, too"
        with conn.transaction(force_rollback=True):
            conn.execute("UPDATE pg_dist_node SET isactive = false WHERE groupid = 2")
            assert [node.inbox for node in nodes(conn)] == ["1"]
