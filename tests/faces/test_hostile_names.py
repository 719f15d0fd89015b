"""Names full of control characters: no command passes them on, breaks its line, or offers them unquoted."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import unicodedata
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warm
from tenure import verbs
from tenure.cli.tail import words
from tenure.console import terminal
from tenure.events import JobFailed
from tenure.model.rows import NewRow
from tenure.model.shell import command
from tenure.telemetry.log import Bridge
from tenure.telemetry.tail import channel_of, events_of
from tenure.verbs import fleet, operators, queues, schedules
from tenure.verbs.questions import channel
from tenure.verbs.schedules import Schedule
from world import World

pytestmark = pytest.mark.one_server

# A title of the window, colours, a cursor that goes up, bidi marks, a bell, C1, DEL, a line of its own, and a command.
EVIL = (
    "x\x1b]0;pwned\x07\x1b[2A\x1b[8m\u202egnp.exe\u2066\u200b\x9b31m\x7f\r\nFORGED line\tok "
    "`touch pwned`; $(touch pwned) '\"\\"
)
HARMLESS = "ordinary"


def _shop(world: World) -> dict[str, str]:
    """Everything that has a name, under evil ones: rows in every state, queues, schedules, workers, an audit."""
    world.run(fleet.register(EVIL, {"version": EVIL, "queues": [EVIL], "kinds": [EVIL], "slots": EVIL}))
    ids = {}
    options: dict[str, Any] = {"queue": EVIL, "payload": {EVIL: EVIL}, "headers": {"a": EVIL}}
    ids["pending"] = str(world.run(verbs.enqueue(NewRow(EVIL, key=EVIL, idempotency_key=EVIL, **options))).id)
    for status, end in (("dead_letter", world.dead_letter), ("failed", world.fail)):
        world.run(verbs.enqueue(NewRow(EVIL, key=EVIL + status, ordered=True, hold=True, **options)))
        (job,) = world.claim_ordered(EVIL, queues=[EVIL])
        end(job.lease, f"Boom: {EVIL}")
        ids[status] = str(job.id)
    ids["behind"] = str(world.run(verbs.enqueue(NewRow(EVIL, key=EVIL + "failed", ordered=True, **options))).id)
    world.enqueue(HARMLESS)
    world.claim_one(EVIL)
    world.run(queues.pause(EVIL))
    world.run(schedules.plan(Schedule(EVIL, "0 0 1 1 *", EVIL, queue=EVIL, key=EVIL)))
    action = world.run(operators.begin_audit(EVIL, EVIL, "cancel", EVIL, EVIL))
    world.run(operators.mark(action, 1, done=True))
    return ids


def _commands(ids: dict[str, str]) -> list[list[str]]:
    read = ["rows", "dead", "queues", "queues blocked", "schedules", "workers", "ring", "audit", "top --once", "doctor"]
    each = [["row", id] for id in ids.values()] + [["why", id] for id in ids.values()]
    plain = [*map(str.split, read), *each, ["rows", f"queue:{EVIL}"], ["rows", "--jsonl"], ["why", EVIL], ["row", EVIL]]
    wrong = [[EVIL], ["rows", EVIL], ["queues", EVIL], ["rows", f"--{EVIL}"], ["enqueue", "k", EVIL], ["sql", EVIL]]
    wrong += [["enqueue", "k", "{}", "--at", EVIL], ["enqueue", "k", "{}", EVIL, EVIL], ["tail", "--filter", EVIL]]
    act = [["queues", verb, EVIL] for verb in ("resume", "pause")] + [["queues", "free", EVIL, EVIL]]
    act += [["workers", "drain", "no" + EVIL], ["queues", "limit", EVIL, "--max-running", "3"], ["enqueue", EVIL]]
    act += [["schedules", "pause", EVIL], ["schedules", "pause", EVIL * 2], ["schedules", "remove", EVIL]]
    act += [["cancel", f"kind:{EVIL}", "--yes"], ["delete", f"key:{EVIL}", "--dry-run"]]
    return [*plain, *[[*each, "--json"] for each in plain[:20]], *wrong, *act, ["ring", EVIL]]


def _is_clean(text: str) -> bool:
    """Whether a terminal shows it as it is: nothing but what can be seen, spaces, tabs and ends of lines."""
    seen = [each for each in text if each not in "\n\t"]
    return not [each for each in seen if not each.isprintable() or unicodedata.category(each) == "Cf"]


def test_no_command_passes_a_control_character_or_a_line_of_its_own(world: World) -> None:
    ids = _shop(world)
    dirty = {}
    for asked in _commands(ids):
        place = ["--database-url", world.url, "--schema", world.schema]
        at = len(asked) if asked[:1] not in (["queues"], ["schedules"], ["workers"], ["ring"]) else 1
        answer = warm.run(*asked[:at], *place, *asked[at:])
        told = answer.stdout + answer.stderr
        if not _is_clean(told) or re.search(r"^FORGED", told, re.MULTILINE) or "Traceback" in told:
            dirty[" ".join(asked)] = told
    assert dirty == {}


def test_a_command_that_is_offered_can_be_pasted_and_names_what_it_names(world: World, tmp_path: Any) -> None:
    """Run by a real shell: the name arrives whole, and nothing in it is run."""
    ids = _shop(world)
    place = ["--database-url", world.url, "--schema", world.schema]
    said = warm.run("doctor", *place).stdout + "".join(warm.run("why", id, *place).stdout for id in ids.values())
    offered = re.findall(r"`(tenure queues (?:resume|free) .*?['\w])`[,.]", said)
    assert len(offered) >= 3, said
    (tmp_path / "tenure").write_text('#!/bin/bash\nprintf "%s\\0" "$@" >> heard\nprintf "\\1" >> heard\n')
    (tmp_path / "tenure").chmod(0o755)
    for line in offered:
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, check=True, timeout=60)
    heard = [each.split("\0")[:-1] for each in (tmp_path / "heard").read_bytes().decode().split("\1")[:-1]]
    assert all(set(each[2:]) <= {EVIL, EVIL + "failed", EVIL + "dead_letter"} for each in heard), heard
    assert not (tmp_path / "pwned").exists()


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_a_quoted_command_shows_as_one_line_and_is_read_back_by_a_shell(words: list[str]) -> None:
    line = command("tenure", *words)
    assert line.isprintable()
    if all(word.isprintable() for word in words):
        assert [each for each in shlex.split(line)[1:] if each != "--"] == [each for each in words if each != "--"]


@given(st.text())
def test_the_door_lets_no_control_character_through(text: str) -> None:
    assert _is_clean(terminal.shown(text))
    assert terminal.shown(terminal.styled(text, fg="red")) == f"\x1b[31m{terminal.shown(text)}\x1b[0m"
    assert "\n" not in terminal.one_line(text)


# -- what others send


@given(st.text())
def test_a_note_that_is_no_event_ends_no_tail(note: str) -> None:
    assert all(isinstance(event["event"], str) and words(event).isprintable() for event in events_of(note).values())


@pytest.mark.parametrize(
    "note",
    [
        "",
        "hello",
        "[1]",
        "null",
        '{"a": 1}',
        '{"event": ["x"]}',
        '{"event": "x", "n": NaN}',
        "[" * 7000,
        "\x1b]0;x\x07",
        '"x"',
    ],
)
def test_only_events_are_taken_from_a_note(note: str) -> None:
    good = '{"event": "job_failed", "level": ["odd"], "at": 7, "error": "\\u001b[2J"}'
    assert [event["event"] for event in events_of(f"{note}\n{good}\n{note}").values()] == ["job_failed"]
    assert words(events_of(good)[good]).isprintable()


def test_tail_goes_on_after_notes_that_are_not_json(world: World) -> None:
    name = channel_of(world.run(channel()))
    place = ["--database-url", world.url, "--schema", world.schema]
    command = [*warm.COLD, "tail", "--seconds", "8", *place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stderr is not None
        tail.stderr.readline()  # it listens soon
        for _ in range(12):
            world.sql("SELECT pg_notify(%s, %s)", name, EVIL)
            world.sql("SELECT pg_notify(%s, %s)", name, json.dumps({"event": "odd", "level": 3, "said": EVIL}))
            world.sql("SELECT pg_sleep(0.5)")
        out, err = tail.communicate(timeout=120)
    assert (tail.returncode, "Traceback" in err) == (0, False), err
    assert "odd" in out
    assert _is_clean(out)


def test_the_bridge_to_logging_passes_no_control_character(caplog: pytest.LogCaptureFixture) -> None:
    kinds = {"UUID": uuid4(), "int": 1, "float": 1.0, "bool": True}
    fields = dataclasses.fields(JobFailed)
    made: Any = {each.name: kinds.get(str(each.type), EVIL) for each in fields if each.init}
    with caplog.at_level("DEBUG", logger="tenure"):
        Bridge()(JobFailed(**made))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
