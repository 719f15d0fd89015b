"""Acts over several inboxes, where not all goes well: what was done is told for each, and so is what was not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

import warm
from crew import eventually
from faces.terminal import Terminal
from faces.test_inboxes import NOWHERE, document, failed, tenure
from pairs import Pair, read_only
from patience import SECONDS_MAX
from tenure import postgres
from tenure.errors import BAD_SETTINGS, BUG, INTERRUPTED, NO, TRY_LATER, USAGE
from world import World

pytestmark = pytest.mark.one_server


def shards(pair: Pair) -> str:
    return f"eu={pair.a.url},us={pair.b.url}"


@contextlib.contextmanager
def locked(world: World, table: str) -> Iterator[None]:
    """Nobody reads or writes this table while the block lasts."""
    with postgres.connect(world.url) as conn, conn.transaction():
        conn.execute(f"LOCK TABLE tenure.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def interrupted(world: World, pair: Pair, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that gets a Ctrl-C while it waits for a lock in this inbox."""
    env = {**os.environ, "TENURE_SHARDS": shards(pair)}
    command = [*warm.COLD, *arguments]
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        eventually(lambda: world.sql(waits) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


# -- one inbox, or all


def test_an_empty_name_is_no_inbox(pair: Pair) -> None:
    for command in (("rows", "--inbox", ""), ("queues", "--inbox", "", "blocked")):
        answer = tenure(pair, *command)
        assert answer.returncode == BAD_SETTINGS
        assert answer.stderr == "tenure: --inbox '' is not known: there are eu, us\n"


def test_a_file_of_an_audit_is_read_once(pair: Pair, tmp_path: Path) -> None:
    pair.a.enqueue("mail", {}, queue="mail")
    for n in range(6):
        assert tenure(pair, "queues", ("pause", "resume")[n % 2], "mail", "--inbox", "eu").returncode == 0
    file = tmp_path / "audit.jsonl"
    file.write_text(tenure(pair, "audit", "export", "--inbox", "eu").stdout)
    answer = tenure(pair, "audit", "verify", str(file))
    assert (answer.returncode, answer.stdout[:3]) == (0, "ok "), answer.stdout
    assert "eu" not in answer.stdout
    tip = answer.stdout.split()[-1]
    assert tenure(pair, "audit", "verify", str(file), "--tip", tip).returncode == 0
    assert tenure(pair, "audit", "verify", "--tip", tip, "--inbox", "eu").returncode == 0
    told = tenure(pair, "audit", "verify", "--tip", tip)
    assert (told.returncode, "--tip is of one inbox: give --inbox, one of eu, us" in told.stderr) == (USAGE, True)
    told = tenure(pair, "audit", "--before", "3")
    assert (told.returncode, "--before is of one inbox: give --inbox, one of eu, us" in told.stderr) == (USAGE, True)


def test_an_endpoint_is_changed_in_the_inbox_that_has_it(pair: Pair) -> None:
    added = tenure(pair, "hooks", "add", "acme", "https://acme.example/hook", "--kind", "*", "--inbox", "us", "--json")
    id = json.loads(added.stdout)["endpoint"]
    for words in (("pause",), ("resume",), ("test",), ("set", "--kind", "a.*"), ("rotate",)):
        answer = tenure(pair, "hooks", words[0], id, *words[1:])
        assert (answer.returncode, answer.stderr) == (0, ""), answer
        assert answer.stdout.startswith("us: "), words
    for verb in ("pause", "rotate"):
        nobody = tenure(pair, "hooks", verb, str(UUID(int=9)))
        assert (nobody.returncode, nobody.stdout) == (NO, "")
        assert nobody.stderr.startswith("tenure: there is no endpoint"), "said once, for all of them"
        assert nobody.stderr.count("\n") == 1
    assert tenure(pair, "hooks", "pause", str(UUID(int=9)), b=NOWHERE).returncode == TRY_LATER


# -- questions


@pytest.mark.parametrize("no", [True, False])
def test_a_question_is_asked_once_and_a_no_or_an_interrupt_holds_everywhere(pair: Pair, no: bool) -> None:
    pair.a.enqueue("mail", {}, queue="mail")
    assert tenure(pair, "queues", "pause", "mail").returncode == 0
    before = [world.sql("SELECT count(*) FROM audit") for world in pair]
    with Terminal([*warm.COLD, "audit", "forget", "--older-than", "1d"], TENURE_SHARDS=shards(pair)) as terminal:
        terminal.until("[y/N]")
        if no:
            terminal.press("n\n")
        code = terminal.end() if no else terminal.interrupt_question()
    assert terminal.seen.count("[y/N]") == 1
    assert code == (NO if no else INTERRUPTED), terminal.seen
    assert [world.sql("SELECT count(*) FROM audit") for world in pair] == before


def test_rows_that_come_after_the_count_do_not_stop_who_said_yes_beforehand(pair: Pair) -> None:
    for world in pair:
        failed(world)
    env = {**os.environ, "TENURE_SHARDS": shards(pair)}
    command = [*warm.COLD, "redrive", "--all", "--yes"]
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with locked(pair.a, "audit"):  # all are counted, and eu waits
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        eventually(lambda: bool(pair.a.sql(waits)))
        failed(pair.b)
    stdout, stderr = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, stderr) == (0, "")
    assert "us: done  2 rows changed" in stdout


# -- not all goes well


def test_what_was_done_is_told_before_a_bug_and_the_bug_has_its_inbox(pair: Pair) -> None:
    for world in pair:
        world.enqueue("mail", {}, queue="mail")
        failed(world)
    pair.b.sql("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'broken'; END$$")
    pair.b.sql("CREATE TRIGGER refuse BEFORE INSERT ON audit EXECUTE FUNCTION public.refuse()")
    try:
        env = {**os.environ, "TENURE_SHARDS": shards(pair)}
        paused = warm.run("queues", "pause", "mail", env=env)
        redriven = warm.run("redrive", "--all", "--yes", "--json", env=env)
    finally:
        pair.b.sql("DROP FUNCTION public.refuse() CASCADE")
    assert (paused.returncode, paused.stdout) == (BUG, "eu: mail is paused\n")
    assert "tenure: inbox us: the database refused this (broken, SQLSTATE P0001)" in paused.stderr
    assert redriven.returncode == BUG
    eu, us = json.loads(redriven.stdout)["inboxes"]
    assert (eu["inbox"], eu["changed"]) == ("eu", 1)
    assert (us["inbox"], "broken" in us["error"]) == ("us", True)


def test_after_an_interrupt_it_is_told_for_each_what_was_done(pair: Pair) -> None:
    for world in pair:
        failed(world)
    with locked(pair.b, "audit"):
        answer = interrupted(pair.b, pair, "redrive", "--all", "--yes")
    assert answer.returncode == INTERRUPTED, answer
    assert "eu: done  1 row changed" in answer.stdout
    assert answer.stderr == "us: interrupted: 0 of 1 row were redriven\n"
    failed(pair.a)
    with locked(pair.a, "audit"):
        answer = interrupted(pair.a, pair, "redrive", "--all", "--yes")
    assert answer.returncode == INTERRUPTED
    assert answer.stderr == "eu: interrupted: 0 of 1 row were redriven\nnot begun in us\n"


def test_after_an_interrupt_of_another_act_too(pair: Pair) -> None:
    for world in pair:
        world.enqueue("mail", {}, queue="mail")
    with locked(pair.b, "audit"):
        answer = interrupted(pair.b, pair, "queues", "pause", "mail")
    assert (answer.returncode, answer.stdout) == (INTERRUPTED, "eu: mail is paused\n"), answer
    assert answer.stderr == "us: interrupted: `tenure audit --inbox us` says whether it was done\n"
    with locked(pair.a, "audit"):
        answer = interrupted(pair.a, pair, "queues", "pause", "mail")
    assert (answer.returncode, answer.stdout) == (INTERRUPTED, "")
    assert answer.stderr.endswith("not begun in us\n")


def test_an_erasure_tells_what_it_leaves_and_asks_nobody_for_nothing(pair: Pair) -> None:
    none = tenure(pair, "erase", "kind:nothing")
    assert none.returncode == 0, none.stderr
    failed(pair.a)
    pair.b.enqueue("mail", {})
    pair.b.claim("w-1", 1)
    answer = tenure(pair, "erase", "kind:mail", "--yes")
    assert answer.returncode == NO
    assert "eu: done  1 row changed" in answer.stdout
    assert "us: 1 row is processing and left as it is: `tenure cancel ID`" in answer.stderr
    found = document(pair, "erase", "kind:mail", "--yes", code=NO)
    assert [(each["inbox"], each["processing"]) for each in found["inboxes"]] == [("us", 1)]


def test_a_check_of_the_schemas_is_a_no_while_one_is_away(pair: Pair) -> None:
    answer = tenure(pair, "migrate", "--check", b=NOWHERE)
    assert answer.returncode == NO
    assert answer.stderr.startswith("1 of 2 inboxes answer: us says: ")
    assert tenure(pair, "migrate", b=NOWHERE).returncode == TRY_LATER


def test_who_had_nothing_to_do_answers_too(pair: Pair) -> None:
    failed(pair.a)
    env = {**os.environ, "TENURE_SHARDS": f"{shards(pair)},asia={NOWHERE}"}
    answer = warm.run("redrive", "--all", "--yes", env=env)
    assert answer.returncode == TRY_LATER
    assert answer.stderr.startswith("2 of 3 inboxes answer: asia says: ")


def test_an_inbox_that_refuses_is_not_said_to_be_silent_and_its_rows_are_counted(pair: Pair) -> None:
    for world in pair:
        failed(world)
    answer = tenure(pair, "redrive", "--all", "--yes", b=read_only(pair.b.url))
    assert answer.returncode == TRY_LATER
    assert "(eu 1, us 1)" in answer.stdout
    assert answer.stderr.startswith("us refuses this: cannot execute ")
    assert "inboxes answer" not in answer.stderr
    failed(pair.a)
    told = tenure(pair, "redrive", "--all", "--yes", "--json", b=read_only(pair.b.url))
    found = json.loads(told.stdout)
    assert (told.returncode, found["matched"], found["changed"]) == (TRY_LATER, 2, 1)
    assert [(each["inbox"], each["matched"]) for each in found["inboxes"]] == [("eu", 1), ("us", 1)]


# -- lists


def test_json_lines_are_as_many_as_were_asked_for_with_the_newest_first(pair: Pair) -> None:
    ids = [str(world.enqueue("mail", {})) for world in (pair.a, pair.b, pair.a, pair.b)][::-1]
    answer = tenure(pair, "rows", "-n", "3", "--jsonl")
    assert [json.loads(line)["id"] for line in answer.stdout.splitlines()] == ids[:3]
    assert [json.loads(line)["id"] for line in tenure(pair, "rows", "--jsonl", "--all").stdout.splitlines()] == ids


def test_only_rows_are_continued_in_all_inboxes(pair: Pair) -> None:
    for world in pair:
        world.enqueue("mail", {}, queue="mail")
        tenure(pair, "queues", "pause", "mail")
    for command, hinted in (("rows", True), ("audit", False)):
        with Terminal([*warm.COLD, command, "-n", "1"], TENURE_SHARDS=shards(pair)) as terminal:
            assert terminal.end() == 0
        assert ("there may be more: --before" in terminal.seen) == hinted, terminal.seen
