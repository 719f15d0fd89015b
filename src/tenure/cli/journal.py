"""`tenure journal`: read what happened, in all streams or one; erase a stream, or say how long events are kept."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO
from ..model.journal import Event
from ..postgres import migrate
from ..telemetry.log import printable
from ..verbs.journal import READ_MAX, erase_stream, read_after, read_stream, retain_journal
from ..verbs.queues import RETENTION_SECONDS_MAX, RETENTION_SECONDS_MIN
from .asking import agreed, attended
from .database import opened
from .operators import answer, me, noting
from .output import show

DAY = 86_400.0


class KeepDays(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """For how many days events are kept; 0: for ever."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The days, or a usage error."""
        days = float(click.FLOAT(value, param, ctx))
        if days and not RETENTION_SECONDS_MIN <= days * DAY <= RETENTION_SECONDS_MAX:
            self.fail(f"{days:g} must be 0 (for ever), or from an hour (0.042) to ten years (3652)", param, ctx)
        return days


@click.command()
@click.argument("stream", required=False)
@click.option(
    "--after",
    type=click.IntRange(0, (1 << 62) - 1),
    default=0,
    help="After this position, or this version of the stream.",
)
@click.option("--of", multiple=True, metavar="TYPE", help="Only this type, like order.*; may be repeated.")
@click.option(
    "--limit", type=click.IntRange(1, READ_MAX), default=100, show_default=True, help="At most so many events."
)
@click.option("--erase", is_flag=True, help="Delete the stream with all its events.")
@click.option("--keep-days", type=KeepDays(), metavar="DAYS", help="Keep events for so long; 0: for ever.")
@click.option("--yes", is_flag=True, help="Erase without being asked.")
@noting
def command(
    stream: str | None,
    after: int,
    of: tuple[str, ...],
    limit: int,
    erase: bool,
    keep_days: float | None,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Read the journal: the events of STREAM, or of all streams in their order, the first ones first.

    It stops before the first event whose transaction is still open.
    """
    if erase and not stream:
        raise click.UsageError("--erase which stream? name it: tenure journal order:9182 --erase")
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        if erase and stream:
            _erase(conn, stream, yes, reason, as_json, database.schema)
            return
        if keep_days is not None:
            kept = retain_journal(keep_days * DAY or None)
            operate.noted(conn, kept, me(), kept.name, f"{keep_days:g} days", database.schema, reason=reason)
            answer(as_json, f"events are kept {f'for {keep_days:g} days' if keep_days else 'for ever'}", days=keep_days)
            return
        asked = (
            read_stream(stream, after=after, limit=limit) if stream else read_after(after, of=of or None, limit=limit)
        )
        events = postgres.run(conn, asked, database.schema)
    if as_json:
        echo(json.dumps({"schema": 1, "events": [_plain(each) for each in events]}, sort_keys=True))
    else:
        show(("position", "at", "stream", "version", "type", "data"), [_line(each) for each in events], "no events")


def _erase(conn: Any, stream: str, yes: bool, reason: str, as_json: bool, schema: str) -> None:
    if not yes:
        attended(f"--erase would delete the stream {printable(stream)}")
        agreed(f"delete the stream {printable(stream)} with all its events?")
    # The audit keeps no name: it may be a person's.
    n = operate.noted(conn, erase_stream(stream), me(), "erase_stream", "a stream", schema, reason=reason)
    if not n:
        echo(f"tenure: there is no stream {stream!r}: `tenure journal` reads them all", err=True)
        raise click.exceptions.Exit(NO)
    answer(as_json, f"erased {n} event{'s' * (n != 1)}", events=n)


def _plain(event: Event) -> dict[str, Any]:
    plain = {name: getattr(event, name) for name in ("position", "stream", "version", "type", "data", "headers")}
    return {**plain, "id": str(event.id), "at": event.at.isoformat()}


def _line(event: Event) -> tuple[str, ...]:
    at = f"{event.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return (str(event.position), at, event.stream, str(event.version), event.type, event.text[:60])
