"""The runbook: every command and every query in it runs, and every alert finds the page it names."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner

from pages import blocks, typed
from tenure import sql
from tenure.cli import COMMANDS, tenure
from tenure.errors import NO, UNREACHABLE
from tenure.verbs import fleet
from world import World

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
RUNBOOK = (GUIDES / "runbook.md").read_text()
ANCHORS = (
    "no-workers",
    "lag",
    "dead-letters",
    "stale-writes",
    "leases-expire",
    "housekeeping",
    "broker-away",
    "flows",
    "projections",
    "webhooks",
    "database",
)
# doctor says no on a server that has given up durability for the tests; nobody answers on the worker's port.
MAY_END_WITH = {"doctor": {0, NO}, "health": {0, NO, UNREACHABLE}}

pytestmark = pytest.mark.one_server


def typed_in(text: str) -> list[str]:
    return [each.line for block in blocks(text, "console") for each in typed(block)]


@pytest.fixture
def night(world: World) -> World:
    """A bad night: a dead letter, an expired attempt, a row past its lease, a worker."""
    world.enqueue(max_attempts=1)
    world.dead_letter(world.claim_one("w-here").lease, "time out after 30 s")
    world.enqueue()
    world.expire(world.claim_one("w-gone").lease)
    world.sweep()
    world.enqueue()
    world.expire(world.claim_one("w-gone").lease)
    world.run(fleet.register("w-here", {"version": "0.1.0", "host": "box", "queues": ["default"]}))
    return world


def test_every_command_in_it_runs(night: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = str(night.sql("SELECT id FROM inbox WHERE status = 'dead_letter'")[0][0])
    monkeypatch.chdir(tmp_path)
    env = {"TENURE_DATABASE_URL": night.url, "TENURE_SCHEMA": night.schema, "ID": id, "WORKER": "w-here"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = typed_in(RUNBOOK)
    assert len(found) > 25
    for line in found:
        program, *arguments = shlex.split(os.path.expandvars(line), comments=True)
        answer = CliRunner().invoke(tenure, arguments)
        assert program == "tenure"
        assert isinstance(answer.exception, SystemExit | None), f"{line}: {answer.exception!r}"
        assert answer.exit_code in MAY_END_WITH.get(arguments[0], {0}), f"{line}\n{answer.output}"
    assert night.status(UUID(id)) == "pending"  # it was redriven


def test_every_query_in_it_runs(night: World) -> None:
    id = night.sql("SELECT id FROM inbox LIMIT 1")[0][0]
    found = blocks(RUNBOOK, "sql")
    assert len(found) >= 8
    for block in found:
        for statement in filter(None, map(str.strip, block.split(";"))):
            night.sql(sql.in_schema(statement.replace(":'id'", f"'{id}'").replace("%", "%%"), night.schema))


def test_every_query_is_one_a_reader_may_run_or_is_said_to_change_something(night: World) -> None:
    changing = [each for each in blocks(RUNBOOK, "sql") if re.search(r"\b(UPDATE|DELETE|INSERT|DROP)\b", each)]
    assert changing == []
    with psycopg.connect(night.url) as conn:
        conn.read_only = True
        for block in blocks(RUNBOOK, "sql"):
            if "keep_archive" not in block:
                conn.execute(sql.in_schema(block.replace(":'id'", "gen_random_uuid()"), night.schema).encode())


@pytest.mark.parametrize("anchor", ANCHORS)
def test_every_alert_has_its_page(anchor: str) -> None:
    assert f"\n## {anchor}\n" in RUNBOOK


def test_the_alerts_name_no_other_page() -> None:
    for path in sorted((ROOT / "deploy").rglob("*.yml")):
        named = set(re.findall(r"runbook\.md#([\w-]+)", path.read_text()))
        assert named <= set(ANCHORS), path.name


@pytest.mark.parametrize("name", ["runbook.md", "roles.md", "cli.md"])
def test_links_between_the_guides_lead_somewhere(name: str) -> None:
    text = (GUIDES / name).read_text()
    headings = {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        if file:
            assert (GUIDES / file).exists(), target
        else:
            assert anchor in headings, target


def test_every_command_that_the_guides_name_exists() -> None:
    for path in (GUIDES / "runbook.md", GUIDES / "roles.md", GUIDES / "cli.md"):
        named = set(re.findall(r"`tenure ([a-z]+)\b", path.read_text()))
        assert named <= set(COMMANDS), path.name
