"""`tenure redrive|retry|release|cancel|delete`, `audit`, bulk `enqueue`: what they ask, say, change and note."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

import warm
from faces.test_fleet_commands import command, tenure
from patience import SECONDS_MAX
from tenure import operate, verbs
from tenure.cli import enqueue, queues, schedules, workers
from tenure.cli import operators as cli_operators
from tenure.cli.filter import filter_of
from tenure.cli.operators import acting
from tenure.errors import INTERRUPTED, NO, USAGE, TenureError
from tenure.model.filter import BadFilter, Filter, parse
from tenure.model.rows import NewRow
from tenure.operator_verbs import ON_ROWS
from tenure.verbs import fleet, operators, questions
from tenure.verbs.queues import queues as queues_now
from tenure.verbs.schedules import Schedule, plan
from world import World

pytestmark = pytest.mark.one_server
ME = cli_operators.me().name  # also of somebody without an entry in the password file
HOUR = 3600.0
RETRIES = "retry takes rows that are scheduled"
REDRIVES = "redrive takes rows that are failed or dead_letter"
FACES = {name: acting(verb) for name, verb in ON_ROWS.items()}


def call(world: World, face: Any, *arguments: str, stdin: str | None = None) -> Result:
    """A command in this process, without a terminal; what it raises is raised."""
    where = ["--database-url", world.url, "--schema", world.schema]
    result = CliRunner().invoke(face, [*arguments, *where], input=stdin, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def fail(world: World, n: int = 3, kind: str = "a", error: str = "boom") -> list[UUID]:
    ids = [each.id for each in world.run(verbs.enqueue_many([NewRow(kind) for _ in range(n)]))]
    for job in world.claim("A", n):
        world.fail(job.lease, error)
    return ids


class Terminal:
    """A command on a terminal of its own: what it shows, and what is typed into it."""

    def __init__(self, world: World, *arguments: str) -> None:
        self.master, child = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            command(world, *arguments), stdin=child, stdout=child, stderr=child, close_fds=True
        )
        os.close(child)

    def until(self, words: str, seconds: float = SECONDS_MAX) -> str:
        """What it has shown, once these words are among it."""
        self._read(lambda: words in self.shown, seconds)
        assert words in self.shown, self.shown
        return self.shown

    def type(self, words: str) -> None:
        """Type a line."""
        os.write(self.master, f"{words}\n".encode())

    def end(self) -> int:
        """All it had to show, and its exit code."""
        self._read(lambda: False, SECONDS_MAX)
        code = self.process.wait(90)
        os.close(self.master)
        return code

    def _read(self, enough: Callable[[], bool], seconds: float) -> None:
        by = time.monotonic() + seconds
        while not enough() and time.monotonic() < by:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    got = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    return
                if not got:
                    return
                self.shown += got.decode(errors="replace")


# -- what is said, and what is asked


def test_the_count_and_the_canonical_filter_are_said_first(world: World) -> None:
    fail(world)
    first, second = tenure(world, "redrive", "error:boom", "kind:a", "--yes").stdout.splitlines()
    assert first == "redrive  3 rows  status:failed,dead_letter kind:a error:boom"
    assert second == "done  3 rows changed · line 1 of the audit"
    assert world.count("live") == 3


def test_without_a_terminal_and_without_yes_nothing_is_done(world: World) -> None:
    fail(world)
    answer = tenure(world, "redrive", "kind:a")
    assert answer.returncode == USAGE
    assert answer.stdout == "redrive  3 rows  status:failed,dead_letter kind:a\n"
    assert answer.stderr == "tenure: redrive would change 3 rows: give --yes to do it, nobody is here to ask\n"
    assert (world.count("dead"), world.count("audit")) == (3, 0)


@pytest.mark.parametrize("verb", FACES)
def test_a_dry_run_counts_and_changes_nothing(world: World, verb: str) -> None:
    fail(world, 1)
    world.enqueue("a")
    world.claim_one("A")
    world.enqueue("a", delay_seconds=HOUR)
    before = world.sql("SELECT id, status, available_at, cancel_asked FROM inbox ORDER BY id")
    said = call(world, FACES[verb], "kind:a", "--dry-run").output.splitlines()
    assert said[0].startswith(f"{verb}  {2 if verb in ('cancel', 'delete', 'erase') else 1} row")
    assert said[1] == "nothing was changed: this was a dry run"
    assert world.sql("SELECT id, status, available_at, cancel_asked FROM inbox ORDER BY id") == before
    assert world.count("audit") == 0


def test_nothing_to_do_is_said_and_is_no_fault(world: World) -> None:
    answer = tenure(world, "delete", "kind:a")
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[1] == (
        "no row matches: nothing to do "
        "(delete takes rows that are pending or completed or failed or dead_letter or cancelled)"
    )


@pytest.mark.parametrize(
    ("verb", "status", "says"),
    [
        ("retry", "dead_letter", f"({RETRIES}; {REDRIVES})"),
        ("redrive", "scheduled", f"({REDRIVES}; {RETRIES})"),
        ("redrive", "completed", f"({REDRIVES})"),
    ],
)  # fmt: skip
def test_a_verb_that_cannot_take_these_rows_names_the_one_that_can(
    world: World, verb: str, status: str, says: str
) -> None:
    answer = tenure(world, verb, f"status:{status}")
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[1] == f"no row matches: nothing to do {says}"


@pytest.mark.parametrize("verb", FACES)
def test_an_empty_filter_is_refused_unless_all_is_asked_for(world: World, verb: str) -> None:
    with pytest.raises(Exception, match=f"{verb} which rows"):
        call(world, FACES[verb], "--yes")
    with pytest.raises(Exception, match="contradict each other"):
        call(world, FACES[verb], "kind:a", "--all", "--yes")
    assert "0 rows" in call(world, FACES[verb], "--all", "--yes").output


def test_all_means_every_row_that_the_verb_takes(world: World) -> None:
    fail(world, 2, "a")
    fail(world, 2, "b")
    world.enqueue("c")
    said = call(world, FACES["delete"], "--all", "--yes").output
    assert said.startswith("delete  5 rows  status:pending,completed,failed,dead_letter,cancelled\n")
    assert (world.count("live"), world.count("dead")) == (0, 0)


def test_a_filter_may_be_one_text_or_words_or_both(world: World) -> None:
    ids = fail(world, 2, "a", "time out") + fail(world, 1, "b", "time out")
    fail(world, 1, "a", "other")
    for arguments in (["--filter", 'error:"time out"'], ["error:time out"], ['error:"time out"']):
        assert "redrive  3 rows" in call(world, FACES["redrive"], *arguments, "--dry-run").output
    assert (
        "redrive  2 rows" in call(world, FACES["redrive"], "error:time out", "--filter", "kind:a", "--dry-run").output
    )
    assert "redrive  1 row " in call(world, FACES["redrive"], str(ids[0]), "--dry-run").output
    assert filter_of(["kind:a status:failed"]) == parse("kind:a status:failed")
    assert str(filter_of(['error:say "x" \\ now'])) == r'error:"say \"x\" \\ now"'


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("kind:a foo:bar", "there is no field 'foo'"),
        ("kind:a age:<2x", "age:<2x must be an age"),
        ("kind:a age<2h", "'age<2h' must be FIELD:VALUE"),
        ("error:timeout age:", "'age:' has no value"),
        ("error:timeout status=failed", "'status=failed' must be FIELD:VALUE"),
        ("payload.note:a b kind:c", "'b' must be FIELD:VALUE"),
        ('error:"time out" failed', "'failed' must be FIELD:VALUE"),
        ("my kind:a", "'my' must be FIELD:VALUE"),
    ],
)
def test_a_wrong_word_in_a_quoted_filter_is_refused_like_one_alone(word: str, says: str) -> None:
    with pytest.raises(BadFilter, match=re.escape(says)) as refused:
        filter_of([word])
    assert "quotes inside those of the shell" in str(refused.value)
    with pytest.raises(BadFilter, match=re.escape(says)):
        parse(word)


@pytest.mark.parametrize(
    "text", ["time out", "no such row: 17", "OSError: [Errno 111] refused", "cannot reach https://x", "at 127.0.0.1:80"]
)
def test_a_text_with_blanks_whose_quotes_the_shell_has_removed_is_one_value(text: str) -> None:
    for name, found in (("error", Filter(error=text)), ("payload.note", Filter(payload=(("note", text),)))):
        assert filter_of([f"{name}:{text}"]) == found


def test_a_filter_that_means_nothing_is_one_sentence(world: World) -> None:
    answer = tenure(world, "redrive", "kimd:a", "--yes")
    assert (answer.returncode, answer.stdout) == (USAGE, "")
    assert answer.stderr == "tenure: there is no field 'kimd', did you mean 'kind'?\n"


def test_the_answer_as_json_is_one_document_on_stdout(world: World) -> None:
    fail(world)
    dry = tenure(world, "redrive", "kind:a", "--json", "--dry-run")
    assert json.loads(dry.stdout) == {
        "schema": 1, "verb": "redrive", "filter": "status:failed,dead_letter kind:a", "matched": 3, "dry_run": True,
    }  # fmt: skip
    done = tenure(world, "redrive", "kind:a", "--json", "--yes", "--reason", "the mail server is back")
    assert done.stderr == "redrive  3 rows  status:failed,dead_letter kind:a\n"
    assert json.loads(done.stdout) == {
        "schema": 1, "verb": "redrive", "filter": "status:failed,dead_letter kind:a", "matched": 3, "dry_run": False,
        "action": 1, "changed": 3, "skipped": 0,
    }  # fmt: skip


def test_rows_that_were_skipped_are_said(world: World) -> None:
    ids = [world.enqueue("a") for _ in range(2)]
    blocker = world.connect()
    with blocker.transaction():
        blocker.execute("SELECT FROM live WHERE id = %s FOR UPDATE", [ids[0]])
        said = call(world, FACES["delete"], "kind:a", "--yes").output
    assert "done  1 row changed, 1 skipped (locked, changed meanwhile, or flows that have begun)" in said


# -- at a terminal


def test_at_a_terminal_the_person_is_asked(world: World) -> None:
    fail(world)
    for answer, changed in (("n", 0), ("y", 3)):
        screen = Terminal(world, "redrive", "kind:a")
        assert "redrive  3 rows  status:failed,dead_letter kind:a" in screen.until("redrive 3 rows? [y/N]:")
        screen.type(answer)
        assert screen.end() == (0 if changed else NO)
        assert ("nothing was changed" in screen.shown) == (not changed)
        assert world.count("live") == changed


def test_above_a_thousand_rows_the_number_is_typed_and_a_bar_shows_how_far_it_is(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("a") for _ in range(1201)]))
    for typed, code, left in (("y", NO, 1201), ("1200", NO, 1201), ("1,201", 0, 0)):
        screen = Terminal(world, "delete", "kind:a")
        assert "delete  1,201 rows" in screen.until("Type the number of rows")
        screen.type(typed)
        assert screen.end() == code
        assert world.count("live") == left
        assert ("100%" in screen.shown) == (code == 0)
    assert "1,201 rows changed" in screen.shown


def test_what_grew_while_the_question_stood_is_refused(world: World) -> None:
    fail(world)
    screen = Terminal(world, "redrive", "kind:a")
    screen.until("[y/N]:")
    fail(world, 1)
    screen.type("y")
    assert screen.end() == NO
    assert "redrive would now change 4 rows, not 3: check them" in screen.shown
    assert (world.count("dead"), world.count("audit")) == (4, 0)


# -- every mutation is in the audit, with its actor


def test_every_verb_of_rows_is_noted_with_the_person_at_the_terminal(world: World) -> None:
    fail(world, 1)
    call(world, FACES["redrive"], "kind:a", "--yes", "--reason", "again")
    world.claim_one("A")
    call(world, FACES["release"], "kind:a", "--yes")
    world.retry(world.claim_one("A").lease)
    call(world, FACES["retry"], "kind:a", "--yes")
    call(world, FACES["cancel"], "kind:a", "--yes")
    call(world, FACES["delete"], "kind:a", "--yes")
    lines = world.run(operate.audit())[::-1]
    assert [line.verb for line in lines] == ["redrive", "release", "retry", "cancel", "delete"]
    assert {line.rows for line in lines} == {1}
    assert {(line.actor, line.via) for line in lines} == {(ME, "cli")}
    assert lines[0].reason == "again"


def test_switches_of_queues_schedules_and_workers_are_noted(world: World) -> None:
    world.run(plan(Schedule("nightly", "0 0 * * *", "tidy")))
    world.run(fleet.register("w-1"))
    for face, *arguments in (
        (queues.command, "pause", "mail"),
        (queues.command, "resume", "mail"),
        (queues.command, "limit", "mail", "--max-running", "3", "--rate", "2.5"),
        (schedules.command, "run", "nightly"),
        (schedules.command, "pause", "nightly"),
        (schedules.command, "resume", "nightly"),
        (schedules.command, "remove", "nightly", "--yes"),
        (workers.command, "drain", "w-1"),
    ):
        assert call(world, face, *arguments).exit_code == 0
    lines = world.run(operate.audit())[::-1]
    assert [(line.verb, line.target, line.rows) for line in lines] == [
        ("pause", "mail", 1), ("resume", "mail", 1), ("limit", "mail max_running=3 rate_per_second=2.5", 1),
        ("fire", "nightly", 1),
        ("pause_schedule", "nightly", 1), ("resume_schedule", "nightly", 1), ("unplan", "nightly", 1),
        ("drain_worker", "w-1", 1),
    ]  # fmt: skip
    assert {(line.actor, line.via) for line in lines} == {(ME, "cli")}
    assert world.run(queues_now())[0].max_running == 3
    assert world.run(questions.workers())[0].status == "draining"


def test_a_key_on_hold_is_freed_from_the_command_line(world: World) -> None:
    world.enqueue(key="order:1", ordered=True, hold=True)
    world.dead_letter(world.claim_ordered()[0].lease)
    following = world.enqueue(key="order:1", ordered=True)
    assert tenure(world, "queues", "free", "default", "order:1").stdout == "order:1 goes on\n"
    assert [job.id for job in world.claim_ordered()] == [following]
    again = tenure(world, "queues", "free", "default", "order:1")
    assert (again.returncode, again.stderr) == (
        NO, "tenure: key 'order:1' of queue 'default' does not wait for an operator: nothing to free\n",
    )  # fmt: skip


def test_a_worker_that_is_not_there_cannot_be_drained(world: World) -> None:
    answer = tenure(world, "workers", "drain", "nobody")
    assert answer.returncode == NO
    assert answer.stderr == "tenure: no worker 'nobody' is alive and working: `tenure workers` lists who is\n"


# -- audit


def test_the_audit_is_listed_for_people_and_for_programs(world: World) -> None:
    answer = tenure(world, "audit")
    assert (answer.stdout, answer.stderr) == ("", "no operator has done anything\n")
    fail(world)
    tenure(world, "redrive", "kind:a", "--yes", "--reason", "the mail server is back")
    tenure(world, "queues", "pause", "mail")
    pause, redriven = (line.split("\t") for line in tenure(world, "audit").stdout.splitlines())
    ((user,),) = world.sql("SELECT current_user")
    assert pause[2:7] == [ME, user, "cli", "pause_queue", "1"], "the word of the dashboard and of the docs"
    assert redriven[5:7] == ["redrive", "3"]
    assert re.fullmatch(r"\d+\.\ds", redriven[7])
    assert redriven[8:] == ["status:failed,dead_letter kind:a", "the mail server is back"]
    document = json.loads(tenure(world, "audit", "--json", "-n", "1").stdout)
    assert document["schema"] == 1
    (line,) = document["audit"]
    assert (line["id"], line["verb"], line["target"], line["actor"], line["rows"]) == (2, "pause", "mail", ME, 1)
    assert line["done_at"].endswith("Z")
    assert [line["id"] for line in json.loads(tenure(world, "audit", "--json", "--before", "2").stdout)["audit"]] == [1]


def test_the_audit_tells_a_switch_that_turned_from_one_that_was_not_there(world: World) -> None:
    world.run(plan(Schedule("nightly", "0 0 * * *", "tidy")))
    for name in ("nightly", "nobody"):
        call(world, schedules.command, "pause", name)
    lines = [line.split("\t") for line in tenure(world, "audit").stdout.splitlines()]
    assert [(line[5], line[6], line[8]) for line in lines] == [
        ("pause_schedule", "0", "nobody"), ("pause_schedule", "1", "nightly"),
    ]  # fmt: skip


def test_an_audit_that_goes_no_further_back_does_not_say_that_nobody_did_anything(world: World) -> None:
    tenure(world, "queues", "pause", "mail")
    answer = tenure(world, "audit", "--before", "1")
    assert (answer.stdout, answer.stderr) == ("", "nothing before line 1\n")


def test_an_action_that_was_broken_off_shows_as_not_done(world: World) -> None:
    world.run(operators.begin_audit("ann@host", "cli", "delete", "kind:a"))
    assert tenure(world, "audit").stdout.splitlines()[0].split("\t")[5:8] == ["delete", "0", "no"]


def test_a_line_of_the_audit_cannot_be_forged(world: World) -> None:
    forged = "x\n9\t2026-01-01T00:00:00Z\x1b[2K"
    fail(world, 1)
    tenure(world, "redrive", "kind:a", "--yes", "--reason", forged)
    tenure(world, "queues", "pause", forged)
    for face in ("audit", "queues"):
        said = tenure(world, face).stdout
        assert "\x1b" not in said
        assert all(line.count("\t") == said.splitlines()[0].count("\t") for line in said.splitlines())
        assert r"x\n9\t2026" in said


def test_ctrl_c_in_the_middle_says_how_far_it_came(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def bar(verb: str, matched: int) -> Iterator[Callable[[int], None]]:
        def interrupt(_rows: int) -> None:
            raise KeyboardInterrupt

        yield interrupt

    world.run(verbs.enqueue_many([NewRow("a") for _ in range(operate.BATCH + 7)]))
    monkeypatch.setattr(cli_operators, "_bar", bar)
    answer = call(world, FACES["delete"], "kind:a", "--yes")
    assert answer.return_value == INTERRUPTED
    assert "interrupted: 500 of 507 rows were deleted · line 1 of the audit\n" in answer.stderr
    assert world.count("live") == 7


def test_what_changes_one_thing_has_a_reason_and_a_document(world: World) -> None:
    world.run(plan(Schedule("tidy", "@hourly", "tidy_up")))
    world.run(fleet.register("w", {"queues": ["mail"]}))
    why = ("--json", "--reason", "because")
    answers: dict[tuple[str, ...], dict[str, Any]] = {
        ("queues", "pause", "mail"): {"queue": "mail", "paused": True, "changed": True},
        ("queues", "resume", "mail"): {"queue": "mail", "paused": False, "changed": True},
        ("queues", "limit", "mail", "--max-running", "3"): {"queue": "mail", "max_running": 3},
        ("schedules", "pause", "tidy"): {"schedule": "tidy", "done": "paused"},
        ("schedules", "remove", "tidy", "--yes"): {"schedule": "tidy", "done": "removed"},
        ("workers", "drain", "w"): {"worker": "w", "draining": True},
    }
    for arguments, facts in answers.items():
        found = json.loads(tenure(world, *arguments, *why).stdout)
        assert found["schema"] == 1
        assert facts.items() <= found.items()
    assert {line.reason for line in world.run(operate.audit())} == {"because"}


def test_a_queue_that_nobody_knows_is_paused_and_doubted(world: World) -> None:
    world.enqueue(queue="mail")
    assert tenure(world, "queues", "pause", "mail").stderr == ""
    answer = tenure(world, "queues", "pause", "mial")
    assert (answer.returncode, answer.stdout) == (0, "mial is paused\n")
    doubt = "tenure: no row, worker or setting names the queue 'mial' yet"
    assert answer.stderr == f"{doubt}; it is paused all the same, for rows that may come. Did you mean 'mail'?\n"
    assert tenure(world, "queues", "limit", "nope", "--max-running", "1").stderr.endswith(
        "'nope' yet; it is limited all the same, for rows that may come. `tenure queues` lists the known ones.\n"
    )


def test_a_queue_without_rows_and_settings_is_not_listed(world: World) -> None:
    world.enqueue(queue="mail")
    tenure(world, "queues", "limit", "mial", "--max-running", "1")
    tenure(world, "queues", "limit", "mail", "--max-running", "1")
    assert "mial" in tenure(world, "queues").stdout
    cleared = tenure(world, "queues", "limit", "mial", "--clear", "--json")
    assert json.loads(cleared.stdout)["max_running"] is None
    assert json.loads(cleared.stdout)["queue"] == "mial"
    tenure(world, "queues", "limit", "mail", "--clear")
    assert [each["queue"] for each in json.loads(tenure(world, "queues", "--json").stdout)["queues"]] == ["mail"]
    assert "mial" not in tenure(world, "top", "--once").stdout
    assert "Did you mean 'mail'?" in tenure(world, "queues", "pause", "mial").stderr


def test_an_ordered_row_with_a_priority_is_enqueued_with_a_word(world: World) -> None:
    row = ("enqueue", "k", "--queue", "default", "--key", "k", "--priority", "50")
    word = "tenure: --priority does not apply to ordered rows: each key runs in order, and keys take turns\n"
    assert tenure(world, *row).stderr == ""
    answer = tenure(world, *row, "--ordered")
    assert (answer.returncode, answer.stdout.split()[0], answer.stderr) == (0, "enqueued", word)
    assert tenure(world, "enqueue", "k", "--queue", "default", "--key", "k", "--ordered").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max-running", "0"], "--max-running 0 must be a whole number from 1"),
        (["--rate", "nan"], "--rate nan must be"),
        (["--burst", "3"], "--burst 3 needs --rate"),
        ([], "no limit is given: name one, or --clear to remove all"),
    ],
)
def test_a_limit_that_cannot_be_is_a_usage_error(world: World, arguments: list[str], says: str) -> None:
    answer = tenure(world, "queues", "limit", "mail", *arguments)
    assert answer.returncode == USAGE
    assert says in answer.stderr


def test_keys_that_stand_still_are_listed(world: World) -> None:
    assert tenure(world, "queues", "blocked").stderr == "no key is blocked\n"
    head, _ = (world.enqueue(key="k", ordered=True, hold=True) for _ in range(2))
    (job,) = world.claim_ordered()
    world.fail(job.lease)
    cells = tenure(world, "queues", "blocked").stdout.rstrip("\n").split("\t")
    assert cells == ["default", "k", "1", "waits_for_operator", str(head), "failed"]
    (found,) = json.loads(tenure(world, "queues", "blocked", "--json").stdout)["keys"]
    assert (found["key"], found["head"], found["waiting"]) == ("k", str(head), 1)


def test_a_number_is_sent_as_it_was_typed(world: World, tmp_path: Path) -> None:
    payload = '{"y": 0.12345678901234567890123}'
    assert set(json.loads(tenure(world, "enqueue", "a", payload, "--json").stdout)) == {"schema", "id", "outcome"}
    tenure(world, "enqueue", "a", "--from", lines(tmp_path, payload))
    assert world.sql("SELECT payload::text FROM live") == [(payload,)] * 2


def test_somebody_without_a_name_acts_under_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert cli_operators.me().name == f"uid {os.getuid()}@{platform.node()}"


# -- bulk enqueue


def lines(tmp_path: Path, *payloads: str) -> str:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f"{payload}\n" for payload in payloads))
    return str(file)


def test_a_row_is_enqueued_for_every_line_of_a_file(world: World, tmp_path: Path) -> None:
    file = lines(tmp_path, *(f'{{"n": {n}}}' for n in range(1203)), "", '{"n": "ü"}')
    said = tenure(world, "enqueue", "a", "--from", file, "--queue", "mail", "--priority", "3", "--key", "order:1")
    assert (said.stdout, said.stderr) == ("enqueued 1,204\n", "")
    assert world.sql("SELECT DISTINCT kind, queue, priority, partition_key FROM live") == [("a", "mail", 3, "order:1")]
    assert world.sql("SELECT count(DISTINCT payload) FROM live") == [(1204,)]


def test_rows_are_read_from_stdin(world: World) -> None:
    where = ["--database-url", world.url, "--schema", world.schema]
    said = warm.run("enqueue", "a", "--from", "-", "--json", *where, input='{"n": 1}\n{"n": 2}')
    assert json.loads(said.stdout) == {"schema": 1, "enqueued": 2, "duplicate": 0, "conflict": 0}
    assert world.count("live") == 2
    assert call(world, enqueue.command, "a", "--from", "-", stdin="").output == "no rows: the file is empty\n"


def test_a_file_that_is_sent_again_under_its_key_enqueues_only_what_is_missing(world: World, tmp_path: Path) -> None:
    file = lines(tmp_path, "1", "2")
    assert call(world, enqueue.command, "a", "--from", file, "--idempotency-key", "f").stdout == "enqueued 2\n"
    file = lines(tmp_path, "1", "2", "3")
    said = call(world, enqueue.command, "a", "--from", file, "--idempotency-key", "f")
    assert said.stdout == "enqueued 1 · duplicate 2\n"
    file = lines(tmp_path, "1", "other")
    lines(tmp_path, "1", '"other"', "3")
    conflict = tenure(world, "enqueue", "a", "--from", file, "--idempotency-key", "f")
    assert (conflict.returncode, conflict.stdout) == (NO, "duplicate 2 · conflict 1\n")
    assert "another payload" in conflict.stderr
    assert world.count("live") == 3


def test_a_line_that_cannot_be_sent_is_named_and_what_was_sent_is_said(world: World, tmp_path: Path) -> None:
    file = lines(tmp_path, *("1" for _ in range(700)), "{nonsense")
    answer = tenure(world, "enqueue", "a", "--from", file)
    assert answer.returncode == USAGE
    assert re.search(
        r"^tenure: line 701: payload '{nonsense' is not JSON .* \(500 rows of the lines before",
        answer.stderr,
        re.MULTILINE,
    )
    assert world.count("live") == 500
    (tmp_path / "rows.jsonl").write_bytes(b'"\xff"\n')
    with pytest.raises(TenureError, match="line 1: it is not UTF-8"):
        call(world, enqueue.command, "a", "--from", file)


def test_an_old_word_of_a_filter_is_taken_with_a_hint_on_stderr(world: World) -> None:
    world.enqueue()
    world.claim_one("w")
    for words in (["rows", "status:held", "--json"], ["release", "status:held", "--dry-run", "--json"]):
        answer = tenure(world, *words)
        assert answer.stderr.splitlines()[0] == "tenure: status:held is now status:processing"
        assert json.loads(answer.stdout)["filter"] == "status:processing"


def test_a_payload_and_a_file_contradict_each_other(world: World, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="contradict each other"):
        call(world, enqueue.command, "a", "{}", "--from", lines(tmp_path, "1"))
    missing = tenure(world, "enqueue", "a", "--from", str(tmp_path / "none"))
    assert missing.returncode == USAGE
    assert "No such file" in missing.stderr


def test_at_a_terminal_a_bar_shows_how_far_a_file_is(world: World, tmp_path: Path) -> None:
    screen = Terminal(world, "enqueue", "a", "--from", lines(tmp_path, *("1" for _ in range(600))))
    assert screen.end() == 0
    assert "100%" in screen.shown
    assert "enqueued 600" in screen.shown
