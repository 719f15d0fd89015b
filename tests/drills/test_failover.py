"""The failover drill: nothing acknowledged is lost with a synchronous standby; without one it is, and it is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from patience import soon
from slices import slice_of
from tenure.cli.drill_failover import command
from tenure.drills.failover.course import perform
from tenure.drills.failover.judge import Failover, checks, checks_of_control
from tenure.drills.stage.said import Said

pytestmark = pytest.mark.one_server

GOOD = Failover(
    at=0.0, epoch_before=3, gap_seconds=1.0, back_seconds={"worker-A": 2.0, "worker-B": 5.9}, epoch=4,
    acknowledged=100, tokens=9,
)  # fmt: skip


def _folders() -> set[Path]:
    return set(Path("/tmp").glob("tenure-failover-*/a"))  # noqa: S108


def test_with_a_synchronous_standby_nothing_acknowledged_is_lost() -> None:
    heard: list[Said] = []
    before = _folders()
    verdict = perform(heard.append, times=slice_of(20, 1), within=soon(5.0))
    assert verdict.ok, (verdict.trouble, [check.sentence for check in verdict.checks if not check.ok])
    judged = [said.fields for said in heard if said.event == "failover_judged"]
    assert [each["lost"] for each in judged] == [0] * slice_of(20, 1)
    assert [each["epoch"] for each in judged] == sorted({each["epoch"] for each in judged})
    assert _folders() <= before, "the folders of its servers are gone"


def test_the_control_loses_rows_and_says_how_many() -> None:
    said = CliRunner().invoke(command, ["--control", "--json"])
    verdict = json.loads(said.output.splitlines()[-1])
    assert (said.exit_code, verdict["shown"]) == (0, "acknowledged rows are lost"), said.output
    assert verdict["assertions"] == dict.fromkeys(
        ("some_lost", "tokens_again", "epoch_rises", "stale_refused", "once"), True
    )


def test_every_assertion_can_fail() -> None:
    """The checker itself: each harm turns its own assertion red, and no other."""
    assert all(check.ok for check in checks([GOOD], 0))
    harms = {
        "none_lost": (replace(GOOD, lost=1), 0),
        "none_alone": (replace(GOOD, silent_acks=1), 0),
        "workers_back": (replace(GOOD, back_seconds={"worker-A": 2.0, "worker-B": 6.1}), 0),
        "epoch_rises": (replace(GOOD, epoch=3), 0),
        "stale_refused": (replace(GOOD, accepted=1), 0),
        "once": (GOOD, 1),
    }
    for name, (harmed, twice) in harms.items():
        assert [check.name for check in checks([GOOD, harmed], twice) if not check.ok] == [name]
    assert not all(check.ok for check in checks([replace(GOOD, tokens=0)], 0)), "nothing was tried"
    assert not checks_of_control([GOOD], 0)[0].ok, "a control that loses nothing shows nothing"


def test_rows_that_are_lost_are_counted_once_however_many_failovers_follow() -> None:
    seen = [replace(GOOD, acknowledged=100, lost=4), replace(GOOD, acknowledged=200, lost=4)]
    assert checks(seen, 0)[0].sentence == "4 of 200 acknowledged rows lost"
    assert checks_of_control(seen, 0)[0].sentence == "4 of 200 acknowledged rows are lost"


def test_what_cannot_be_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    said = CliRunner().invoke(command, ["--times", "0"])
    assert said.exit_code == 2
    assert "1<=x<=100" in said.output
    monkeypatch.setenv("TENURE_DRILLS", "forbid")
    forbidden = CliRunner().invoke(command, [])
    assert "TENURE_DRILLS" in str(forbidden.exception)
