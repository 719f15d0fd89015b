"""Commands of `tenure hooks` that change endpoints and are not on the dashboard: add, set, rotate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import click

from .. import operate, postgres
from ..app.inbox import Inbox
from ..console.terminal import echo
from ..errors import BadSettings, NoEndpoint
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..shapes.webhook.endpoint_registry import KINDS_MAX, WORD, Endpoint, Registry, check_tenant
from ..shapes.webhook.signing import new_signing_key, public_key
from ..shapes.webhook.webhooks import hooks_of
from ..verbs import endpoints
from ..verbs.kinds import declared
from ..verbs.statement import Statement, insisting
from .database import Database, opened
from .operators import answer, me, noting
from .option_types import RowId, Span
from .worker import load

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


def _kinds(ctx: click.Context, param: click.Parameter, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds themselves, or a usage error."""
    for each in kinds:
        if not WORD.fullmatch(each):
            said = "must be a name of visible ASCII characters, such as order.*"
            raise click.BadParameter(f"{each[:60]!r} {said}", ctx, param)
        if "*" in each[:-1]:
            raise click.BadParameter(f"{each[:60]!r}: a star stands at the end, as in order.*", ctx, param)
    if len(kinds) > KINDS_MAX:
        raise click.BadParameter(
            f"{len(kinds)} kinds are given, {KINDS_MAX} at most: order.* stands for many", ctx, param
        )
    return kinds


def _tenant(ctx: click.Context, param: click.Parameter, tenant: str) -> str:
    """The tenant itself, or a usage error."""
    try:
        return check_tenant(tenant)
    except BadSettings as refused:
        raise click.BadParameter(str(refused).removeprefix("tenant="), ctx, param) from None


of_app = click.option(
    "--app", metavar="MODULE:INBOX", help="Use the guard and the codec of this application; else neither is known."
)


ed25519 = click.option(
    "--ed25519", "asymmetric", is_flag=True, help="Sign with a key of ours; the receiver is given its public half."
)


def told(made: Endpoint, asymmetric: bool) -> dict[str, str]:
    """What the receiver needs: a secret to share, or a public key. A signing key is never printed."""
    return {"public_key": public_key(made.secret)} if asymmetric else {"secret": made.secret}


@click.command("add", short_help="Tell an address of a tenant's webhooks from now on.")
@click.argument("tenant", callback=_tenant)
@click.argument("url")
@click.option(
    "--kind", "kinds", multiple=True, required=True, callback=_kinds, help="order.paid, or order.*; may be repeated."
)
@ed25519
@of_app
@noting
def add(
    tenant: str,
    url: str,
    kinds: tuple[str, ...],
    asymmetric: bool,
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
        secret = new_signing_key() if asymmetric else None
        registry = registry_of(app, queue_at(conn, database.schema))
        adding = registry.adding(tenant=tenant, url=url, kinds=kinds, secret=secret)
        made = operate.noted(conn, adding, me(), adding.name, str(adding.params["id"]), database.schema, reason=reason)
    facts = told(made, asymmetric)
    answer(as_json, f"endpoint {made.id}", endpoint=made.id, **facts)
    _print(as_json, facts)


@click.command("set", short_help="Change the address or the kinds of an endpoint, or disable it.")
@click.argument("id", type=EndpointId())
@click.option("--url", help="Call this address from now on.")
@click.option(
    "--kind", "kinds", multiple=True, callback=_kinds, help="Tell it of these kinds and no others; may be repeated."
)
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
    "--overlap",
    "seconds",
    type=Span("30d"),
    default="1d",
    show_default=True,
    help="For how long the one before signs too.",
)
@ed25519
@of_app
@noting
def rotate(
    id: UUID,
    seconds: float,
    asymmetric: bool,
    app: str | None,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Make another secret for an endpoint, printed once; the one before signs too for a while.

    Refused while an earlier rotation is open, but for --overlap 0s: then no other secret signs from now on, also none
    of an earlier rotation. Do that if one has leaked. If the application encrypts, give --app.
    """
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        if not postgres.run(conn, endpoints.endpoints(id=id), database.schema):
            raise NoEndpoint(missing(id))
        secret = new_signing_key() if asymmetric else None
        registry = registry_of(app, queue_at(conn, database.schema))
        rotating = registry.rotating(id, overlap_seconds=seconds, secret=secret)
        made = operate.noted(conn, rotating, me(), rotating.name, str(id), database.schema, reason=reason)
    facts = told(made, asymmetric)
    answer(as_json, f"endpoint {id}", endpoint=id, overlap_seconds=seconds, **facts)
    _print(as_json, facts)


def _print(as_json: bool, facts: dict[str, str]) -> None:
    for name, value in facts.items() if not as_json else ():
        echo(f"{name.replace('_', ' ')} {value}")


CHANGES = (add, change, rotate)
