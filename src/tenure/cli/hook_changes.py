"""Commands of `tenure hooks` that are not on the dashboard: add, set, rotate, replay, and erase what a tenant left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import click

from .. import operate, postgres
from ..app.inbox import Inbox
from ..errors import BadSettings, NoEndpoint
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..shapes.webhook.endpoint_registry import Registry
from ..shapes.webhook.webhooks import hooks_of
from ..telemetry.log import printable
from ..verbs import endpoints, operators
from ..verbs.kinds import declared
from ..verbs.questions import clock
from ..verbs.statement import Statement, insisting
from .database import Database, opened
from .operators import agreed, answer, attended, me, noting
from .option_types import RowId, Span
from .worker import load

BATCH = 500
LISTS = "`tenure hooks` lists the endpoints"


class EndpointId(RowId):
    """The id of an endpoint."""

    def __init__(self) -> None:
        super().__init__("an endpoint", f"{LISTS}.")


def missing(id: UUID, more: str = "") -> str:
    """The sentence about an endpoint that is not there."""
    return f"there is no endpoint {id}{f', {more}' if more else ''}: {LISTS}"


@contextmanager
def hooks_at(database: Database) -> Iterator[QueueConnection]:
    """A connection to a schema that has what webhooks need."""
    with postgres.connect(database.url, application_name="tenure hooks") as conn:
        migrate.require(conn, database.schema)
        yield conn


def queue_at(conn: QueueConnection, schema: str) -> str:
    """The queue of webhooks in this database."""
    return endpoints.queue_of(postgres.run(conn, declared(endpoints.KIND), schema))


def noted(
    conn: QueueConnection,
    database: Database,
    verb: str,
    id: UUID,
    make: Callable[[str], Statement[Any]],
    reason: str,
    more: str = "",
) -> Any:
    """Run a verb on one endpoint with its line of the audit; NoEndpoint if there is none, and no line."""
    asked = insisting(make(queue_at(conn, database.schema)), NoEndpoint(missing(id, more)))
    return operate.noted(conn, asked, me(), verb, str(id), database.schema, reason=reason)


def registry_of(app: str | None, queue: str) -> Registry:
    """The webhooks of an application with its guard and its codec, or a registry with neither."""
    if app is None:
        return Registry(Inbox(), queue=queue)
    found = hooks_of(load(app))
    if found is None:
        raise BadSettings(f"{app!r} has no webhooks: write `hooks = Webhooks(inbox)` beside its inbox")
    return found


of_app = click.option(
    "--app", metavar="MODULE:INBOX", help="Use the guard and the codec of this application; else neither is known."
)


@click.command("add", short_help="Tell an address of a tenant's webhooks from now on.")
@click.argument("tenant")
@click.argument("url")
@click.option("--kind", "kinds", multiple=True, required=True, help="order.paid, or order.*; may be repeated.")
@of_app
@noting
def add(
    tenant: str,
    url: str,
    kinds: tuple[str, ...],
    app: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Tell URL of the webhooks of TENANT from now on. Its secret is printed once, and never again.

    If the application encrypts, give --app, or the secret stands in clear in the database.
    """
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        adding = registry_of(app, queue_at(conn, database.schema)).adding(tenant=tenant, url=url, kinds=kinds)
        made = operate.noted(conn, adding, me(), adding.name, str(adding.params["id"]), database.schema, reason=reason)
    answer(as_json, f"endpoint {made.id}\nsecret {made.secret}", endpoint=made.id, secret=made.secret)


@click.command("set", short_help="Change the address or the kinds of an endpoint, or disable it.")
@click.argument("id", type=EndpointId())
@click.option("--url", help="Call this address from now on.")
@click.option("--kind", "kinds", multiple=True, help="Tell it of these kinds and no others; may be repeated.")
@click.option("--disable", is_flag=True, help="Send it nothing any more; what waits for it fails.")
@of_app
@noting
def change(
    id: UUID,
    url: str | None,
    kinds: tuple[str, ...],
    disable: bool,
    app: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Change the address or the kinds of an endpoint, or disable it; its circuit is closed."""
    if not (url or kinds or disable):
        raise click.UsageError("set what? Give --url, --kind or --disable; `tenure hooks pause` keeps what is sent")
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        registry = registry_of(app, queue_at(conn, database.schema))
        setting = registry.setting(
            id, "disabled" if disable else None, url=url, kinds=list(kinds) or None, note=reason or None
        )
        asked = insisting(setting, NoEndpoint(missing(id)))
        due = operate.noted(conn, asked, me(), setting.name, str(id), database.schema, reason=reason)
    answer(as_json, f"{id} is {'disabled' if disable else 'changed'}", endpoint=id, disabled=disable, due=due)


@click.command("rotate", short_help="Make another secret; both sign for a while.")
@click.argument("id", type=EndpointId())
@click.option(
    "--overlap", "seconds", type=Span(), default="1d", show_default=True, help="For how long the one before signs too."
)
@of_app
@noting
def rotate(
    id: UUID,
    seconds: float,
    app: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Make another secret for an endpoint, printed once; the one before signs too for a while.

    Refused while an earlier rotation is open. If the application encrypts, give --app.
    """
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        rotating = registry_of(app, queue_at(conn, database.schema)).rotating(id, overlap_seconds=seconds)
        made = operate.noted(conn, rotating, me(), rotating.name, str(id), database.schema, reason=reason)
    answer(as_json, f"secret {made.secret}", endpoint=id, secret=made.secret, overlap_seconds=seconds)


@click.command("replay", short_help="Send an endpoint again all that is kept since a time.")
@click.argument("id", type=EndpointId())
@click.option("--since", "seconds", type=Span(), required=True, help="What was sent in the last 2h, 7d …")
@click.option("--dry-run", is_flag=True, help="Say how many webhooks match, and send none.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def replay(
    id: UUID,
    seconds: float,
    dry_run: bool,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Send an endpoint again what it wants and is kept since a time, the oldest first, each under its own id.

    Webhooks that it has never seen count too: it may have been added since. At most 10,000 at a time.
    """
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        since = postgres.run(conn, clock(), database.schema) - timedelta(seconds=seconds)
        if not postgres.run(conn, endpoints.endpoints(id=id), database.schema):
            raise NoEndpoint(missing(id))
        ids = postgres.run(conn, endpoints.kept_webhooks(id, since), database.schema)
        webhooks = f"{len(ids):,} webhook{'s' * (len(ids) != 1)}"
        if dry_run or not ids:
            answer(as_json, f"{webhooks} would be sent again", endpoint=id, matched=len(ids), dry_run=dry_run, sent=0)
            return
        if not yes:
            attended(f"replay would send {webhooks} again")
            agreed(f"send {webhooks} again?")
        line, sent = _replayed(conn, database.schema, id, ids, reason)
    said = f"{sent:,} of {webhooks} will be sent again · line {line} of the audit"
    answer(as_json, said, endpoint=id, matched=len(ids), dry_run=False, sent=sent, action=line)


def _replayed(conn: QueueConnection, schema: str, id: UUID, ids: list[UUID], reason: str) -> tuple[int, int]:
    """In batches under one line of the audit; its number, and how many."""
    actor, queue, sent = me(), queue_at(conn, schema), 0
    line = postgres.run(
        conn, operators.begin_audit(actor.name, actor.via, "replay", f"webhooks to {id}", reason), schema
    )
    for first in range(0, len(ids), BATCH):
        with conn.transaction():
            done = postgres.run(conn, endpoints.resend_webhook(id, ids[first : first + BATCH], queue=queue), schema)
            postgres.run(conn, operators.mark(line, done, done=False), schema)
        sent += done
    postgres.run(conn, operators.mark(line, 0, done=True), schema)
    operate.sealed(conn, schema)
    return line, sent


@click.command("erase", short_help="Erase what is kept of a tenant: endpoints, bodies, calls.")
@click.argument("tenant")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def erase(tenant: str, yes: bool, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Erase what is kept of TENANT: its endpoints with their secrets, the bodies that were sent, the log of calls.

    What waits to be sent finds nothing and fails. The audit does not keep the name.
    """
    if not yes:
        attended(f"erase would erase every endpoint and webhook of the tenant {printable(tenant)}")
        agreed(f"erase every endpoint and webhook of the tenant {printable(tenant)}?")
    total = [0, 0, 0]
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        while True:
            erasing = endpoints.erase_tenant(tenant)
            found = operate.noted(conn, erasing, me(), erasing.name, "a tenant", database.schema, reason=reason)
            total = [before + more for before, more in zip(total, found, strict=True)]
            if found[1] < endpoints.FORGET_MAX:
                break
    made = dict(zip(("endpoints", "webhooks", "deliveries"), total, strict=True))
    said = f"erased {total[0]:,} endpoints, {total[1]:,} webhooks and {total[2]:,} lines of the log of calls"
    answer(as_json, said, **made)


CHANGES = (add, change, rotate, replay, erase)
