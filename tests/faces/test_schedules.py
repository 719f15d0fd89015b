"""`tenure schedules`: a table for people, a document for programs, and the switch."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from faces.terminal import Terminal
from faces.test_fleet_commands import command as line_of
from tenure.cli.schedules import command
from tenure.errors import NO, USAGE
from tenure.verbs import schedules
from tenure.verbs.schedules import Schedule
from world import World

pytestmark = pytest.mark.one_server


def tenure(world: World, *arguments: str) -> Result:
    """The command as a person types it, on the world's database."""
    return CliRunner().invoke(command, [*arguments, "--database-url", world.url, "--schema", world.schema])


@pytest.fixture
def planned(world: World) -> World:
    """Two schedules, one of which has fired."""
    world.run(schedules.plan(Schedule("nightly", "30 2 * * *", "make_report", {"team": 7}, "Europe/Berlin")))
    world.run(schedules.plan(Schedule("tidy", "@hourly", "tidy_up", tick_as="hour")))
    world.sql("UPDATE schedules SET next_at = '2026-10-25T00:30:00Z'")
    world.sql("UPDATE schedules SET last_at = '2026-10-24T23:30:00Z' WHERE name = 'tidy'")
    return world


def test_the_table_says_what_fires_when(planned: World) -> None:
    answer = tenure(planned)
    assert answer.exit_code == 0
    assert answer.output == (
        "nightly\tmake_report\t30 2 * * *\tEurope/Berlin\t2026-10-25T00:30:00Z\tnever\n"
        "tidy\ttidy_up\t@hourly\tUTC\t2026-10-25T00:30:00Z\t2026-10-24T23:30:00Z\n"
    )


def test_without_schedules_it_says_so(world: World) -> None:
    answer = tenure(world)
    assert (answer.stdout, answer.stderr) == ("", "no schedules\n")
    assert json.loads(tenure(world, "--json").output) == {"schema": 1, "schedules": []}


def test_the_document_has_every_field(planned: World) -> None:
    nightly, tidy = json.loads(tenure(planned, "--json").output)["schedules"]
    assert set(nightly) == set(schedules.Planned._fields)
    assert (nightly["payload"], nightly["last_at"]) == ({"team": 7}, None)
    assert (tidy["next_at"], tidy["tick_as"]) == ("2026-10-25T00:30:00Z", "hour")


def test_one_can_be_paused_and_resumed(planned: World) -> None:
    assert tenure(planned, "pause", "tidy").output == "paused tidy\n"
    nightly, tidy = tenure(planned).output.splitlines()
    assert "paused" in tidy
    assert "paused" not in nightly
    assert tenure(planned, "resume", "tidy").output == "resumed tidy\n"
    assert "paused" not in tenure(planned).output


def test_a_name_nobody_planned_is_a_no(planned: World) -> None:
    answer = tenure(planned, "pause", "nobody")
    assert (answer.exit_code, answer.stderr) == (
        NO,
        "tenure: there is no schedule 'nobody': `tenure schedules` lists them\n",
    )


def test_with_nobody_at_the_terminal_one_is_removed_only_with_yes(planned: World) -> None:
    answer = tenure(planned, "remove", "tidy")
    assert (answer.exit_code, answer.stdout) == (USAGE, "")
    assert answer.stderr == (
        "tenure: remove would take away the schedule tidy: give --yes to do it, nobody is here to ask\n"
    )
    assert [each.name for each in planned.run(schedules.schedules())] == ["nightly", "tidy"]
    assert planned.count("audit") == 0
    assert tenure(planned, "remove", "tidy", "--yes").output == "removed tidy\n"
    assert [each.name for each in planned.run(schedules.schedules())] == ["nightly"]


@pytest.mark.parametrize(("said", "left"), [("n", ["nightly", "tidy"]), ("y", ["nightly"])])
def test_somebody_at_the_terminal_is_asked_before_one_is_removed(planned: World, said: str, left: list[str]) -> None:
    with Terminal(line_of(planned, "schedules", "remove", "tidy")) as terminal:
        terminal.until("remove the schedule tidy? [y/N]: ")
        terminal.press(f"{said}\n")
        assert terminal.end() == (0 if said == "y" else NO)
    assert [each.name for each in planned.run(schedules.schedules())] == left


def test_a_verb_needs_a_name(planned: World) -> None:
    answer = tenure(planned, "pause")
    assert answer.exit_code == USAGE
    assert "pause which schedule?" in answer.stderr


def test_a_verb_nobody_knows_is_refused(planned: World) -> None:
    assert tenure(planned, "stop", "tidy").exit_code == USAGE
