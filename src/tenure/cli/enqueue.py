"""`tenure enqueue`: put one row into the inbox, or a row for every line of a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from typing import IO, Any

import click
import msgspec

from .. import postgres, verbs
from ..console.terminal import echo
from ..errors import NO, InvalidPayload
from ..model.rows import NewRow
from ..postgres import migrate
from .bulk import send
from .database import opened, options

_DAY = re.compile(r"\d{4}-\d\d-\d\d(Z|[+-].*)?$")
_DELAY = re.compile(r"\+(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("kind")
@click.argument("payload", required=False)
@click.option("--from", "file", type=click.File("rb"), metavar="FILE", help="A JSON payload on each line; - is stdin.")
@click.option("--key", help="Partition key, e.g. order:9182.")
@click.option("--queue", default="default", show_default=True, help="The queue of the row.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher runs sooner, -100 to 100.")
@click.option("--at", metavar="TIME", help="When: +5m, +2h, or an ISO time with its zone.")
@click.option("--idempotency-key", metavar="KEY", help="Sent twice with the same key and content, it is one row.")
@click.option("--max-attempts", type=int, default=5, show_default=True, help="How many attempts it gets.")
@click.option("--ordered", is_flag=True, help="One row of this key at a time, in order.")
@click.option("--hold", is_flag=True, help="With --ordered: if this row ends badly, its key waits for an operator.")
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
@options
def command(kind: str, payload: str | None, file: IO[bytes] | None, at: str | None, as_json: bool, **rest: Any) -> None:
    """Put a row of KIND with a JSON PAYLOAD into the inbox; with --from, one for each line of a file.

    With --from, the line number is added to the idempotency key: you can send a file again after an interruption, and
    no row is enqueued twice. The other options apply to every row.
    """
    if file is not None and payload is not None:
        raise click.UsageError("PAYLOAD and --from contradict each other: give one")
    database_url, schema = rest.pop("database_url"), rest.pop("schema")
    options = {**_when(at), **rest}
    statement = None if file else verbs.enqueue(NewRow(kind, _payload("{}" if payload is None else payload), **options))
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if statement is not None:
            answer = postgres.run(conn, statement, database.schema)
            one = {"schema": 1, "id": str(answer.id), "outcome": answer.outcome}
            echo(json.dumps(one, sort_keys=True) if as_json else f"{answer.outcome} {answer.id}")
        elif file is not None:
            _tell(send(conn, database.schema, file, lambda n, line: _of_line(kind, n, line, options)), as_json)


def _of_line(kind: str, n: int, line: str, options: dict[str, Any]) -> NewRow:
    """The row of one line."""
    key = options["idempotency_key"]
    return NewRow(kind, _payload(line.strip()), **{**options, "idempotency_key": key and f"{key}:{n}"})


def _tell(outcomes: Counter[str], as_json: bool) -> None:
    counts = {name: outcomes[name] for name in ("enqueued", "duplicate", "conflict")}
    said = " · ".join(f"{name} {n:,}" for name, n in counts.items() if n)
    echo(json.dumps({"schema": 1, **counts}, sort_keys=True) if as_json else said or "no rows: the file is empty")
    if counts["conflict"]:
        echo("tenure: an idempotency key was sent before with another payload: its row was not written", err=True)
        raise click.exceptions.Exit(NO)


def _payload(text: str) -> msgspec.Raw:
    """The text as it was typed, with every digit; of two equal names Postgres keeps the last."""
    hint = """write it like {"order_id": 9182}, in the quotes of your shell"""
    if not text.strip():
        raise InvalidPayload(f"PAYLOAD is empty: leave it out to send {{}}, or {hint}")
    try:
        json.loads(text, parse_int=str)
        return msgspec.Raw(text.encode())
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(f"payload {text[:60]!r} is not JSON ({error}): {hint}") from None


def _when(at: str | None) -> dict[str, Any]:
    if at is None:
        return {}
    if found := _DELAY.fullmatch(at):
        return {"delay_seconds": float(found[1]) * _SECONDS[found[2]]}
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        if _DAY.match(at):
            raise _no_time_of_day(at) from None
        raise InvalidPayload(f"--at {at!r} must be a time: write +5m, +2h or 2026-12-24T18:00:00+01:00") from None
    if _DAY.match(at):  # a zone after a bare day would be read as the time of day
        raise _no_time_of_day(at)
    if when.tzinfo is None:
        raise InvalidPayload(f"--at {at!r} has no time zone: write {at}+01:00, or {at}Z for UTC")
    return {"at": when}


def _no_time_of_day(at: str) -> InvalidPayload:
    return InvalidPayload(f"--at {at!r} has no time of day: write {at[:10]}T18:00+01:00, or {at[:10]}T18:00Z for UTC")
