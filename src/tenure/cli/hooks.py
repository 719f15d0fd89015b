"""`tenure hooks`: endpoints of webhooks, how their calls went; pause, resume, test one, or send it something again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..telemetry.log import printable
from ..verbs import endpoints
from ..verbs.endpoints import DeliveryRow, EndpointCalls, EndpointRow, State
from ..verbs.statement import Statement
from .database import opened, options
from .hook_changes import CHANGES, EndpointId, hooks_at, missing, noted
from .hook_history import erase, replay
from .operators import answer, named, noting
from .option_types import RowId
from .output import as_json as one_document
from .output import remark, said, show
from .suggest import Suggesting

HEAD = ("endpoint", "tenant", "url", "state", "pending", "last answers", "p50", "p99", "note")
CALLS = ("at", "webhook", "kind", "attempt", "answer", "ms", "address", "note")
LISTED_MAX = 1000


@click.group("hooks", cls=Suggesting, invoke_without_command=True)
@click.option("--tenant", metavar="NAME", help="Only the endpoints of this tenant.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(
    ctx: click.Context, tenant: str | None, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    """List the endpoints of webhooks: their state, what waits for each, and how the last calls went.

    The last answers are statuses, the newest first; a dash is a call that nobody answered. No secret is ever shown
    again after `add` and `rotate`.
    """
    if ctx.invoked_subcommand is not None:
        given = {"database_url": database_url, "schema": schema, "as_json": as_json}
        ctx.default_map = dict.fromkeys(command.commands, given)
        return
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        found = postgres.run(conn, endpoints.endpoints(tenant, LISTED_MAX), database.schema)
        calls = postgres.run(conn, endpoints.endpoint_calls([each.id for each in found]), database.schema)
    if as_json:
        echo(one_document({"schema": 1, "endpoints": [_plain(each, calls.get(each.id)) for each in found]}))
        return
    lines = [_line(each, calls.get(each.id)) for each in found]
    show(HEAD, lines, "no endpoint of webhooks: `tenure hooks add TENANT URL --kind KIND` adds one")
    if len(found) == LISTED_MAX:
        remark(f"the first {LISTED_MAX:,}: --tenant shows those of one tenant")


def _plain(each: EndpointRow, calls: EndpointCalls | None) -> dict[str, Any]:
    lately = None if calls is None else {name: of for name, of in calls._asdict().items() if name != "endpoint_id"}
    return {**each._asdict(), "calls": lately}


def _line(each: EndpointRow, calls: EndpointCalls | None) -> tuple[str, ...]:
    lately = ("", "", "")
    if calls is not None:
        lately = (_answers(calls), f"{calls.p50_ms} ms", f"{calls.p99_ms} ms")
    return (str(each.id), each.tenant, each.url, _state(each), str(each.pending), *lately, (each.note or "")[:60])


def _answers(calls: EndpointCalls) -> str:
    return " ".join("-" if status is None else str(status) for status in calls.answers[:5])


def _state(each: EndpointRow) -> str:
    if each.open_until is not None:
        return f"circuit open until {said(each.open_until)[:19]}"
    return each.state


@command.command("show")
@click.argument("id", type=EndpointId())
@click.option(
    "--limit", "n", default=20, show_default=True, type=click.IntRange(1, 1000), help="At most so many calls."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def show_one(id: UUID, n: int, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Show one endpoint and its last calls, the newest first."""
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        found = postgres.run(conn, endpoints.endpoints(id=id), database.schema)
        calls = postgres.run(conn, endpoints.endpoint_calls([id]), database.schema)
        log = postgres.run(conn, endpoints.deliveries(id, n), database.schema)
    if not found:
        echo(f"tenure: {missing(id)}", err=True)
        raise click.exceptions.Exit(NO)
    one = found[0]
    if as_json:
        echo(one_document({"schema": 1, **_plain(one, calls.get(id)), "deliveries": [each._asdict() for each in log]}))
        return
    echo(printable(f"{one.tenant}  {one.url}  {', '.join(one.kinds)}"))
    waits = f"{one.pending:,} row{'s' * (one.pending != 1)} pending"
    often = "once" if one.failures == 1 else f"{one.failures} times in a row"
    failing = f", failed {often} since {said(one.failing_since)}" if one.failing_since else ""
    rotating = f", two secrets sign until {said(one.rotating_until)}" if one.rotating_until else ""
    echo(f"{_state(one)}, {waits}{failing}{rotating}{f': {printable(one.note)}' if one.note else ''}")
    show(CALLS, [_call(each) for each in log], "no call yet")


def _call(each: DeliveryRow) -> tuple[str, ...]:
    status = "no answer" if each.status is None else str(each.status)
    sent = (said(each.at), str(each.webhook_id), each.kind or "-", str(each.attempt))
    return (*sent, status, str(each.ms), each.address or "-", (each.note or "")[:60])


def _set(id: UUID, state: State, verb: str, given: dict[str, Any]) -> None:
    reason = given["reason"]

    def setting(queue: str) -> Statement[int | None]:
        return endpoints.set_endpoint(id, state, queue=queue, note=reason or None)

    with opened(given["database_url"], given["schema"]) as database, hooks_at(database) as conn:
        due = noted(conn, database, verb, id, setting, reason)
    told = f"{id} is {state}" + (f", {due:,} rows are due now" if due else "")
    answer(given["as_json"], told, endpoint=id, state=state, due=due)


@named(command, "pause_endpoint")
@click.argument("id", type=EndpointId())
@noting
def pause(id: UUID, **given: Any) -> None:
    """The reason is shown beside the endpoint."""
    _set(id, "paused", "pause_endpoint", given)


@named(command, "resume_endpoint")
@click.argument("id", type=EndpointId())
@noting
def resume(id: UUID, **given: Any) -> None:
    _set(id, "active", "resume_endpoint", given)


@named(command, "test_endpoint")
@click.argument("id", type=EndpointId())
@noting
def test(id: UUID, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """`tenure hooks show ID` has the answer as soon as a worker has called it."""
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        sent = noted(conn, database, "test_endpoint", id, lambda queue: endpoints.try_endpoint(id, queue=queue), reason)
    answer(as_json, f"sent webhook {sent}: `tenure hooks show {id}` has its calls", endpoint=id, webhook=sent)


@named(command, "resend_webhooks")
@click.argument("id", type=EndpointId())
@click.argument(
    "webhooks", nargs=-1, required=True, type=RowId("a webhook", "`tenure hooks show ENDPOINT` lists them.")
)
@noting
def resend(
    id: UUID, webhooks: tuple[UUID, ...], reason: str, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    """Each WEBHOOK is its id, from `tenure hooks show ID`."""
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        sent = noted(
            conn,
            database,
            "resend_webhooks",
            id,
            lambda queue: endpoints.resend_webhook(id, webhooks, queue=queue),
            reason,
            "or its tenant has none of these webhooks any more",
        )
    left_out = [each for each in dict.fromkeys(webhooks) if each not in sent]
    told = f"{len(sent):,} webhook{'s' * (len(sent) != 1)} will be sent again"
    if left_out:
        told += f"; its tenant has none with the id {', '.join(map(str, left_out))}"
    facts = {"endpoint": id, "asked": len(set(webhooks)), "sent": len(sent), "left_out": left_out}
    answer(as_json, told, **facts)


for each in (*CHANGES, replay, erase):
    command.add_command(each)
