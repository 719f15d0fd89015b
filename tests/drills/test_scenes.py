"""Every scene and every control of the book: played here and by the command alike, able to fail, leaving nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from functools import cache
from typing import NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from drills.tales import alive, command, ended, lines, schemas, silent
from tenure.cli.drill import all_drills
from tenure.drills import act
from tenure.drills.actor import DrillFailed
from tenure.drills.book import BOOK
from tenure.drills.scene import Drill, Event, Fact, Proof, Scene, Step, perform, play
from tenure.drills.stage import Said, Stage
from tenure.drills.verdict import Check, Verdict
from tenure.errors import BadSettings

pytestmark = pytest.mark.one_server  # the worker's own tests run on each: here it is the telling that is tested

ALL = [(name, control) for name, make in BOOK.items() for control in (False, True) if not control or make().control]
CONTROLLED = [name for name, control in ALL if control]
UNCONTROLLED = [name for name in BOOK if name not in CONTROLLED]


def scene_of(name: str, control: bool) -> Scene:
    """A scene of the book, or its control."""
    drill = BOOK[name]()
    scene = drill.control if control else drill.scene
    assert scene is not None
    return scene


class Played(NamedTuple):
    """A scene as it was played: its verdict, its feed, and what the guarded scene's proofs have to say of it."""

    verdict: Verdict
    log: list[Said]
    guarded: tuple[Check, ...]


@cache
def played(url: str, name: str, control: bool) -> Played:
    """Played in this process, once, under its own proofs and those of the scene with its guard."""
    scene, log = scene_of(name, control), list[Said]()
    both = dataclasses.replace(scene, proofs=scene.proofs + scene_of(name, False).proofs)
    verdict, n = perform(url, both, log.append), len(scene.proofs)
    return Played(dataclasses.replace(verdict, checks=verdict.checks[:n]), log, verdict.checks[n:])


@pytest.mark.parametrize(("name", "control"), ALL)
def test_the_command_comes_to_the_same_verdict(server_url: str, name: str, control: bool) -> None:
    process = command("drill", name, "--json", *["--control"] * control, "--on", server_url)
    here = played(server_url, name, control).verdict  # meanwhile
    code, out, err = ended(process)
    *events, last = lines(out)
    same = ("drill", "ok", "shown", "assertions")
    assert (code, err) == (0, "")
    assert {key: last[key] for key in same} == {key: here.fields()[key] for key in same}
    assert [each["event"] for each in events].count("step") == len(scene_of(name, control).steps)
    assert events[-1]["schema"] not in schemas(server_url)


@pytest.mark.parametrize(("name", "control"), ALL)
def test_a_scene_ends_as_it_must_and_leaves_nothing(server_url: str, name: str, control: bool) -> None:
    verdict, log, _ = played(server_url, name, control)
    assert verdict.trouble is None
    assert [check.name for check in verdict.checks if not check.ok] == []
    assert verdict.ok
    assert [said.at for said in log] == sorted(said.at for said in log)
    assert log[-1].event == "schema_removed"
    assert log[-1].fields["schema"] not in schemas(server_url)
    pids = [said.fields["pid"] for said in log if said.event == "worker_hired"]
    assert pids
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize(("name", "control"), ALL)
def test_a_scene_tells_its_steps_in_order_and_each_in_a_line(server_url: str, name: str, control: bool) -> None:
    log = played(server_url, name, control).log
    steps = scene_of(name, control).steps
    told = [(said.fields["n"], said.fields["of"], said.fields["caption"]) for said in log if said.event == "step"]
    assert told == [(n, len(steps), step.caption) for n, step in enumerate(steps, 1)]
    assert all(len(step.caption) <= 115 for step in steps)
    assert 3 <= len(steps) <= 6


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_scene_turns_red_where_its_guard_is_missing(server_url: str, name: str) -> None:
    verdict, _, guarded = played(server_url, name, True)
    assert verdict.trouble is None
    assert [check.name for check in guarded if not check.ok] != []


@pytest.mark.parametrize("name", UNCONTROLLED)
def test_a_scene_without_a_control_can_fail_all_the_same(server_url: str, name: str) -> None:
    # Its proofs on a stage where nothing happened: none of them may hold for want of rows.
    with Stage(server_url, silent) as stage:
        stage.build()
        for proof in scene_of(name, False).proofs:
            assert not _holds(proof, stage), proof.name


def _holds(proof: Proof, stage: Stage) -> bool:
    try:
        return proof.check(stage).ok
    except (IndexError, LookupError, ValueError):  # it asks for what was never said
        return False


# -- the stage


def test_a_step_that_does_not_come_is_the_trouble_and_leaves_nothing(server_url: str) -> None:
    never = Step("Nobody comes.", (act.Enqueue(),), (Event("job_completed", seconds_max=0.05),))
    verdict = perform(server_url, dataclasses.replace(scene_of("receipt", False), steps=(never,)), silent)
    assert not verdict.ok
    assert verdict.fields()["shown"] is None
    assert verdict.trouble == "nobody did not report job_completed within 0 s"


def test_a_fact_that_is_not_seen_is_named(server_url: str) -> None:
    never = Step("Nothing is.", (), (Fact("a second moon", "SELECT false", 0.05),))
    verdict = perform(server_url, dataclasses.replace(scene_of("receipt", False), steps=(never,)), silent)
    assert verdict.trouble == "a second moon was not seen within 0 s"


def test_a_step_that_only_watches_sees_what_came_before_it_began(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.build()
        both = Step("One.", (act.Enqueue(1), act.Enqueue(2)), (Event("enqueued", fields={"order": 1}),))
        watching = Step("Two.", (), (Event("enqueued", fields={"order": 2}, seconds_max=0.1),))
        verdict = play(stage, dataclasses.replace(scene_of("receipt", False), steps=(both, watching), proofs=()))
    assert verdict.trouble is None


def test_an_event_from_before_an_act_does_not_count_for_it(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.build()
        both = Step("One.", (act.Enqueue(1), act.Enqueue(2)), (Event("enqueued", fields={"order": 1}),))
        acting = Step("Two.", (act.Enqueue(3),), (Event("enqueued", fields={"order": 2}, seconds_max=0.05),))
        verdict = play(stage, dataclasses.replace(scene_of("receipt", False), steps=(both, acting), proofs=()))
    assert "did not report enqueued" in str(verdict.trouble)


def test_an_act_upon_somebody_who_is_not_there_is_refused_by_name(server_url: str) -> None:
    with Stage(server_url, silent) as stage, pytest.raises(BadSettings, match="there is no worker-A on this stage"):
        act.Kill("worker-A").do(stage)


def test_a_word_that_nobody_waits_for_is_refused_and_ends_nobody(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        act.Cast("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A waits for nothing yet"):
            act.Answer("worker-A").do(stage)
        act.Work("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A is at work already"):
            act.Work("worker-A").do(stage)


def test_a_name_is_borne_once_and_a_stage_has_room_for_eight(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        for _ in range(8):
            act.Cast(stage._free(None)).do(stage)
        with pytest.raises(BadSettings, match="8 workers are on this stage already"):
            act.Cast("worker-Z").do(stage)
        act.Kill("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A was on this stage before"):
            act.Cast("worker-A").do(stage)


def test_a_stage_that_fails_ends_its_processes_and_removes_its_schema(server_url: str) -> None:
    stage = Stage(server_url, silent)
    with contextlib.suppress(DrillFailed), stage:
        stage.build()
        stage.cast("worker-A").pause()
        assert alive(stage.actors["worker-A"].pid)
        raise DrillFailed("as it happens")
    assert stage.schema not in schemas(server_url)
    assert not alive(stage.actors["worker-A"].pid)


# -- acts from outside


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"verb": "explode"}, "explode"),
        ({"verb": "kill"}, "worker"),
        ({"verb": "kill", "worker": "postgres"}, "regex"),
        ({"verb": "kill", "worker": "worker-A", "signal": 9}, "signal"),
        ({"verb": "enqueue", "order": 0}, ">= 1"),
        ({"verb": "enqueue", "kind": "rm -rf"}, "rm -rf"),
        ({"verb": "orders", "n": 101}, "<= 100"),
        ({"verb": "crowd", "n": 99}, "<= 8"),
        ({"verb": "set", "lease_seconds": 0.1}, ">= 1"),
        ({"verb": "set", "dedupe": "yes"}, "bool"),
        ({"verb": "cast", "worker": "worker-A", "guard": "prayer"}, "prayer"),
        ({"order": 1}, "verb"),
    ],
)
def test_an_act_that_makes_no_sense_is_refused_before_it_is_done(given: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(json.dumps(given), type=act.AnyAct)
    assert said in str(refused.value)


@pytest.mark.parametrize("given", [act.Enqueue(7, "poison"), act.Crowd(3), act.SkipBackoff(), act.Kill("worker-C")])
def test_an_act_comes_back_from_json_as_it_was(given: act.AnyAct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(given), type=act.AnyAct) == given


# -- the command


def test_without_a_name_every_drill_is_listed_on_a_line() -> None:
    code, out, _ = ended(command("drill"))
    listed = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert code == 0
    assert listed[: len(BOOK)] == list(BOOK)


def test_an_unknown_drill_is_answered_with_the_nearest_one() -> None:
    code, _, err = ended(command("drill", "rnig"))
    assert code == 2
    assert err.splitlines()[-1] == "Error: there is no drill 'rnig': did you mean ring?"


def test_a_drill_without_a_control_says_so() -> None:
    code, _, err = ended(command("drill", "poison", "--control"))
    assert code == 2
    assert err.splitlines()[-1].startswith("Error: poison has no control, because ")


def test_where_drills_are_forbidden_none_is_played(server_url: str) -> None:
    code, out, err = ended(command("drill", "receipt", "--on", server_url, TENURE_DRILLS="forbid"))
    assert (code, out) == (78, "")
    assert err.startswith("tenure: drills are forbidden here by TENURE_DRILLS")


def test_all_of_them_are_a_line_each_and_one_that_fails_fails_them_all(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = Proof("two_and_two", "two and two are five", "SELECT false")
    failing = dataclasses.replace(scene_of("receipt", False), name="sums", steps=(), proofs=(never,))
    monkeypatch.setattr("tenure.drills.book.BOOK", {"rollback": BOOK["rollback"], "sums": lambda: Drill(failing)})
    ran = CliRunner().invoke(all_drills, ["--on", server_url])
    told = [line.split() for line in ran.output.splitlines()[2:]]
    assert ran.exit_code == 1
    assert [line[:2] for line in told[:3]] == [["✓", "rollback"], ["✓", "rollback"], ["✗", "sums"]]
    assert told[3] == ["not", "so:", *never.sentence.split()]
    assert told[-1][:3] == ["2", "of", "3"]


def test_people_see_captions_above_events_and_no_clockwork(server_url: str) -> None:
    code, out, _ = ended(command("drill", "receipt", "--on", server_url))
    first = out.index("\n\n  1  The shop takes order 9182.")
    assert code == 0
    assert first < out.index("shop      enqueued             key=order:9182") < out.index("\n\n  2  A worker starts")
    assert "wakeup_changed" not in out
    assert "\x1b" not in out
