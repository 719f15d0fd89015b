"""`tenure flow`: one instance of a workflow: show, signal, cancel; check new code against what is recorded."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO, BadSettings
from ..model.times import day_and_time
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs.flows import FlowState, FlowStep, Told, flow_state, flows, said
from ..verbs.questions import why
from ..verbs.statement import Statement
from ..verbs.steps import cancel_flow, signal
from .database import opened, options
from .flow_check import check_all
from .operators import answer, me, named, noting
from .output import as_json as as_document
from .output import show
from .suggest import Suggesting

LOOK_SECONDS = 0.3
NAMES_MAX = 10_000  # live flows among which a name is looked for
HEAD = ("step", "name", "state", "tries", "recorded", "until", "result or error")
UNKNOWN = "tenure: no flow {}: `tenure flows` lists them"
ENDED = "ended: it takes no more signals and cannot be cancelled, `tenure flow show {}` says how it ended"


@click.group("flow", cls=Suggesting)
def command() -> None:
    """One flow: show, listen, signal, cancel; check new code against what is recorded.

    FLOW is its id or its name: order:9182, or with its workflow checkout:order:9182, which also finds a completed one.
    """


@command.command("show")
@click.argument("flow")
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def show_one(flow: str, form: str | None, database_url: str | None, schema: str | None) -> None:
    """Show where a flow stands, by its id or its name: its steps, what it waits for, what it shows."""
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        state = _state(conn, _id(conn, flow, database.schema), database.schema)
        sentence = postgres.run(conn, why(state.id), database.schema)
    if form == "json":
        steps = [step._asdict() for step in state.steps]
        echo(as_document({"schema": 1, **state._asdict(), "steps": steps}))
        return
    echo(f"{state.workflow} version {state.version}, run {state.run}: {state.status}")
    if state.trouble and (state.waits or state.trouble[:200] not in sentence):
        echo(f"said last: {printable(state.trouble)}")
    for wait in state.waits:
        what = f"tries {wait.name} again at" if wait.state == "retrying" else f"waits for {wait.name} until"
        echo(f"{printable(what)} {day_and_time(wait.until) if wait.until is not None else '-'}")
    if not state.waits:
        echo(printable(sentence))
    if state.cancel is not None:
        echo(f"asked to cancel: {printable(state.cancel)}")
    if state.signals:
        echo(f"signals that nobody has asked for: {printable(', '.join(state.signals))}")
    show(HEAD, [_line(step) for step in state.steps], "no steps recorded")


def _id(conn: QueueConnection, given: str, schema: str) -> UUID:
    """Of the flow with this id or this name; its workflow need not be said where only one has such a flow."""
    with contextlib.suppress(ValueError):
        return UUID(given.strip())
    whole = given if given.startswith("flow:") else f"flow:{given}"
    state = postgres.run(conn, flow_state(None, named=whole), schema)
    listed = postgres.run(conn, flows(n=NAMES_MAX), schema)
    found = [each for each in listed if each.name == f"flow:{each.workflow}:{given}"]
    if state is not None and not found:
        return state.id
    if state is not None:
        raise BadSettings(f"two flows have the name {given!r}: write {whole} or {found[0].name}")
    if len({each.workflow for each in found}) > 1:
        raise BadSettings(f"several workflows have a flow {given!r}: name one, {found[0].workflow}:{given}")
    if not found:
        hint = "" if given == whole else "; of one that has completed, name the workflow too"
        echo(f"{UNKNOWN.format(printable(given))}{hint}", err=True)
        raise click.exceptions.Exit(NO)
    return found[0].id


def _state(conn: QueueConnection, id: UUID, schema: str) -> FlowState:
    state = postgres.run(conn, flow_state(id), schema)
    if state is None:
        echo(UNKNOWN.format(id), err=True)
        raise click.exceptions.Exit(NO)
    return state


def _line(step: FlowStep) -> tuple[str, ...]:
    place = f"{step.path}/{step.n}" if step.path else str(step.n)
    until = day_and_time(step.until) if step.until is not None else "-"
    said = (step.error or step.result or "-")[:60]
    return place, step.name, step.state, str(step.tries), day_and_time(step.recorded_at), until, said


@command.command("listen")
@click.argument("flow")
@options
def listen(flow: str, database_url: str | None, schema: str | None) -> None:
    """Print what a flow says by flow.say, until it ends."""
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        id, after, living = _id(conn, flow, database.schema), 0, True
        while living:
            state = _state(conn, id, database.schema)
            found = postgres.run(conn, said(id, after), database.schema)
            for each in found:
                after = each.n
                echo(printable(each.chunk), nl=False)
            living = bool(found) or state.status in ("pending", "processing")
            time.sleep(0 if found else LOOK_SECONDS)
    echo()


@named(command, "signal_flow")
@click.argument("flow")
@click.argument("name")
@click.argument("payload", default="null")
@click.option("--once", help="Send it only if no signal with this word was sent before.")
@noting
def send(
    flow: str,
    name: str,
    payload: str,
    once: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """The payload is JSON."""
    try:
        value: Any = json.loads(payload)
    except ValueError as error:
        raise BadSettings(f"payload {payload!r} must be JSON ({error}): quote it for the shell") from None
    _change(flow, lambda id: signal(id, name, value, once=once), f" {name}", reason, as_json, database_url, schema)


@named(command, "cancel_flow")
@click.argument("flow")
@noting
def stop(flow: str, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """The reason is written to its row too."""
    why = reason or "cancelled by an operator"
    _change(flow, lambda id: cancel_flow(id, reason=why), "", reason, as_json, database_url, schema)


def _change(
    flow: str,
    act: Callable[[UUID], Statement[Any]],
    about: str,
    reason: str,
    as_json: bool,
    url: str | None,
    schema: str | None,
) -> None:
    with opened(url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        id = _id(conn, flow, database.schema)
        statement = act(id)
        told = Told(statement)
        operate.noted(conn, told.asked, me(), statement.name, f"{id}{about}", database.schema, reason=reason)
    said = {"ended": ENDED.format(id), "unknown": UNKNOWN.format(id)}.get(told.outcome, told.outcome)
    answer(as_json, said, flow=id, outcome=told.outcome)
    if told.outcome in ("ended", "unknown"):
        raise click.exceptions.Exit(NO)


command.add_command(check_all)
