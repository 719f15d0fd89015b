"""`tenure outbox`: how far behind each outbox is, whether its broker is away, and events published again."""

from __future__ import annotations

from typing import Any

import click

from .. import postgres
from ..console.terminal import echo
from ..model.filter_words import in_unit
from ..postgres import migrate
from ..shapes.outbox.replay import matching, narrowed
from ..shapes.outbox.replay import replay as publish_again
from ..telemetry.log import printable
from ..verbs import outboxes, questions
from ..verbs.outboxes import Away, OutboxDepth, away_of, served_by
from .asking import agreed, attended
from .database import opened, options
from .filter import filter_of
from .operators import answer, me, noting
from .output import as_json as one_document
from .output import show
from .suggest import Suggesting

HEAD = ("outbox", "waiting", "sending", "postponed", "lag", "blocked keys", "dead", "broker")


@click.group("outbox", cls=Suggesting, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the outboxes: what waits, for how long, and since when a broker is away.

    The lag is the age of the oldest event that is not confirmed. `tenure queues blocked` lists keys that wait for you.
    """
    if ctx.invoked_subcommand is not None:
        ctx.default_map = {"replay": {"database_url": database_url, "schema": schema, "as_json": as_json}}
        return
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        found = postgres.run(conn, outboxes.outboxes(), database.schema)
        workers = postgres.run(conn, questions.workers(), database.schema)
    away, served = away_of(workers), served_by(workers, found)
    if as_json:
        every = [
            {
                **each._asdict(),
                "away": [one._asdict() for one in away.get(each.outbox, [])],
                "served": each.outbox in served,
            }
            for each in found
        ]
        echo(one_document({"schema": 1, "outboxes": every}))
    else:
        lines = [_line(each, away.get(each.outbox, []), each.outbox in served) for each in found]
        show(HEAD, lines, "no worker has declared an outbox")


def _line(each: OutboxDepth, away: list[Away], served: bool) -> tuple[str, ...]:
    lag = "" if each.oldest_seconds is None else in_unit(max(0, int(each.oldest_seconds)))
    said = "reached" if served else "no worker serves it"
    if away:
        said = f"away since {min(one.since for one in away)[:19]}: {away[0].error}"
    counts = (each.pending, each.processing, each.postponed)
    return (each.outbox, *map(str, counts), lag, str(each.blocked), str(each.dead), printable(said))


@command.command(short_help="Publish events again that a broker has confirmed before.")
@click.argument("words", nargs=-1, metavar="FILTER...")
@click.option("--dry-run", is_flag=True, help="Say how many events match, and publish none.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def replay(words: tuple[str, ...], dry_run: bool, yes: bool, reason: str, as_json: bool, **place: Any) -> None:
    """Publish completed events again, the oldest first: new rows with the same event id, sent like all others.

    FILTER as in `tenure rows`, and type:order.paid for the type of an event. Events are found for as long as the
    archive keeps them. Consumers that dedupe by the event's id drop what they have seen.
    """
    if not words:
        raise click.UsageError("replay which events? Give a filter such as kind:outbox:shop type:order.paid age:<2h")
    filter = filter_of(words, also={"type": "payload.type"})
    with opened(**place) as database, postgres.connect(database.url, application_name="tenure outbox") as conn:
        migrate.require(conn, database.schema)
        ids = matching(conn, filter, database.schema)
        facts: dict[str, Any] = {"filter": str(narrowed(filter)), "matched": len(ids), "dry_run": dry_run}
        events = f"{len(ids):,} event{'s' * (len(ids) != 1)}"
        if dry_run or not ids:
            answer(as_json, f"{events} would be published again: {facts['filter']}", **facts)
            return
        if not yes:
            attended(f"replay would publish {events} again")
            agreed(f"publish {events} again?")
        line, done = publish_again(conn, ids, filter, me(), database.schema, reason)
    said = f"{done:,} of {events} published again · line {line} of the audit"
    answer(as_json, said, **facts, replayed=done, action=line)
