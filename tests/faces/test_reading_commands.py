"""`tenure rows`, `row`, `why` and `dead`: what people and programs read, as real processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import warm
from faces.terminal import Terminal
from tenure import verbs
from tenure.cli.table import table
from tenure.errors import NO, UNREACHABLE, USAGE
from tenure.model.rows import Lane, NewRow
from tenure.verbs import fleet, settle
from world import World

pytestmark = pytest.mark.one_server

TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]
NOWHERE = "postgresql://tenure@127.0.0.1:1/tenure"
STEERS = "\x1b]0;evil\x07 \x1b[2J"  # what a terminal would obey
NO_ROW = "it was deleted, its retention is over, or its transaction is not committed yet"


def command(world: World, *arguments: str) -> list[str]:
    return [*TENURE, *arguments, "--database-url", world.url, "--schema", world.schema]


def tenure(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    answer = warm.run(*arguments, "--database-url", world.url, "--schema", world.schema)
    assert "Traceback (most recent" not in answer.stderr
    return answer


def document(world: World, *arguments: str) -> dict[str, Any]:
    answer = tenure(world, *arguments, "--json")
    assert (answer.stderr, answer.returncode) == ("", 0)
    found: dict[str, Any] = json.loads(answer.stdout)
    assert answer.stdout == json.dumps(found, sort_keys=True) + "\n", "keys are sorted"
    assert found["schema"] == 1
    return found


@pytest.fixture
def rows(world: World) -> list[UUID]:
    """Two that wait, one that failed, one held; the oldest first."""
    ids = [world.enqueue("send_receipt", {"order_id": n}, key=f"order:{n}") for n in (1, 2)]
    ids.append(world.enqueue("charge_card", {"order_id": 3, "note": STEERS}, queue="cards", idempotency_key="k3"))
    (job,) = world.claim("w-1", 1, lanes=[Lane("cards")])
    world.retry(job.lease, "first: no answer within 3 s", delay=0)
    (job,) = world.claim("w-2", 1, lanes=[Lane("cards")])
    world.fail(job.lease, f'Traceback\n  File "x.py", line 3\nTimeoutError: no answer within 5 s{STEERS}')
    ids.append(world.enqueue("resize", queue="images"))
    world.claim("w-3", 1, lanes=[Lane("images")])
    return ids


# -- rows


def test_piped_rows_are_one_line_each_with_tabs_newest_first(world: World, rows: list[UUID]) -> None:
    answer = tenure(world, "rows")
    cells = [line.split("\t") for line in answer.stdout.splitlines()]
    assert answer.stderr == ""
    assert [line[0] for line in cells] == [str(id) for id in reversed(rows)]
    assert [line[1] for line in cells] == ["processing", "failed", "pending", "pending"]
    assert cells[3][2:6] == ["send_receipt", "default", "order:1", "0/10"]
    assert (cells[0][4], cells[0][7]) == ("-", "w-3")
    assert cells[1][-1].startswith("TimeoutError: no answer within 5 s\\x1b]0;evil\\x07")


def test_a_scheduled_row_has_its_status_alone_and_its_due_time_in_a_cell_of_its_own(world: World) -> None:
    id = world.enqueue(delay_seconds=3600)
    (cells,) = (line.split("\t") for line in tenure(world, "rows").stdout.splitlines())
    assert (cells[1], len(cells)) == ("pending", 10)
    assert datetime.fromisoformat(cells[8]) > datetime.now(UTC) + timedelta(minutes=50)
    with Terminal(command(world, "rows")) as terminal:
        assert terminal.end() == 0
    assert re.search(rf"{id}  pending  .*  in (60m|1h|3600s)", terminal.seen), terminal.seen
    world.enqueue()
    assert tenure(world, "rows").stdout.splitlines()[0].split("\t")[8] == "-"


def test_the_error_of_a_completed_row_is_called_an_earlier_one(world: World) -> None:
    id = world.enqueue()
    (job,) = world.claim("w", 1)
    world.retry(job.lease, "boom", delay=0)
    assert "\nlast error\n  boom\n" in tenure(world, "row", str(id)).stdout
    (job,) = world.claim("w", 1)
    world.complete(job.lease)
    shown = tenure(world, "row", str(id)).stdout
    assert "\nearlier error\n  boom\n" in shown
    assert "last error" not in shown
    assert tenure(world, "rows").stdout.rstrip("\n").split("\t")[-1] == "earlier error: boom"
    assert re.search(r"^token +2$", shown, re.MULTILINE), "the glossary's word, as in the tape"
    assert "generation" not in shown


def test_on_a_terminal_rows_are_a_table(world: World, rows: list[UUID]) -> None:
    with Terminal(command(world, "rows", "kind:send_receipt", "-n", "1")) as terminal:
        assert terminal.end() == 0
        head, line, *_ = terminal.seen.replace("\r", "").splitlines()
    assert head.split() == ["id", "status", "kind", "queue", "key", "attempts", "age", "worker", "due", "error"]
    assert line.split()[:4] == [str(rows[1]), "pending", "send_receipt", "default"]
    assert f"--before {rows[1]}" in terminal.seen


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["kind:send_receipt", "payload.order_id:2"], [1]),
        (["error:no answer"], [2]),
        (['error:"no answer" kind:charge_card payload.order_id:3'], [2]),
        (["status:pending"], [1, 0]),
        (["status:pending", "-n", "1"], [1]),
        (["status:processing"], [3]),
        (["worker:w-2"], [2]),
        (["kind:nothing"], []),
    ],
)
def test_words_of_the_command_line_are_a_filter(
    world: World, rows: list[UUID], words: list[str], found: list[int]
) -> None:
    assert [row["id"] for row in document(world, "rows", *words)["rows"]] == [str(rows[n]) for n in found]


def test_the_document_of_rows_says_how_far_it_looked_and_where_to_go_on(world: World, rows: list[UUID]) -> None:
    first = document(world, "rows", "-n", "3")
    assert (first["filter"], first["done"], first["next"]) == ("", False, str(rows[1]))
    assert first["searched"] == 3
    rest = document(world, "rows", "-n", "3", "--before", first["next"])
    assert ([row["id"] for row in rest["rows"]], rest["done"], rest["next"]) == ([str(rows[0])], True, None)
    failed = first["rows"][1]
    assert (failed["kind"], failed["queue"], failed["finished_by"]) == ("charge_card", "cards", "w-2")
    assert json.loads(failed["payload"]) == {"order_id": 3, "note": STEERS}
    assert isinstance(failed["fence"], str)
    assert failed["created_at"].endswith("Z")


def test_all_rows_can_be_had_as_lines_of_json(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("k", {"n": n}) for n in range(1200)]))
    lines = tenure(world, "rows", "--all", "--jsonl").stdout.splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert len(set(ids)) == len(ids) == 1200
    assert ids == sorted(ids, reverse=True)


def test_no_rows_are_no_lines(world: World) -> None:
    answer = tenure(world, "rows")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


# -- row and why


def test_a_row_is_shown_with_its_tape_and_its_sentence(world: World, rows: list[UUID]) -> None:
    lines = tenure(world, "row", str(rows[2])).stdout.splitlines()
    assert lines[0].startswith("It failed for good on attempt 2 (TimeoutError: no answer within 5 s")
    fields = dict(line.split(maxsplit=1) for line in lines[2:] if line[:1].isalpha() and "  " in line)
    assert (fields["status"], fields["queue"], fields["idempotency_key"]) == ("failed", "cards", "k3")
    assert '"order_id": 3' in fields["payload"]
    tape = lines[lines.index("lease tape") + 1 :]
    assert [("w-1" in line, "w-2" in line, "retried" in line, "failed" in line) for line in tape] == [
        (True, False, True, False),
        (False, True, False, True),
    ]
    assert all("token " in line and "━" not in line for line in tape)
    assert "first: no answer within 3 s" in tape[0]
    assert not any("\x1b" in line for line in lines), "nothing steers the terminal"


@pytest.mark.parametrize(("no_color", "drawn"), [("", True), ("1", False)])
def test_the_tape_is_drawn_on_a_terminal_for_who_wants_it(
    world: World, rows: list[UUID], no_color: str, drawn: bool
) -> None:
    with Terminal(command(world, "row", str(rows[2])), NO_COLOR=no_color) as terminal:
        assert terminal.end() == 0
    assert len([line for line in terminal.seen.splitlines() if "━" in line]) == (2 if drawn else 0)
    assert "  w-1  " in terminal.seen


def test_a_held_row_has_a_tape_that_goes_on(world: World, rows: list[UUID]) -> None:
    world.run(fleet.register("w-3"))
    answer = tenure(world, "row", str(rows[3])).stdout
    assert answer.startswith("It is held by worker w-3 for another ")
    assert " to -  processing" in answer


def test_the_attempt_that_ended_a_row_is_told_by_how_the_row_ended(world: World) -> None:
    dead, cancelled, later = (world.enqueue("k", max_attempts=n) for n in (1, 5, 5))
    jobs = {job.id: job for job in world.claim("w", 3)}
    world.retry(jobs[dead].lease, "boom")
    world.run(verbs.cancel([cancelled]))
    world.run(settle.release([jobs[cancelled].lease]))
    world.retry(jobs[later].lease, "boom", delay=60)
    world.run(verbs.cancel([later]))
    tapes = [tenure(world, "row", str(id)).stdout.partition("lease tape")[2] for id in (dead, cancelled, later)]
    assert ["  dead_letter  token 1  fence " in tapes[0], "  cancelled  token 1  " in tapes[1]] == [True, True]
    assert "  retried  token 1  " in tapes[2], "it was cancelled only afterwards"


def test_a_row_that_is_not_there_is_a_document_too(world: World) -> None:
    answer = tenure(world, "row", str(UUID(int=1)), "--json")
    assert answer.returncode == NO
    assert json.loads(answer.stdout) == {"schema": 1, "row": None, "why": f"There is no row {UUID(int=1)}: {NO_ROW}."}


def test_the_document_of_a_row_has_all_there_is(world: World, rows: list[UUID]) -> None:
    found = document(world, "row", str(rows[2]))
    left = {"progress", "result", "batch"}
    assert set(found) == {"schema", "row", "why", "attempts", "refusals", "effects", "idempotency"} | left
    assert [(each["worker"], each["outcome"]) for each in found["attempts"]] == [("w-1", "retried"), ("w-2", "failed")]
    assert found["attempts"][0]["fence"].isdigit()
    assert found["idempotency"]["key"] == "k3"
    assert (found["effects"], found["refusals"]) == ([], [])
    (job,) = world.claim("w-4", 1)
    world.run(verbs.once(job.lease, "receipt"))
    found = document(world, "row", str(job.id))
    assert [(each["effect"], each["fence"]) for each in found["effects"]] == [("receipt", str(job.fence))]
    assert found["idempotency"] is None
    assert "receipt  " in tenure(world, "row", str(job.id)).stdout


def test_why_is_a_sentence_and_on_request_the_sql_that_shows_the_same(world: World, rows: list[UUID]) -> None:
    (alone,) = tenure(world, "why", str(rows[0])).stdout.splitlines()
    assert alone.startswith("It has been due for ")
    sentence, empty, *query = tenure(world, "why", str(rows[0]), "--sql").stdout.splitlines()
    assert [line.partition(":")[0] for line in query].count("-- why") == 1, "its name, and no other line like it"
    assert sentence.startswith("It has been due for ")
    assert sentence.endswith(" s, but no worker is alive: start one with `tenure worker`.")
    assert empty == ""
    assert world.sql("\n".join(query).replace("%", "%%"))[0][:3] == ("pending", "send_receipt", "default")
    found = document(world, "why", str(rows[0]))
    assert set(found) == {"schema", "id", "why", "sql"}


@pytest.mark.parametrize("name", ["row", "why"])
def test_a_row_that_is_not_there_is_a_no(world: World, name: str) -> None:
    answer = tenure(world, name, str(UUID(int=1)))
    assert answer.returncode == NO
    said = f"There is no row {UUID(int=1)}: {NO_ROW}. `tenure rows` lists the rows with their ids.\n"
    assert said in answer.stdout + answer.stderr


# -- dead


def test_what_ended_badly_is_listed_by_group(world: World, rows: list[UUID]) -> None:
    (line,) = tenure(world, "dead").stdout.splitlines()
    status, kind, n, fingerprint, *_, error = line.split("\t")
    assert (status, kind, n) == ("failed", "charge_card", "1")
    assert error.startswith("TimeoutError: no answer")
    assert "\x1b" not in line
    (group,) = document(world, "dead")["groups"]
    assert group["rows"] == {"n": 1, "more": False}
    assert group["filter"] == f"status:failed kind:charge_card fingerprint:{fingerprint}"
    assert [row["id"] for row in document(world, "rows", group["filter"])["rows"]] == [group["sample_id"]]


ERROR = f"RuntimeError: {'the server refused ' * 5}order_id 4711"  # longer than what a terminal leaves it


def dead_row(world: World, error: str) -> str:
    id = world.enqueue("send_receipt", max_attempts=1)
    world.fail(world.claim_one("w-1").lease, error)
    return str(id)


def test_piped_an_error_is_there_to_its_end(world: World) -> None:
    id = dead_row(world, ERROR)
    for arguments in (["dead"], ["rows"], ["row", id]):
        assert tenure(world, *arguments).stdout.rstrip().endswith(ERROR)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["dead", "rows"])
def test_on_a_terminal_the_error_has_a_line_where_it_has_no_room(world: World, name: str, columns: int) -> None:
    dead_row(world, ERROR)
    with Terminal(command(world, name), COLUMNS=str(columns)) as terminal:
        assert terminal.end() == 0
    lines = terminal.seen.replace("\r", "").splitlines()
    assert lines[-1] == "  " + (ERROR if len(ERROR) <= columns - 2 else f"{ERROR[: columns - 3]}…")
    assert max(map(len, lines)) <= columns


def test_on_a_terminal_the_dead_are_told_roughly_and_piped_exactly_when(world: World) -> None:
    dead_row(world, "boom")
    with Terminal(command(world, "dead")) as terminal:
        assert terminal.end() == 0
    _, line = terminal.seen.splitlines()
    assert re.search(r"  \d+s ago  \d+s ago  boom$", line)
    assert all(cell.endswith("Z") for cell in tenure(world, "dead").stdout.split("\t")[4:6])


def test_a_table_goes_on_below_where_its_columns_have_no_room() -> None:
    head, lines = ("id", "kind", "n", "note"), [("a" * 8, "k" * 6, "12", "a short one"), ("b", "c", "7", "x" * 30)]
    assert table(head, lines).splitlines()[1] == "aaaaaaaa  kkkkkk  12  a short one"
    assert table(head, lines, 34).splitlines() == [
        "id        kind     n  note",
        "aaaaaaaa  kkkkkk  12  a short one",
        "b         c        7",
        "  " + "x" * 30,
    ]
    assert table(head, lines, 17).splitlines() == [
        "id        kind",
        "   n  note",
        "aaaaaaaa  kkkkkk",
        "  12  a short one",
        "b         c",
        "   7",
        "  " + "x" * 14 + "…",
    ]
    assert table(head, [("a" * 8, "k" * 6, "12", "")], 22).splitlines() == [
        "id        kind     n",
        "  note",
        "aaaaaaaa  kkkkkk  12",
    ]


def test_without_dead_letters_there_is_nothing_to_list(world: World) -> None:
    assert tenure(world, "dead").stdout == ""
    assert document(world, "dead") == {"schema": 1, "groups": []}


# -- settings


def test_the_settings_are_a_line_each_for_programs_and_a_table_for_people(world: World) -> None:
    lines = [line.split("\t") for line in tenure(world, "doctor", "--settings").stdout.splitlines()]
    assert {len(line) for line in lines} == {3}
    assert ["TENURE_SCHEMA", "--schema", world.schema] in lines
    with Terminal(command(world, "doctor", "--settings")) as terminal:
        assert terminal.end() == 0
    assert terminal.seen.splitlines()[0].split() == ["setting", "from", "value"]
    assert "\t" not in terminal.seen


# -- what cannot be asked


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rows", "timeout"], "'timeout' must be FIELD:VALUE; the fields are "),
        (["rows", "knid:x"], "there is no field 'knid', did you mean 'kind'?"),
        (["rows", "kind:\udcff"], "lone surrogate"),
        (["rows", "-n", "0"], "0 is not in the range"),
        (["rows", "--all", "-n", "50"], "--all and -n 50 contradict each other: give one"),
        (["rows", "--json", "--jsonl"], "--json and --jsonl contradict each other: give one"),
        (["rows", "--before", "x"], "'x' must be the id of a row. `tenure rows` lists the rows with their ids."),
        (["row", "x"], "'x' must be the id of a row. `tenure rows` lists the rows with their ids."),
        (["why", "x"], "'x' must be the id of a row. `tenure rows` lists the rows with their ids."),
        (["rows", "status:ready"], "there is no status 'ready': did you mean 'runnable'? There are pending, "),
        (["rows", "status:queued"], "there is no status 'queued': did you mean 'pending'? There are pending, "),
        (["rows", "status:blocked"], "such rows are pending, and `tenure queues blocked` lists their keys"),
        (["dead", "-n", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(world: World, arguments: list[str], says: str) -> None:
    answer = tenure(world, *arguments)
    assert answer.returncode == USAGE
    assert says in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("arguments", [["rows"], ["row", str(UUID(int=1))], ["why", str(UUID(int=1))], ["dead"]])
def test_without_a_database_they_say_so(arguments: list[str]) -> None:
    answer = warm.run(*arguments, "--database-url", NOWHERE)
    assert answer.returncode == UNREACHABLE
    assert answer.stderr.startswith("tenure: the database does not answer")
