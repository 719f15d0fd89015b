"""`tenure row`: one row with its columns, its lease tape, and why it is in its state."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..model.envelope import shown
from ..model.rows import Attempt, Row
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs import history, questions, search
from ..verbs.history import Refusal
from ..verbs.results import Left, left
from .database import opened, options
from .option_types import NEXT, RowId
from .output import as_json, document, error_line, said
from .table import draws

TAPE_WIDTH = 40
LABELS = {"generation": "token"}  # for people; programs read the names of the API


class Picture(NamedTuple):
    """All that is known about a row."""

    row: Row
    why: str
    attempts: list[Attempt]
    refusals: list[Refusal]
    effects: list[search.Effect]
    first_sent: tuple[str, datetime] | None
    left: Left
    now: datetime


@click.command()
@click.argument("id", type=RowId())
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@options
def command(id: UUID, form: str | None, database_url: str | None, schema: str | None) -> None:
    """Show a row: why it is in its state, its columns, and each attempt: who held it, when, and how that ended.

    The lease tape draws each attempt over time: the line is full while the row was held. An x is a write that was
    refused because its lease was over.
    """
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure row") as conn,
    ):
        migrate.require(conn, database.schema)
        picture = _look(conn, id, database.schema)
    if picture is None:
        sentence = questions.no_row(id)
        if form == "json":
            echo(as_json({"schema": 1, "row": None, "why": sentence}))
        else:
            echo(f"{sentence} {NEXT}", err=True)
        raise click.exceptions.Exit(NO)
    echo(as_json(_document(picture)) if form == "json" else "\n".join(_lines(picture)))


def _look(conn: QueueConnection, id: UUID, schema: str) -> Picture | None:
    with conn.transaction():
        row = postgres.run(conn, questions.row(id), schema)
        if row is None:
            return None
        asked = (
            questions.why(id),
            questions.tape(id),
            history.refusals(id),
            search.effects(id),
            search.first_sent(id),
            left(id),
            questions.clock(),
        )
        answers: list[Any] = [postgres.run(conn, question, schema) for question in asked]
    return Picture(row, *answers)


def _document(picture: Picture) -> dict[str, Any]:
    return {
        "schema": 1,
        "row": document(picture.row),
        "why": picture.why,
        "attempts": [
            {
                "generation": each.lease_generation,
                "fence": each.fence_token,
                "worker": each.worker,
                "claimed_at": each.claimed_at,
                "ended_at": each.ended_at,
                "outcome": each.outcome,
                "error": each.error,
            }
            for each in picture.attempts
        ],
        "refusals": [
            {name: value for name, value in each._asdict().items() if name not in ("row_id", "kind")}
            for each in picture.refusals
        ],
        "effects": [{"effect": e.effect, "fence": e.fence_token, "done_at": e.done_at} for e in picture.effects],
        "progress": picture.left.at and {"at": picture.left.at, "share": picture.left.share, "note": picture.left.note},
        "result": picture.left.value and json.loads(picture.left.value),
        "batch": picture.left.batch,
        "idempotency": picture.first_sent and dict(zip(("key", "first_at"), picture.first_sent, strict=True)),
    }


def _lines(picture: Picture) -> list[str]:
    fields = document(picture.row)
    error, payload, headers = fields.pop("last_error"), fields.pop("payload"), fields.pop("headers")
    every = [printable(picture.why), ""]
    every += [f"{LABELS.get(name, name):<16}  {said(value)}" for name, value in fields.items() if value is not None]
    every += [f"{'payload':<16}  {printable(shown(payload))}"]
    every += [f"{'headers':<16}  {printable(headers)}"] if headers else []
    every += [f"{name:<16}  {value}" for name, value in _left(picture.left) if value]
    every += _section(
        "earlier error" if picture.row.status == "completed" else "last error",
        [printable(line) for line in (error or "").strip().splitlines()],
    )
    every += _section("lease tape", tape(picture) if picture.attempts else [])
    done = [f"{printable(e.effect)}  {said(e.done_at)}  fence {e.fence_token}" for e in picture.effects]
    return every + _section("effects", done)


def _left(left: Left) -> list[tuple[str, str]]:
    """How far it is, what it returned, and of which batch it is."""
    share = "" if left.share is None else f"{left.share:.0%} "
    told = f"{share}{printable(left.note or '')} at {said(left.at)}" if left.at else ""
    uncounted = ", which had ended when it was redriven: not counted" if left.uncounted else ""
    batch = f"{left.batch}{uncounted}" if left.batch is not None else ""
    return [("progress", told), ("result", printable(shown(left.value or ""))), ("batch", batch)]


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def tape(picture: Picture) -> list[str]:
    """The attempts as bars on one time axis, the oldest first; then the refused writes."""
    moments = [each.claimed_at for each in picture.attempts] + [each.at for each in picture.refusals]
    moments += [each.ended_at or picture.now for each in picture.attempts]
    first, last = min(moments), max(moments)
    workers = [each.worker for each in picture.attempts] + [each.worker for each in picture.refusals]
    wide = max(len(printable(each)) for each in workers)
    lines = [
        f"{_bar(each.claimed_at, each.ended_at or picture.now, first, last)}{printable(each.worker):<{wide}}  "
        f"{said(each.claimed_at)} to {said(each.ended_at)}  {_outcome(each, picture.row)}  "
        f"token {each.lease_generation}  fence {each.fence_token}  {error_line(each.error)}".rstrip()
        for each in picture.attempts
    ]
    return lines + [
        f"{_bar(each.at, None, first, last)}{printable(each.worker):<{wide}}  {said(each.at)}  "
        f"{each.verb} refused: {each.reason}  token {each.stale_token}"
        for each in picture.refusals
    ]


def _outcome(attempt: Attempt, row: Row) -> str:
    """How an attempt ended; for the one that ended the row, how the row ended."""
    if attempt.ended_at is None or attempt.ended_at != row.finished_at or row.status in ("completed", "failed"):
        return attempt.outcome
    return f"expired, {row.status}" if attempt.outcome == "expired" else row.status


def _bar(start: datetime, end: datetime | None, first: datetime, last: datetime) -> str:
    """A span of time on the axis from first to last, or without an end a moment; empty where nothing is drawn."""
    if not draws():
        return ""
    whole = (last - first).total_seconds() or 1.0
    left = min(TAPE_WIDTH - 1, int(TAPE_WIDTH * (start - first).total_seconds() / whole))
    if end is None:
        return ("·" * left + "x").ljust(TAPE_WIDTH, "·") + "  "
    width = max(1, round(TAPE_WIDTH * (end - start).total_seconds() / whole))
    return ("·" * left + "━" * width).ljust(TAPE_WIDTH, "·")[:TAPE_WIDTH] + "  "
