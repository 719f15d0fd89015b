"""The operators' table: every entry has its SQL and statement, and is reached by command, over HTTP and by a button."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest
from click.testing import CliRunner

import tenure
from faces.web_tools import served
from tenure import sql, verbs
from tenure.cli import COMMANDS
from tenure.cli import tenure as program
from tenure.model.filter import STATUSES
from tenure.operator_verbs import ON_ROWS, OPERATOR_VERBS, OperatorVerb
from tenure.verbs import endpoints, operators, projections, queues, rebuild, schedules, steps
from tenure.verbs.statement import Statement
from tenure.web.access import VERBS, Access
from tenure.web.openapi import document
from tenure.web.routes import ROUTES
from world import World

pytestmark = pytest.mark.one_server
STATIC = Path(tenure.__file__).parent / "web" / "static"
PAGES = {str(path): path.read_text() for room in ("pages", "lib") for path in (STATIC / room).rglob("*.js")}
ONE_COMMAND = ("schedule", "projection")  # the verb is an argument of it
NAMED = {name: verb for name, verb in OPERATOR_VERBS.items() if verb.on != "rows"}


def statement_of(verb: OperatorVerb) -> Statement[Any]:
    """Made as a face would make it."""
    makers = {"rows": operators, "worker": operators, "key": operators, "queue": queues, "schedule": schedules}
    makers["projection"] = rebuild if verb.statement == "ask_rebuild" else projections
    makers |= {"flow": steps, "endpoint": endpoints}
    make: Callable[..., Statement[Any]] = getattr(makers[verb.on], verb.statement)
    given: dict[str, list[Any]] = {"rows": [[UUID(int=1)]], "key": ["default", "order:1"], "flow": [UUID(int=1)]}
    of_endpoint: dict[str, list[Any]] = {"set_endpoint": ["paused"], "resend_webhook": [[]]}
    given["endpoint"] = [UUID(int=1), *of_endpoint.get(verb.statement, [])]
    of_queues: dict[str, dict[str, Any]] = {
        "limit": {"max_running": 1},
        "retain": {"retention_seconds": 86_400.0},
        "signal": {"name": "go"},
        "postpone": {"until": datetime(2026, 11, 1, tzinfo=UTC)},
    }
    of_queues |= {name: {"queue": "webhooks"} for name in ("set_endpoint", "try_endpoint", "resend_webhook")}
    more: dict[str, Any] = of_queues.get(verb.statement) or ({"reason": "why"} if verb.told else {})
    return make(*given.get(verb.on, ["one"]), **more)


@pytest.mark.parametrize("verb", OPERATOR_VERBS.values(), ids=lambda verb: verb.name)
def test_an_entry_has_its_sql_and_its_statement(verb: OperatorVerb) -> None:
    assert statement_of(verb).name == verb.statement
    assert verb.statement in sql.names("verbs")
    assert set(verb.statuses) <= set(STATUSES)
    assert bool(verb.statuses) == (verb.on == "rows")


@pytest.mark.parametrize("verb", OPERATOR_VERBS.values(), ids=lambda verb: verb.name)
def test_it_is_said_in_one_sentence(verb: OperatorVerb) -> None:
    assert re.fullmatch(r"[A-Z][^.]+\.", verb.does)
    assert not verb.brief[0].isupper()


def test_a_name_in_the_audit_means_one_verb() -> None:
    assert len({verb.audited for verb in OPERATOR_VERBS.values()}) == len(OPERATOR_VERBS)


@pytest.mark.parametrize("verb", OPERATOR_VERBS.values(), ids=lambda verb: verb.name)
def test_it_has_a_command_that_says_so(verb: OperatorVerb) -> None:
    words = verb.command.split()[:1] if verb.on in ONE_COMMAND else verb.command.split()
    ran = CliRunner().invoke(program, [*words, "--help"])
    assert ran.exit_code == 0, ran.output
    assert verb.does in " ".join(ran.output.split())
    if verb.on == "rows":
        assert COMMANDS[verb.command] == verb.brief


def test_commands_that_note_have_an_entry() -> None:
    """The other way round: what takes a reason for the audit stands in the table."""
    noting = {
        f"{name} {each}"
        for name in ("queues", "workers", "flow", "hooks")
        for each, command in _group(name).commands.items()
        if any(option.name == "reason" for option in command.params)
    }
    at_the_terminal_alone = {f"hooks {each}" for each in ("add", "set", "rotate", "replay", "erase")}
    assert noting - at_the_terminal_alone == {verb.command for verb in NAMED.values() if verb.on not in ONE_COMMAND}


def _group(name: str) -> click.Group:
    found = program.get_command(click.Context(program), name)
    assert isinstance(found, click.Group)
    return found


@pytest.mark.parametrize("verb", NAMED.values(), ids=lambda verb: verb.name)
def test_it_has_a_route_that_says_so_and_asks_for_its_role(verb: OperatorVerb) -> None:
    (route,) = [route for route in ROUTES if route.verb == verb.name]
    assert route.changes
    described = document([route], "")["paths"]
    ((operation,),) = [list(methods.values()) for methods in described.values()]
    assert operation["summary"] == verb.does
    assert operation["description"] == f"Needs the role {verb.role}."
    assert VERBS[verb.name] == verb.role


def test_rows_are_acted_on_by_one_route_that_names_every_verb() -> None:
    (route,) = [route for route in ROUTES if route.verb == "act"]
    described = document([route], "")
    assert described["components"]["schemas"]["ActionAsked"]["properties"]["verb"]["enum"] == sorted(ON_ROWS)
    said = described["paths"]["/api/actions"]["post"]["description"]
    assert [line for line in said.splitlines() if "admin" in line] == [
        f"- {name} needs the role admin: {OPERATOR_VERBS[name].does}" for name in ("delete", "erase")
    ]


def test_the_dashboard_is_given_the_table(world: World) -> None:
    with served(world, access=lambda _request: Access("ann", "operate")) as web:
        me = web.get("/api/me").json()
    assert [each["name"] for each in me["operator_verbs"]] == list(OPERATOR_VERBS)
    assert {each["does"] for each in me["operator_verbs"]} == {verb.does for verb in OPERATOR_VERBS.values()}
    may = {name for name, verb in OPERATOR_VERBS.items() if verb.role == "operate"}
    assert set(me["verbs"]) == {"enqueue", *may}, "whom the role is enough for"


@pytest.mark.parametrize("verb", NAMED.values(), ids=lambda verb: verb.name)
def test_a_page_has_its_button(verb: OperatorVerb) -> None:
    shown = [name for name, text in PAGES.items() if f'"{verb.name}"' in text]
    assert shown, "a page asks whether it may be used, and uses it"


def test_no_page_lists_the_verbs_on_rows_again() -> None:
    lists = re.compile(r"\b(redrive|retry|release|cancel|delete|erase): *[{\[\"]")
    assert not [name for name, text in PAGES.items() if lists.search(text)]


def test_a_statement_for_rows_takes_their_ids_and_a_reason_only_where_it_is_kept() -> None:
    for verb in ON_ROWS.values():
        assert ("reason" in inspect.signature(getattr(operators, verb.statement)).parameters) == verb.told, verb.name
    assert operators.redrive is verbs.redrive
