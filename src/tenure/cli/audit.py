"""`tenure audit`: what operators did, when, to how many rows, and why; its chain is in audit_chain.py beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..operator_verbs import OPERATOR_VERBS
from ..postgres import migrate
from .audit_chain import export, forget, verify
from .database import opened, options
from .output import show
from .suggest import Suggesting

_NAME_OF = {verb.audited: verb.name for verb in OPERATOR_VERBS.values()}
HEAD = ("line", "at", "actor", "as", "via", "verb", "rows", "done", "target", "reason")


@click.group("audit", cls=Suggesting, invoke_without_command=True)
@click.option("-n", metavar="N", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many lines.")
@click.option("--before", type=int, metavar="LINE", help="Only what was done before this line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(
    ctx: click.Context, n: int, before: int | None, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    """List what operators did, the latest first.

    `actor` is the name that the caller gave, `as` its database user, `rows` how many rows it changed. An action that
    turns a switch counts 1, or 0 if the switch was set already. Where `done` says no, the action still runs or was
    broken off, and `rows` says how far it came. With --json, `verb` is the name of the SQL.

    Each line is linked to the one before by a hash: `tenure audit verify` says whether all of them still fit.
    """
    if ctx.invoked_subcommand is not None:
        given = {"database_url": database_url, "schema": schema, "as_json": as_json}
        ctx.default_map = dict.fromkeys(("verify", "export", "forget"), given)  # export is JSON lines in any case
        return
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = postgres.run(conn, operate.audit(n, before), database.schema)
    if as_json:
        echo(json.dumps({"schema": 1, "audit": [_plain(line) for line in found]}, sort_keys=True))
    else:
        nothing = "no operator has done anything" if before is None else f"nothing before line {before}"
        show(HEAD, [_line(line) for line in found], nothing, [line.at for line in found])


for each in (verify, export, forget):
    command.add_command(each)


def _plain(line: operate.AuditLine) -> dict[str, Any]:
    return {**line._asdict(), "at": _time(line.at), "done_at": _time(line.done_at) if line.done_at else None}


def _line(line: operate.AuditLine) -> tuple[str, ...]:
    done = f"{(line.done_at - line.at).total_seconds():.1f}s" if line.done_at else "no"
    return (
        str(line.id),
        _time(line.at),
        line.actor,
        line.database_user,
        line.via,
        _NAME_OF.get(line.verb, line.verb),
        str(line.rows),
        done,
        line.target,
        line.reason,
    )


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
