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
from ..model.declaration import Declaration, fill
from ..model.rows import MAX_ATTEMPTS, NewRow
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.kinds import declared
from .bulk import send
from .database import opened, options

_DAY = re.compile(r"\d{4}-\d\d-\d\d(Z|[+-].*)?$")
_DELAY = re.compile(r"\+(\d+(?:\.\d+)?)([smhd])")
_NO_PRIORITY = "--priority does not apply to ordered rows: each key runs in order, and keys take turns"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("kind")
@click.argument("payload", required=False)
@click.option("--from", "file", type=click.File("rb"), metavar="FILE", help="A JSON payload on each line; - is stdin.")
@click.option("--key", help="Partition key, e.g. order:9182 [as the handler declared].")
@click.option("--queue", help="The queue of the row [as the handler declared; default].")
@click.option(
    "--priority", type=int, help="Higher runs sooner, -100 to 100; not for ordered rows [as the handler declared; 0]."
)
@click.option("--at", metavar="TIME", help="When: +5m, +2h, or an ISO time with its zone.")
@click.option("--idempotency-key", metavar="KEY", help="Sent twice with the same key and content, it is one row.")
@click.option("--max-attempts", type=int, help=f"How many attempts it gets [as the handler declared; {MAX_ATTEMPTS}].")
@click.option(
    "--ordered/--not-ordered", default=None, help="One row of this key at a time, in order [as the handler declared]."
)
@click.option(
    "--hold/--no-hold",
    default=None,
    help="With --ordered: if this row ends badly, its key waits for an operator [as the handler declared].",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
@options
def command(kind: str, payload: str | None, file: IO[bytes] | None, at: str | None, as_json: bool, **rest: Any) -> None:
    """Put a row of KIND with a JSON PAYLOAD into the inbox; with --from, one for each line of a file.

    With --from, the line number is added to the idempotency key: you can send a file again after an interruption, and
    no row is enqueued twice. The other options apply to every row.

    Options that are not given are those that the handler of KIND declared: workers publish them when they start. A kind
    that no worker has declared goes to queue default; stderr says so.
    """
    if file is not None and payload is not None:
        raise click.UsageError("PAYLOAD and --from contradict each other: give one")
    database_url, schema = rest.pop("database_url"), rest.pop("schema")
    given, sent = {**_when(at), **rest}, _payload("{}" if payload is None else payload)
    _check(kind, sent, given)
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        rows = _Rows(kind, given, postgres.run(conn, declared(kind), database.schema))
        if file is None:
            answer = postgres.run(conn, verbs.enqueue(rows.of(sent)), database.schema)
            one = {"schema": 1, "id": str(answer.id), "outcome": answer.outcome}
            echo(json.dumps(one, sort_keys=True) if as_json else f"{answer.outcome} {answer.id}")
            rows.tell_hints()
        else:
            sent_rows = send(conn, database.schema, file, rows.of_line)
            rows.tell_hints()
            _tell(sent_rows, as_json)


def _check(kind: str, payload: msgspec.Raw, given: dict[str, Any]) -> None:
    """Refuse what cannot be sent, whatever the handler declared, before a database is asked."""
    told = {name: value for name, value in given.items() if value is not None}
    verbs.enqueue(NewRow(kind, payload, **{"key": "declared", "ordered": True, **told}))


class _Rows:
    """The rows of one command: what was given goes before what the handler declared. Each hint is told once."""

    def __init__(self, kind: str, given: dict[str, Any], ways: list[Declaration]) -> None:
        self._kind, self._given, self._ways = kind, given, ways
        self._hints: dict[str, None] = {}

    def of(self, payload: msgspec.Raw, **more: Any) -> NewRow:
        """One row."""
        options, hint = fill({**self._given, **more}, bytes(payload), self._ways, self._kind)
        if hint:
            self._hints[hint] = None
        if options.get("ordered") and self._given["priority"]:
            self._hints[_NO_PRIORITY] = None
        return NewRow(self._kind, payload, **options)

    def tell_hints(self) -> None:
        """What the sender should know, when the rows are sent."""
        for hint in self._hints:
            echo(f"tenure: {printable(hint)}", err=True)

    def of_line(self, n: int, line: str) -> NewRow:
        """The row of one line."""
        key = self._given["idempotency_key"]
        return self.of(_payload(line.strip()), idempotency_key=key and f"{key}:{n}")


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
