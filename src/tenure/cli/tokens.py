"""`tenure tokens`: named tokens for the HTTP API, kept as hashes, that expire and can be revoked at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo, sentence
from ..errors import NO, BadSettings
from ..model import web_token
from ..model.filter_words import in_unit
from ..operator_verbs import ROLES
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs import witness
from .database import opened, options
from .operators import answer, me, noting
from .option_types import Span
from .output import remark, show
from .suggest import Suggesting

HEAD = ("name", "role", "queues", "reveal", "status", "expires", "last used", "made by")
DAYS_MAX = 3660


@click.group("tokens", cls=Suggesting, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the tokens for the HTTP API; make and revoke them.

    A token is shown once, when it is made; the database keeps a hash. `last used` is right to the minute.
    """
    if ctx.invoked_subcommand is not None:
        given = {"database_url": database_url, "schema": schema, "as_json": as_json}
        ctx.default_map = dict.fromkeys(("create", "list", "revoke"), given)
        return
    _list(as_json, database_url, schema)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def list_all(as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List all tokens, the newest first, also those that expired or were revoked."""
    _list(as_json, database_url, schema)


@command.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="read", show_default=True, help="What it may do.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be given several times.")
@click.option("--expires", type=Span(), default="90d", show_default=True, help="After how long: 30m, 12h, 90d.")
@click.option("--reveal", is_flag=True, help="It may see payloads; each reveal is audited.")
@noting
def create(
    name: str,
    role: str,
    queues: tuple[str, ...],
    expires: float,
    reveal: bool,
    reason: str,
    as_json: bool,
    **place: Any,
) -> None:
    """Make a token and print it, once.

    Send it as `authorization: Bearer TOKEN`. The audit calls its owner token:NAME, and a NAME is never given twice. A
    token for some queues gets no answer about all of them.
    """
    text, actor = web_token.new(), me()
    made = web_token.kept(text)
    assert made is not None
    statement = witness.create_token(
        made.id, made.hash, name=name, role=role, seconds=_checked(expires), created_by=actor.name,
        queues=queues or None, reveal=reveal,
    )  # fmt: skip
    scope = [
        role,
        *(f"queue:{queue}" for queue in queues),
        *(["reveal"] if reveal else []),
        f"expires in {in_unit(expires)}",
    ]
    with _connected(**place) as (conn, where):
        target = f"{name} ({', '.join(scope)})"
        if not operate.noted(conn, statement, actor, "create_token", target, where, reason=reason):
            raise BadSettings(f"a token {name!r} was made before, and a name is never given twice: choose another")
    if not as_json:
        remark(f"token {printable(name)}: {printable(', '.join(scope))}; it is shown only now")
    answer(as_json, text, token=text, name=name, role=role, queues=list(queues) or None, reveal=reveal)


@command.command()
@click.argument("name")
@noting
def revoke(name: str, reason: str, as_json: bool, **place: Any) -> None:
    """Revoke a token: the next request with it is refused."""
    with _connected(**place) as (conn, where):
        known = {each.name: each for each in postgres.run(conn, witness.tokens(), where)}
        if name not in known:
            sentence(f"tenure: there is no token {name!r}: `tenure tokens` lists them", err=True)
            raise click.exceptions.Exit(NO)
        changed = operate.noted(conn, witness.revoke_token(name), me(), "revoke_token", name, where, reason=reason)
    said = f"token {name} is revoked" if changed else f"token {name} was revoked already"
    answer(as_json, said, name=name, revoked=True, changed=changed)


def _list(as_json: bool, database_url: str | None, schema: str | None) -> None:
    with _connected(database_url, schema) as (conn, where):
        found = postgres.run(conn, witness.tokens(), where)
    if as_json:
        lines = [{name: _plain(value) for name, value in each._asdict().items()} for each in found]
        echo(json.dumps({"schema": 1, "tokens": lines}, sort_keys=True))
    else:
        show(HEAD, [_line(each) for each in found], "no token was made: `tenure tokens create NAME` makes one")


@contextmanager
def _connected(database_url: str | None, schema: str | None) -> Iterator[tuple[QueueConnection, str]]:
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure tokens") as conn,
    ):
        migrate.require(conn, database.schema)
        yield conn, database.schema


def _line(each: witness.Token) -> tuple[str, ...]:
    return (
        each.name,
        each.role,
        " ".join(each.queues) if each.queues is not None else "all",
        "yes" if each.reveal else "no",
        each.status,
        _plain(each.expires_at),
        _plain(each.last_used_at) or "never",
        each.created_by,
    )


def _plain(value: Any) -> Any:
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _checked(seconds: float) -> float:
    if not 0 < seconds <= DAYS_MAX * 86_400:
        raise click.UsageError(f"--expires {in_unit(seconds)} must be above 0s and up to {DAYS_MAX}d: as in 90d")
    return seconds
