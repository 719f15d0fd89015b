"""Nodes of a Citus cluster that are drained, come back, or are away: what the door takes, and what commands say."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from citus_cluster import Cluster
from crew import eventually
from faces.test_citus_shards import shards
from faces.test_worker_command import tenure
from guarantees.test_citus_moves import ORDERED, away_from, move, work
from tenure import postgres, verbs
from tenure.doctor.cluster import examine_cluster
from tenure.errors import INTERRUPTED, UNREACHABLE, BadSettings
from tenure.model.rows import NewRow
from tenure.postgres.citus_door import node_urls, open_door
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


def test_a_drain_that_is_interrupted_says_what_stands(whole: Cluster, tmp_path: Path) -> None:
    key = whole.keys("2", 1, "stays")[0]
    with whole.at() as conn:
        conn.execute(ORDERED, ["moved", '{"n": 0}', key])
    command = [sys.executable, "-m", "tenure", "shards", "drain", "2", "--database-url", whole.url]
    log = tmp_path / "log"
    with log.open("w") as err, subprocess.Popen(command, stderr=err, cwd=tmp_path) as drain:
        eventually(lambda: "rows to work off" in log.read_text())
        drain.send_signal(signal.SIGINT)
        assert drain.wait() == INTERRUPTED
    assert "the node of inbox 2 gets no more ranges: run `tenure shards drain 2` again to go on, or" in log.read_text()
    assert "'shouldhaveshards', true)" in log.read_text()


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
