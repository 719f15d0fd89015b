"""`tenure enqueue`: put one row into the inbox from a terminal or a script."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import click

from .. import db, migrate, verbs
from ..errors import InvalidPayload
from ..model import NewRow
from .database import opened, options

_DELAY = re.compile(r"\+(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("kind")
@click.argument("payload", default="{}")
@click.option("--key", help="Partition key, e.g. order:9182.")
@click.option("--queue", default="default", show_default=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Higher runs sooner, -100 to 100.")
@click.option("--at", metavar="TIME", help="When: +5m, +2h, or an ISO time with its zone.")
@click.option("--idempotency-key", metavar="KEY", help="Sent twice with the same content, it is one row.")
@click.option("--max-attempts", type=int, default=5, show_default=True)
@click.option("--ordered", is_flag=True, help="One row of this key at a time, in order.")
@click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
@options
def command(kind: str, payload: str, at: str | None, as_json: bool, **rest: Any) -> None:
    """Put one row of KIND with a JSON PAYLOAD into the inbox."""
    database_url, schema = rest.pop("database_url"), rest.pop("schema")
    row = NewRow(kind, _payload(payload), **_when(at), **rest)
    statement = verbs.enqueue(row)
    with opened(database_url, schema) as database, db.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        answer = db.run(conn, statement, database.schema)
    said = json.dumps({"id": str(answer.id), "outcome": answer.outcome}) if as_json else f"{answer.outcome} {answer.id}"
    click.echo(said)


def _payload(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = """quote it like '{"order_id": 9182}'"""
        raise InvalidPayload(f"payload {text[:60]!r} is not JSON ({error}): {hint}") from None


def _when(at: str | None) -> dict[str, Any]:
    if at is None:
        return {}
    if found := _DELAY.fullmatch(at):
        return {"delay_seconds": float(found[1]) * _SECONDS[found[2]]}
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        raise InvalidPayload(f"--at {at!r} is no time: write +5m, +2h or 2026-12-24T18:00:00+01:00") from None
    if when.tzinfo is None:
        raise InvalidPayload(f"--at {at!r} has no time zone: write {at}+01:00, or {at}Z for UTC")
    return {"at": when}
