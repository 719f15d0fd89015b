"""Every scene and every control of the book: played here and by the command alike, able to fail, leaving nothing."""

from __future__ import annotations

import dataclasses
import json
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest
from click.testing import CliRunner

from drills.tales import FACED, alive, command, ended, lines, schemas, silent
from patience import SECONDS_MAX
from tenure.cli.drill import Drills, all_drills
from tenure.drills.plan import Plan
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage import acts
from tenure.drills.stage.broker import start_broker
from tenure.drills.stage.said import Said
from tenure.drills.stage.scene import Drill, Event, Proof, Scene, Step, perform
from tenure.drills.stage.stage import EVENT_SECONDS_MAX, Stage
from tenure.drills.stage.verdict import Check, Verdict
from tenure.errors import BadSettings

pytestmark = pytest.mark.one_server  # the worker's own tests run on each: here it is the telling that is tested

ALL = [(name, control) for name, make in BOOK.items() for control in (False, True) if not control or make().control]
LEFT_OUT = {name: missing for name, make in BOOK.items() if (missing := make().missing)}
CONTROLLED = [name for name, control in ALL if control]
PACE_SECONDS_MAX = 5.0
CONTEXT = click.Context(click.Command("drill"))
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
    if name in LEFT_OUT:
        pytest.skip(f"drill {name} is left out: {LEFT_OUT[name]}")
    scene, log = scene_of(name, control), list[Said]()
    both = dataclasses.replace(scene, proofs=scene.proofs + scene_of(name, False).proofs)
    verdict, n = perform(url, both, log.append), len(scene.proofs)
    return Played(dataclasses.replace(verdict, checks=verdict.checks[:n]), log, verdict.checks[n:])


@pytest.mark.parametrize(
    ("name", "control"), [*((name, False) for name in FACED), ("crash", True), ("lease-race", True)]
)
def test_the_command_comes_to_the_same_verdict(server_url: str, name: str, control: bool) -> None:
    process = command("drill", name, "--json", *["--control"] * control, "--on", server_url)
    here = played(server_url, name, control).verdict  # meanwhile
    code, out, err = ended(process)
    *events, last = lines(out)
    same = ("drill", "ok", "shown", "assertions")
    assert (code, err, here.trouble) == (0, "", None)
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
    told = [(said.fields["step"], said.fields["of"], said.fields["caption"]) for said in log if said.event == "step"]
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
            assert not proof.check(stage).ok, proof.name


def test_a_drain_that_gave_the_rows_back_is_not_taken_for_one_that_finished_them(server_url: str) -> None:
    scene = scene_of("drain", False)
    unanswered = [[each for each in step.do if not isinstance(each, acts.Answer)] for step in scene.steps]
    steps = tuple(dataclasses.replace(step, do=tuple(do)) for step, do in zip(scene.steps, unanswered, strict=True))
    props = dataclasses.replace(scene.props, drain_seconds=0.1)
    verdict = perform(server_url, dataclasses.replace(scene, steps=steps, props=props), silent)
    assert verdict.trouble is None
    assert [check.name for check in verdict.checks if not check.ok] == ["finished_what_they_held"]


def test_what_came_before_the_last_word_of_a_step_is_there_for_the_step_that_only_watches(server_url: str) -> None:
    one, two = (Event("orders_taken", "shop", {"rows": n}, seconds_max=0.0) for n in (1, 2))
    first, watch = Step("Two deliveries.", (acts.Orders(1), acts.Orders(2)), (two,)), Step("Watched.", (), (one,))
    scene = dataclasses.replace(scene_of("receipt", False), steps=(first, watch), proofs=())
    assert perform(server_url, scene, silent).trouble is None
    twice = perform(server_url, dataclasses.replace(scene, steps=(first, watch, watch)), silent)
    assert twice.trouble == "shop did not report orders_taken rows=1 within 0 s"  # an event is used up by who waited


def test_a_rolling_deploy_lasts_as_long_as_the_slowest_reader_wants() -> None:
    scene = scene_of("drain", False)
    assert "lease_seconds" not in scene.settable
    assert min(scene.props.drain_seconds, 0.9 * scene.props.lease_seconds) > 2 * PACE_SECONDS_MAX + EVENT_SECONDS_MAX


# -- what may be set


@pytest.mark.parametrize(("name", "control"), [each for each in ALL if scene_of(*each).settable])
def test_whatever_a_reader_sets_a_scene_ends_as_it_must(server_url: str, name: str, control: bool) -> None:
    scene = scene_of(name, control)
    given = {"lease_seconds": 0.2, "handler_seconds": 0.0}
    verdict = perform(server_url, scene.with_props(**{each: given[each] for each in scene.settable}), silent)
    assert (verdict.ok, verdict.trouble) == (True, None)


def test_what_a_scene_rests_on_is_not_to_be_set() -> None:
    with pytest.raises(BadSettings, match="lease_seconds cannot be set in crash"):
        scene_of("crash", False).with_props(lease_seconds=5.0)
    with pytest.raises(BadSettings, match="dedupe cannot be set in drain"):
        scene_of("drain", False).with_props(dedupe=False)


@pytest.mark.parametrize("name", BOOK)
def test_the_command_has_an_option_for_all_that_may_be_set_and_for_nothing_else(name: str) -> None:
    offered = {option for each in Drills().get_command(CONTEXT, name).params for option in each.opts}  # type: ignore[union-attr]
    settable = {f"--{prop.replace('_', '-')}" for prop in scene_of(name, False).settable}
    assert {option for option in offered if option.endswith("-seconds")} == settable


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
        msgspec.json.decode(json.dumps(given), type=acts.AnyAct)
    assert said in str(refused.value)


@pytest.mark.parametrize("given", [acts.Enqueue(7, "poison"), acts.Crowd(3), acts.SkipBackoff(), acts.Kill("worker-C")])
def test_an_act_comes_back_from_json_as_it_was(given: acts.AnyAct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(given), type=acts.AnyAct) == given


# -- what is not here


def test_a_drill_without_its_broker_is_left_out_aloud(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = scene_of("receipt", False)
    lacking = Drill(receipt, missing="it needs a NATS server")
    monkeypatch.setattr("tenure.drills.scenes.book.BOOK", {"relay": lambda: lacking})
    ran = CliRunner().invoke(all_drills, ["--on", server_url])
    assert (ran.exit_code, "left out: it needs a NATS server" in ran.output) == (0, True)
    monkeypatch.setattr("tenure.drills.plan.BOOK", {"relay": lambda: lacking})
    with pytest.raises(BadSettings, match="'relay' cannot be played here: it needs a NATS server"):
        _ = Plan(drill="relay").scene


@pytest.mark.skipif("relay" in LEFT_OUT, reason="no NATS server")
def test_the_broker_of_a_drill_asks_for_a_secret_and_leaves_nothing(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        url = start_broker(stage)
        pid = stage.reported("broker_started")[0].fields["pid"]
        assert alive(pid)
        secret = url.partition("@")[0].partition("//")[2]
        assert secret not in Path(f"/proc/{pid}/cmdline").read_text()
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), SECONDS_MAX) as stranger:
            said = stranger.makefile("rwb")
            assert said.readline().startswith(b"INFO")
            said.write(b"CONNECT {}\r\n")
            said.flush()
            assert said.readline() == b"-ERR 'Authorization Violation'\r\n"
        folder = Path(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[2]).parent
        assert folder.exists()
    assert (alive(pid), folder.exists()) == (False, False)


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
    monkeypatch.setattr(
        "tenure.drills.scenes.book.BOOK", {"rollback": BOOK["rollback"], "sums": lambda: Drill(failing)}
    )
    ran = CliRunner().invoke(all_drills, ["--on", server_url])
    told = [line.split() for line in ran.output.splitlines()[2:]]
    assert ran.exit_code == 1
    assert [line[:2] for line in told[:3]] == [["✓", "rollback"], ["✓", "rollback"], ["✗", "sums"]]
    assert told[3] == ["failed:", *never.sentence.split()]
    assert told[-1][:3] == ["2", "of", "3"]


def test_people_see_captions_above_events_and_no_clockwork(server_url: str) -> None:
    code, out, _ = ended(command("drill", "receipt", "--on", server_url))
    first = out.index("\n\n  1  The shop takes order 9182.")
    assert code == 0
    assert first < out.index("shop      enqueued             key=order:9182") < out.index("\n\n  2  A worker starts")
    assert "wakeup_changed" not in out
    assert "\x1b" not in out
