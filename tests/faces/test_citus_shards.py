"""`tenure shards` and what doctor says of ranges that move: on two plain servers, and on Citus where it is at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import conninfo_to_dict

from citus_cluster import Cluster
from guarantees.test_citus_moves import ORDERED, away_from, move, work
from placements import Placements, placed
from tenure.cli.shards import command
from tenure.doctor.cluster import NodeFacts, examine_cluster, ranges
from tenure.errors import BAD_SETTINGS, TRY_LATER, BadSettings
from tenure.postgres import migrate
from tenure.postgres.citus_door import node_urls, open_door
from tenure.postgres.handoff import adopt_all

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placements]:
    """Two inboxes with a door of the tests' own, and a row that waits in the second."""
    with placed(tmp_path_factory.mktemp("placed")) as found:
        found.let_a_row_wait("k")
        yield found


def shards(url: str, *words: str) -> Result:
    """The command, run here."""
    given = ["--database-url", url]
    return CliRunner().invoke(command, [*words, *given] if words else given)


def test_the_inboxes_are_listed_with_their_ranges_and_what_waits(two: Placements) -> None:
    answer = shards(two.urls[1])
    assert answer.exit_code == 0, answer.output
    first, second = answer.stdout.splitlines()
    assert (first.split()[3:7], second.split()[3:7]) == (["3", "0", "1", "0"], ["0", "1", "1", "0"])
    assert (
        "inbox 2: rows wait, because the range of its key has moved here, and inbox 1 has rows of it" in answer.stderr
    )
    (one, other) = json.loads(shards(two.urls[1], "--json").stdout)["shards"]
    assert (one["home"], other["waiting"], other["answers"]) == (3, 1, True)


def test_an_inbox_that_is_away_is_a_line_and_an_exit_code(two: Placements) -> None:
    two.know(1, away=2)
    try:
        answer = shards(two.urls[1])
    finally:
        two.know(1)
    assert answer.exit_code == TRY_LATER
    assert answer.stdout.splitlines()[1].split()[2:] == [*"-------", "no"]


def test_what_is_no_inbox_is_not_drained(two: Placements) -> None:
    refused = shards(two.urls[1], "drain", "7")
    assert isinstance(refused.exception, BadSettings)
    assert (refused.exception.exit_code, str(refused.exception)) == (
        BAD_SETTINGS,
        "inbox 7 is not known: there are 1, 2",
    )


def test_an_inbox_that_is_lost_is_given_up_by_name_and_for_the_record(two: Placements) -> None:
    answer = shards(two.urls[1], "adopt", "--without", "1", "--reason", "disk lost")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "1 ranges are at home, 1 rows are due\n"
    asked = "SELECT verb, target, reason FROM tenure.audit"
    assert two.conns[2].execute(asked).fetchall() == [("adopt", "without inbox 1", "disk lost")]
    assert two.work(2) == [("k", 1)]


def facts(seconds: float, reason: str = "inbox 1 does not answer", rows: int = 3) -> NodeFacts:
    """A node on which rows have waited for so long."""
    waiting = {"rows": rows, "ranges": 1, "seconds": seconds, "reason": reason}
    return NodeFacts(2, "n2:5432", True, True, {"left": 0}, migrate.newest(), datetime.now(UTC), waiting)


def test_doctor_warns_of_rows_that_wait_long_and_says_for_whom() -> None:
    assert ranges([facts(0, rows=0)]).level == "ok"
    assert ranges([facts(5)]).level == "ok", "a handoff takes ten seconds"
    long = ranges([facts(60)])
    assert long.level == "warn"
    assert long.said == "3 ordered rows wait on n2:5432, 60 s so far: inbox 1 does not answer"
    assert ranges([facts(5)._replace(waiting=None)]).level == "fault", "that node has no handoff yet"


def test_a_node_of_a_cluster_is_drained_and_its_rows_are_worked_off_first(cluster: Cluster) -> None:
    adopt_all(cluster.url, "tenure")
    key = cluster.keys("2", 1, "drained")[0]
    try:
        with cluster.at() as conn:
            conn.execute(ORDERED, ["moved", '{"n": 0}', key])
        move(cluster, key, away_from(cluster, key))
        assert work(cluster, "2") == [0]
        answer = shards(cluster.url, "drain", "2")
        assert answer.exit_code == 0, answer.output
        assert "inbox 2 has no rows: SELECT citus_remove_node(" in answer.stdout
        assert list(node_urls(cluster.url)) == ["1"]
    finally:
        with cluster.at() as conn:
            words = conninfo_to_dict(cluster.nodes["2"])
            again = "SELECT citus_set_node_property(%s, %s, 'shouldhaveshards', true)"
            conn.execute(again, [words["host"], int(str(words["port"]))])
            list(open_door(cluster.url))
            conn.execute("SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')")
        adopt_all(cluster.url, "tenure")


def test_doctor_looks_for_rows_that_wait_on_a_cluster(cluster: Cluster) -> None:
    found = {each.check: each for each in examine_cluster(cluster.url, "tenure")}
    assert (found["ranges"].level, found["ranges"].said) == ("ok", "no ordered row waits for the range of its key")
