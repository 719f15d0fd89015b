"""Commands over several inboxes: all are asked at once and told as one; who is away is named."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import warm
from pairs import Pair, read_only
from servers import running
from tenure import postgres, verbs
from tenure.embedded import wait_for_end
from tenure.errors import BAD_SETTINGS, NO, TRY_LATER, UNREACHABLE, USAGE
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from world import World

pytestmark = pytest.mark.one_server

NOWHERE = "postgresql://tenure@127.0.0.1:1/tenure"


def tenure(
    pair: Pair, *arguments: str, a: str | None = None, b: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """A command where the settings name the inboxes `eu` and `us`; another address for one of them, if given."""
    shards = f"eu={a or pair.a.url},us={b or pair.b.url}"
    answer = warm.run(*arguments, env={**os.environ, "TENURE_SHARDS": shards, "COLUMNS": "200", **env})
    assert "Traceback (most recent" not in answer.stderr, answer.stderr
    return answer


def document(pair: Pair, *arguments: str, code: int = 0, b: str | None = None) -> dict[str, Any]:
    answer = tenure(pair, *arguments, "--json", b=b)
    assert answer.returncode == code, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    assert found["schema"] == 1
    return found


def cells(answer: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert answer.returncode == 0, answer.stderr
    return [line.split("\t") for line in answer.stdout.splitlines()]


def failed(world: World, kind: str = "mail") -> str:
    """The id of a row that ended badly."""
    id = world.enqueue(kind, {})
    (job,) = world.claim("w-1", 1)
    world.fail(job.lease, "no")
    return str(id)


# -- reading


def test_rows_of_all_inboxes_are_one_list_with_the_newest_first(pair: Pair) -> None:
    ids = [str(world.enqueue("mail", {})) for world in (pair.a, pair.b, pair.a, pair.b)][::-1]
    found = cells(tenure(pair, "rows"))
    assert [line[:2] for line in found] == [
        [id, inbox] for id, inbox in zip(ids, ["us", "eu", "us", "eu"], strict=True)
    ]
    page = document(pair, "rows", "-n", "3")
    assert [(row["id"], row["inbox"]) for row in page["rows"]] == [(ids[0], "us"), (ids[1], "eu"), (ids[2], "us")]
    assert (page["done"], page["next"]) == (False, ids[2])
    assert page["inboxes"] == {"eu": {"answers": True}, "us": {"answers": True}}
    rest = document(pair, "rows", "--before", page["next"])
    assert [row["id"] for row in rest["rows"]] == ids[3:]
    assert (rest["done"], rest["next"]) == (True, None)
    objects = [json.loads(line) for line in tenure(pair, "rows", "--jsonl").stdout.splitlines()]
    assert {(each["id"], each["inbox"]) for each in objects} == set(zip(ids, ["us", "eu", "us", "eu"], strict=True))


def test_one_inbox_is_chosen_by_its_name(pair: Pair) -> None:
    id = pair.b.enqueue("mail", {})
    pair.a.enqueue("mail", {})
    assert [line[0] for line in cells(tenure(pair, "rows", "--inbox", "us"))] == [str(id)]
    assert [line[0] for line in cells(tenure(pair, "queues", "--inbox", "us", "blocked"))] == []


def test_an_unknown_name_is_answered_with_the_known_ones(pair: Pair) -> None:
    answer = tenure(pair, "rows", "--inbox", "asia")
    assert answer.returncode == BAD_SETTINGS
    assert answer.stderr == "tenure: --inbox 'asia' is not known: there are eu, us\n"
    answer = tenure(pair, "rows", "--inbox", "eu", "--database-url", NOWHERE)
    assert "--database-url and --inbox: give one of them" in answer.stderr
    answer = warm.run("rows", "--inbox", "eu")
    assert "no inboxes are named; set TENURE_SHARDS" in answer.stderr


def test_a_row_is_found_in_whichever_inbox_it_is(pair: Pair) -> None:
    id = str(pair.b.enqueue("mail", {"n": 1}))
    assert tenure(pair, "why", id).stdout.startswith("us: ")
    assert tenure(pair, "row", id).stdout.startswith("inbox us\n")
    found = document(pair, "row", id)
    assert (found["inbox"], found["row"]["id"]) == ("us", id)
    nobody = tenure(pair, "row", "01a1e7ef-aaca-7459-81d3-c5c58a2cb213")
    assert nobody.returncode == NO
    assert nobody.stderr.count("\n") == 1


def test_every_reading_command_tells_of_which_inbox(pair: Pair) -> None:
    for world in pair:
        failed(world)
        world.enqueue("mail", {}, queue="images")
    for command, where in (("queues", "queues"), ("dead", "groups")):
        assert sorted({line[1] for line in cells(tenure(pair, command))}) == ["eu", "us"], command
        assert sorted({each["inbox"] for each in document(pair, command)[where]}) == ["eu", "us"], command
    top = document(pair, "top", "--once")
    assert (top["overview"]["runnable"]["n"], top["overview"]["dead"]["n"]) == (2, 2)
    for command in ("workers", "ring", "schedules", "outbox", "projections", "batches", "flows", "audit", "hooks"):
        answer = tenure(pair, command)
        assert (answer.stdout, answer.returncode) == ("", 0), command
        assert answer.stderr.count("\n") <= 1, f"{command}: what all say is said once"


# -- one of them is away


def test_while_one_is_away_the_others_answer_and_it_is_named(pair: Pair) -> None:
    id = str(pair.a.enqueue("mail", {}))
    answer = tenure(pair, "rows", b=NOWHERE)
    assert [line[:2] for line in cells(answer)] == [[id, "eu"]]
    assert answer.stderr.startswith("1 of 2 inboxes answer: us says: the database does not answer (")
    assert answer.stderr.count("\n") == 1
    found = document(pair, "rows", b=NOWHERE)
    assert found["inboxes"]["eu"] == {"answers": True}
    assert found["inboxes"]["us"]["answers"] is False
    assert "does not answer" in found["inboxes"]["us"]["error"]


def test_a_row_that_is_not_found_may_be_where_nobody_answers(pair: Pair) -> None:
    answer = tenure(pair, "why", "01a1e7ef-aaca-7459-81d3-c5c58a2cb213", b=NOWHERE)
    assert answer.returncode == TRY_LATER
    assert "1 of 2 inboxes answer" in answer.stderr


def test_if_none_answers_the_first_is_named(pair: Pair) -> None:
    answer = warm.run("rows", env={**os.environ, "TENURE_SHARDS": f"eu={NOWHERE},us={NOWHERE}2"})
    assert answer.returncode == UNREACHABLE
    assert answer.stderr.startswith("tenure: inbox eu: the database does not answer")


def test_a_mistake_is_told_once(pair: Pair) -> None:
    answer = tenure(pair, "rows", "colour:red")
    assert answer.returncode == USAGE
    assert answer.stderr.count("\n") == 1


def test_a_schema_that_is_missing_in_one_is_named_with_its_command(pair: Pair) -> None:
    pair.b.sql("CREATE TABLE IF NOT EXISTS public.nothing ()")
    answer = tenure(pair, "rows", "--schema", "not_there")
    assert (
        "inbox eu: schema 'not_there' is missing: run `tenure migrate --schema not_there --inbox eu`" in answer.stderr
    )


def test_a_server_that_is_stopped_is_missed_and_is_there_again_when_it_is_back(pair: Pair, tmp_path: Path) -> None:
    first = str(pair.a.enqueue("mail", {}))
    with running("embedded", tmp_path) as url:
        with postgres.connect(url) as conn:
            migrate.apply(conn, "tenure")
            second = str(postgres.run(conn, verbs.enqueue(NewRow("mail"))).id)
        assert [line[:2] for line in cells(tenure(pair, "rows", b=url))] == [[second, "us"], [first, "eu"]]
    wait_for_end(tmp_path / "embedded")
    away = tenure(pair, "rows", b=url)
    assert [line[:2] for line in cells(away)] == [[first, "eu"]]
    assert away.stderr.startswith("1 of 2 inboxes answer: us says: ")
    queues = document(pair, "queues", b=url)
    assert [(each["inbox"], each["pending"]) for each in queues["queues"]] == [("eu", 1)]
    assert queues["inboxes"]["us"]["answers"] is False
    assert tenure(pair, "why", second, b=url).returncode == TRY_LATER
    with running("embedded", tmp_path) as url:
        assert [line[:2] for line in cells(tenure(pair, "rows", b=url))] == [[second, "us"], [first, "eu"]]


# -- acts


def test_an_act_by_filter_counts_all_inboxes_and_has_one_name_in_every_audit(pair: Pair) -> None:
    ids = [failed(pair.a), failed(pair.b), failed(pair.b)]
    dry = tenure(pair, "redrive", "kind:mail", "--dry-run")
    assert "redrive  3 rows" in dry.stdout
    assert "(eu 1, us 2)" in dry.stdout
    done = document(pair, "redrive", "kind:mail", "--yes", "--reason", "fixed")
    assert [(each["inbox"], each["changed"]) for each in done["inboxes"]] == [("eu", 1), ("us", 2)]
    lines = document(pair, "audit")["audit"]
    assert {(line["inbox"], line["via"], line["rows"]) for line in lines} == {
        ("eu", f"cli:{done['act']}", 1),
        ("us", f"cli:{done['act']}", 2),
    }
    assert len(ids) == sum(world.sql("SELECT count(*) FROM live")[0][0] for world in pair)


def test_what_an_act_by_filter_did_is_summed_and_a_silent_inbox_is_named(pair: Pair) -> None:
    for world, kind in ((pair.a, "mail"), (pair.b, "mail"), (pair.b, "mail"), (pair.a, "letter"), (pair.b, "letter")):
        failed(world, kind)
    failed(pair.a, "parcel")
    told = tenure(pair, "redrive", "kind:mail", "--yes").stdout.splitlines()
    assert told[-1].startswith("in all  3 rows changed in 2 inboxes · cli:")
    assert {line["via"] for line in document(pair, "audit")["audit"]} == {told[-1].split(" · ")[1].split()[0]}
    done = document(pair, "redrive", "kind:letter", "--yes")
    assert (done["matched"], done["changed"], done["skipped"]) == (2, 2, 0)
    away = document(pair, "redrive", "kind:parcel", "--yes", b=NOWHERE, code=TRY_LATER)
    assert (away["matched"], away["changed"]) == (1, 1)
    assert [each["inbox"] for each in away["inboxes"] if "error" in each] == ["us"]


def test_an_act_by_id_finds_the_inbox_of_the_row(pair: Pair) -> None:
    id = failed(pair.b)
    answer = tenure(pair, "redrive", id, "--yes")
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[1].startswith("us: done  1 row changed")
    assert pair.a.sql("SELECT count(*) FROM audit") == [(0,)]


def test_a_queue_is_paused_in_every_inbox(pair: Pair) -> None:
    pair.a.enqueue("mail", {}, queue="mail")
    pair.b.enqueue("mail", {}, queue="mail")
    answer = tenure(pair, "queues", "pause", "mail")
    assert (answer.stdout, answer.returncode) == ("eu: mail is paused\nus: mail is paused\n", 0)
    one = tenure(pair, "queues", "resume", "mail", "--inbox", "us")
    assert (one.stdout, one.returncode) == ("mail goes on\n", 0)
    assert [(q["inbox"], q["paused"]) for q in document(pair, "queues")["queues"]] == [("eu", True), ("us", False)]


def test_an_act_is_done_where_somebody_answers_and_75_says_that_it_is_not_all(pair: Pair) -> None:
    pair.a.enqueue("mail", {}, queue="mail")
    answer = tenure(pair, "queues", "pause", "mail", b=NOWHERE)
    assert answer.returncode == TRY_LATER
    assert answer.stdout == "eu: mail is paused\n"
    assert "1 of 2 inboxes answer: us says:" in answer.stderr
    failed(pair.a)
    assert tenure(pair, "redrive", "--all", "--yes", b=NOWHERE).returncode == TRY_LATER


def test_what_makes_something_needs_the_name_of_an_inbox(pair: Pair) -> None:
    answer = tenure(pair, "enqueue", "mail", "{}")
    assert answer.returncode == USAGE
    assert "enqueue works in one inbox: give --inbox, one of eu, us" in answer.stderr
    assert tenure(pair, "enqueue", "mail", "{}", "--inbox", "us").returncode == 0
    assert [line[1] for line in cells(tenure(pair, "rows"))] == ["us"]


def test_doctor_looks_at_each_and_a_fault_of_one_is_a_no(pair: Pair) -> None:
    found = document(pair, "doctor", code=NO, b=NOWHERE)
    assert not found["ok"]
    (fault,) = (each for each in found["findings"] if each["level"] == "fault")
    assert (fault["inbox"], fault["check"]) == ("us", "database")


def test_doctor_finds_an_inbox_that_is_read_only(pair: Pair) -> None:
    found = document(pair, "doctor", code=NO, b=read_only(pair.b.url))
    (fault,) = (each for each in found["findings"] if each["level"] == "fault")
    assert (fault["inbox"], fault["check"]) == ("us", "primary")
    assert "sessions here are read-only" in fault["said"]


def test_what_an_inbox_that_is_away_may_have_is_not_said_to_be_gone(pair: Pair) -> None:
    row = "01a1e7ef-aaca-7459-81d3-c5c58a2cb213"
    for words in (("schedules", "pause", "s0"), ("row", row), ("hooks", "pause", row)):
        answer = tenure(pair, *words, b=NOWHERE)
        assert (answer.returncode, answer.stdout) == (TRY_LATER, ""), words
        first, second = answer.stderr.splitlines()
        assert first.startswith("tenure: as far as eu knows: "), words
        assert second.startswith("1 of 2 inboxes answer: us says: ")
        assert not tenure(pair, *words).stderr.startswith("tenure: as far"), "all answer"


def test_doctor_counts_the_connections_of_all_inboxes_on_one_server(pair: Pair) -> None:
    (one,) = (line for line in tenure(pair, "doctor", b=NOWHERE).stdout.splitlines() if " connections " in line)
    assert one.endswith("one more worker of these settings takes up to 24")
    both = [line for line in tenure(pair, "doctor").stdout.splitlines() if " connections " in line]
    assert [line.split("takes up to ")[1].split("  →")[0] for line in both] == ["48, for 2 inboxes here"] * 2


def test_the_tail_of_all_inboxes_says_of_which_each_event_is(pair: Pair) -> None:
    answer = tenure(pair, "tail", "--seconds", "0.2", b=NOWHERE)
    assert answer.returncode == 0
    assert "us says: the database does not answer" in answer.stderr
    assert "0 workers are alive" in answer.stderr


def test_the_nodes_of_a_cluster_are_not_looked_for_in_a_list_of_databases(pair: Pair, tmp_path: Path) -> None:
    env = {"TENURE_HOME": str(tmp_path), "TENURE_DATABASE_URL": "", "DATABASE_URL": ""}
    for words in ((), ("drain", "2"), ("adopt", "--without", "2")):
        answer = tenure(pair, "shards", *words, **env)
        assert answer.returncode == BAD_SETTINGS
        told = " ".join(answer.stderr.split())
        assert "shards are the nodes of a Citus cluster: give its coordinator as --database-url" in told
        assert "`tenure queues` looks into the inboxes of TENURE_SHARDS" in told
    assert list(tmp_path.iterdir()) == [], "no server was started"
