"""The explorer says of every guard what it stops; each combination is run on the real engine and compared."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner

from tenure.cli.drill_explore import GUARDS, command
from tenure.drills.actors.racer import Guard
from tenure.drills.explore import PROOFS, SITUATIONS, Explore, expected, explore, seen
from tenure.drills.stage.said import Said
from tenure.drills.stage.scene import play
from tenure.drills.stage.stage import Stage
from tenure.errors import BadSettings

AT_ONCE = 4  # runs, each on a stage and thread of its own
RACES = [name for name, setting in SITUATIONS.items() if Explore(**setting).raced]
CALM = [("none", "short stall"), ("owner", "renewed")]  # without a race every guard sees the same

# What is known of each guard, written out: worker-B busy, done; under the same name busy, done.
KNOWN = {
    "none": ("duplicate", "duplicate", "duplicate", "duplicate"),
    "owner": ("stopped", "stopped", "stolen", "stopped"),
    "generation": ("stopped", "stopped", "stopped", "stopped"),
    "lease_time": ("stolen", "stopped", "stolen", "stopped"),
    "downstream": ("duplicate", "stopped", "duplicate", "stopped"),
    "fence": ("stopped", "stopped", "stopped", "stopped"),
}


def silent(said: Said) -> None:
    """For runs whose lines do not matter."""


def asked(guard: Any, situation: str, **more: Any) -> Explore:
    """One cell of the matrix."""
    return Explore(guard, **{**SITUATIONS[situation], **more})


def test_the_rule_says_what_is_known_of_each_guard() -> None:
    assert {guard: tuple(expected(asked(guard, name)) for name in RACES) for guard in GUARDS} == KNOWN
    calm = [name for name in SITUATIONS if name not in RACES]
    assert {expected(asked(guard, name)) for guard in GUARDS for name in calm} == {"no race"}
    assert set(GUARDS) == set(get_args(Guard))


@pytest.mark.one_server
@pytest.mark.parametrize("guard", GUARDS)
def test_every_combination_ends_on_the_real_engine_as_the_rule_says(server_url: str, guard: str) -> None:
    cells = [*((guard, name) for name in RACES), *(cell for cell in CALM if cell[0] == guard)]

    def run(cell: tuple[str, str]) -> tuple[Any, ...]:
        verdict, words = explore(server_url, asked(*cell), silent)
        return (*cell, verdict.ok, verdict.trouble, words.get("harm"))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        ran = list(threads.map(run, cells))
    assert ran == [(*cell, True, None, expected(asked(*cell))) for cell in cells]


def test_a_frozen_process_cannot_renew_and_the_fence_stops_its_write(server_url: str) -> None:
    verdict, words = explore(server_url, asked("fence", "B is busy", renews=True), silent)
    assert verdict.ok
    assert words["stopped_by"] == "fence"
    assert words["written"] == [{"worker": "worker-B", "token": 2}]
    assert "token 1" in words["explanation"]


@pytest.mark.one_server
def test_a_slow_handler_without_renewal_races_as_a_frozen_process_does(server_url: str) -> None:
    verdict, words = explore(server_url, asked("none", "B is busy", stall="slow"), silent)
    assert verdict.ok
    assert (words["stopped_by"], words["harm"]) == (None, "duplicate")
    assert [each["token"] for each in words["written"]] == [1, 2]


@pytest.mark.one_server
def test_a_run_that_ends_otherwise_than_it_must_is_no_success(server_url: str) -> None:
    scene = asked("none", "B is done").scene()
    with Stage(server_url, silent) as stage:
        stage.build()
        verdict = play(stage, replace(scene, proofs=PROOFS["stopped"]))
        assert seen(stage) == "duplicate"
    assert not verdict.ok
    assert {check.name for check in verdict.checks if not check.ok} == {
        "who_wrote",
        "who_was_told_what",
        "one_was_blocked",
    }


@pytest.mark.one_server
def test_the_command_prints_the_run_and_its_sentence(server_url: str) -> None:
    options = ["--guard", "lease_time", "--lease-seconds", "0.3", "--stall-seconds", "0.4", "--on", server_url]
    answer = CliRunner().invoke(command, [*options, "--json"])
    verdict = json.loads(answer.output.splitlines()[-1])
    assert answer.exit_code == 0, answer.output
    assert verdict["event"] == "verdict"
    assert (verdict["ok"], verdict["stopped_by"], verdict["harm"]) == (True, None, "stolen")
    assert verdict["explanation"].startswith("Nothing stopped the stale write: the lease was current, but it was")


def test_a_stall_that_ends_with_its_lease_is_refused_as_chance() -> None:
    with pytest.raises(BadSettings, match="would be chance"):
        Explore(lease_seconds=1.0, stall_seconds=0.6)
    with pytest.raises(msgspec.ValidationError, match="would be chance"):
        msgspec.convert({"lease_seconds": 1.0, "stall_seconds": 0.6}, Explore)
    assert not Explore(lease_seconds=1.4, stall_seconds=0.9).raced  # half a second, whatever binary fractions say
    assert Explore(lease_seconds=1.0, stall_seconds=1.0).raced
    assert not Explore(lease_seconds=1.0, stall_seconds=0.95, stall="slow", renews=True).raced


@pytest.mark.parametrize(
    "wrong", [{"guard": "hope"}, {"lease_seconds": 0.1}, {"stall_seconds": 16}, {"taker": "nobody"}, {"more": 1}]
)
def test_what_cannot_be_explored_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Explore)
