"""`tenure shards` and what doctor says of ranges that move: on two plain servers, with a door of the tests' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

from placements import Placements, placed
from tenure.cli.shards import command
from tenure.doctor.cluster import NodeFacts, ranges
from tenure.errors import BAD_SETTINGS, BadSettings
from tenure.model.handoff import SILENT
from tenure.postgres import migrate

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


def test_an_inbox_that_is_away_is_a_line_and_is_named(two: Placements) -> None:
    two.know(1, away=2)
    try:
        answer = shards(two.urls[1])
    finally:
        two.know(1)
    assert answer.exit_code == 0, "as of every command that looks"
    assert answer.stdout.splitlines()[1].split()[2:] == [*"-------", "no"]
    assert "1 of 2 inboxes answer: inbox 2 does not" in answer.stderr


def test_what_is_no_inbox_is_not_given_up(two: Placements) -> None:
    refused = shards(two.urls[1], "adopt", "--without", "9")
    assert isinstance(refused.exception, BadSettings), refused.output
    assert str(refused.exception) == "inbox 9 is not known: there are 1, 2"
    assert audited(two) == []


def test_an_inbox_that_answers_is_not_given_up(two: Placements) -> None:
    refused = shards(two.urls[1], "adopt", "--without", "1")
    assert isinstance(refused.exception, BadSettings), refused.output
    assert "inbox 1 answers, and has rows that others wait for, as of key k: let its workers" in str(refused.exception)
    assert not hasattr(refused.exception, "__notes__"), "it is not of the inbox that asked"
    assert two.work(2) == [], "the row before it is in the first inbox"
    assert audited(two) == []


def audited(two: Placements) -> list[tuple[str, ...]]:
    """What the audit of the second inbox has."""
    return two.conns[2].execute("SELECT verb, target, reason FROM tenure.audit").fetchall()


def test_what_is_no_inbox_is_not_drained(two: Placements) -> None:
    refused = shards(two.urls[1], "drain", "7")
    assert isinstance(refused.exception, BadSettings)
    assert (refused.exception.exit_code, str(refused.exception)) == (
        BAD_SETTINGS,
        "inbox 7 is not known: there are 1, 2",
    )


def test_an_inbox_that_is_lost_is_given_up_by_name_and_for_the_record(two: Placements) -> None:
    two.know(2, away=1)
    try:
        answer = shards(two.urls[1], "adopt", "--without", "1", "--reason", "disk lost")
    finally:
        two.know(2)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "1 ranges are at home, 1 rows are due\n"
    assert audited(two) == [("adopt", "without inbox 1", "disk lost")]
    assert two.work(2) == [("k", 1)]


def facts(seconds: float, reason: str = "inbox 1 has rows of it", rows: int = 3) -> NodeFacts:
    """A node on which rows have waited for so long."""
    waiting = {"rows": rows, "ranges": 1, "seconds": seconds, "reason": reason}
    return NodeFacts(2, "n2:5432", True, True, {"left": 0}, migrate.newest(), datetime.now(UTC), waiting)


def test_doctor_warns_of_rows_that_wait_long_and_says_for_whom() -> None:
    assert ranges([facts(0, rows=0)]).level == "ok"
    assert ranges([facts(5)]).level == "ok", "a handoff takes ten seconds"
    long = ranges([facts(60)])
    assert long.level == "warn"
    assert long.said == "3 ordered rows wait on n2:5432, 60 s so far: inbox 1 has rows of it"
    assert "adopt" not in str(long.next), "that inbox is well"
    assert "adopt --without" in str(ranges([facts(60, f"inbox 1 does {SILENT}")]).next)
    assert ranges([facts(5)._replace(waiting=None)]).level == "fault", "that node has no handoff yet"
