"""`tenure queues`: the rows and settings of each queue; pause, resume, limit and retain one, free or postpone a key."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import NO, BadSettings
from ..model.filter_words import in_unit
from ..model.limits import DELAY_SECONDS_MAX
from ..model.rows import BlockedKey, Depth
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs import questions, queues
from ..verbs.queues import Queue
from ..verbs.statement import Statement
from .database import opened, options
from .limit_options import in_options
from .operators import answer, me, named, noting
from .option_types import Span
from .output import as_json as one_document
from .output import remark, show
from .suggest import Suggesting

T = TypeVar("T")
STATES = ("pending", "scheduled", "processing", "failed", "dead_letter", "cancelled")
HEADS = {"pending": "due"}  # the other pending rows have a column of their own: scheduled


@click.group("queues", cls=Suggesting, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the queues: how many rows in which state, and their settings.

    Pending rows have two columns: `due` and `scheduled` (not due yet). Due rows behind another row of their key are
    counted too; `tenure queues blocked` lists those keys.
    """
    if ctx.invoked_subcommand is not None:
        given = {"database_url": database_url, "schema": schema, "as_json": as_json}
        ctx.default_map = dict.fromkeys(("pause", "resume", "limit", "retain", "free", "postpone", "blocked"), given)
        return
    with _place(database_url, schema) as place:
        depth, known = place.run(questions.depth()), place.run(queues.queues())
    rows = _rows(depth, known)
    if as_json:
        echo(json.dumps({"schema": 1, "queues": rows}, sort_keys=True, default=str))
    else:
        lines = [(row["queue"], *(str(row[state]) for state in STATES), _words(row)) for row in rows]
        show(("queue", *(HEADS.get(state, state) for state in STATES), ""), lines, "no queue has a row or a setting")


@named(command, "pause_queue")
@click.argument("name")
@noting
def pause(name: str, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    with _place(database_url, schema) as place:
        place.warn_of(name, "; it is paused all the same, for rows that may come")
        changed = place.noted(queues.pause(name), name, reason)
    said = f"{name} is paused" if changed else f"{name} was paused already"
    answer(as_json, said, queue=name, paused=True, changed=changed)


@named(command, "resume_queue")
@click.argument("name")
@noting
def resume(name: str, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    with _place(database_url, schema) as place:
        place.warn_of(name)
        changed = place.noted(queues.resume(name), name, reason)
    said = f"{name} goes on" if changed else f"{name} was not paused"
    answer(as_json, said, queue=name, paused=False, changed=changed)


@named(command, "limit_queue")
@click.argument("name")
@click.option("--max-running", type=int, metavar="N", help="Rows that may be processing at once.")
@click.option("--max-per-key", type=int, metavar="N", help="Rows of one key that may be processing at once.")
@click.option("--rate", "rate_per_second", type=float, metavar="R", help="Rows that may start in a second.")
@click.option(
    "--burst",
    type=int,
    metavar="B",
    help="Rows that may start at once, so R + B in a first second; 1 for a flat rate [default: R].",
)
@click.option("--clear", is_flag=True, help="Remove every limit that is not given.")
@click.option("--across", is_flag=True, help="The numbers are for all inboxes together: each gets its share.")
@noting
def limit(
    name: str,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
    across: bool | Mapping[str, str],
    **given: Any,
) -> None:
    """What is not given stays as it was.

    With --across, --max-running and --rate are dealt out over all inboxes of the settings; their workers deal them
    anew when an inbox joins or leaves. A limit without --across ends that.
    """
    if isinstance(across, Mapping):
        from .across import deal_in_all  # imported here: few need it

        deal_in_all(across, {**given, "name": name, "reason": reason, "as_json": as_json, "schema": schema})
        return
    if across:
        raise click.UsageError("--across deals a limit over several inboxes: set TENURE_SHARDS, and leave --inbox out")
    try:
        statement = queues.limit(name, **given)
    except BadSettings as refused:
        raise click.UsageError(in_options(str(refused))) from None
    target = " ".join([name, *(f"{each}={value:g}" for each, value in given.items() if value)])
    with _place(database_url, schema) as place:
        place.warn_of(name, "; it is limited all the same, for rows that may come")
        place.noted(statement, target, reason)
        (now,) = (queue._asdict() for queue in place.run(queues.queues()) if queue.queue == name)
    answer(as_json, f"{name}: {_words(now) or 'no limits'}", **now)


@named(command, "retain_queue")
@click.argument("name")
@click.option("--retention", type=Span(), metavar="AGE", help="How long: 36h, 7d, 4w; an hour at least.")
@click.option("--clear", is_flag=True, help="As long as the workers' own setting says.")
@noting
def retain(
    name: str,
    retention: float | None,
    clear: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Failed rows and dead letters stay until somebody acts on them."""
    if (retention is None) != clear:
        raise click.UsageError("keep its rows for how long? Give --retention 7d, or --clear for the workers' setting")
    try:
        statement = queues.retain(name, retention)
    except BadSettings:
        raise click.UsageError("--retention must be between 1h and ten years") from None
    with _place(database_url, schema) as place:
        place.warn_of(name, "; it is kept in mind all the same, for rows that may come")
        place.noted(statement, f"{name} {'default' if retention is None else in_unit(retention)}", reason)
        (now,) = (queue._asdict() for queue in place.run(queues.queues()) if queue.queue == name)
    answer(as_json, f"{name}: {_words(now) or 'kept as the workers say'}", **now)


@named(command, "free_key")
@click.argument("name")
@click.argument("key")
@noting
def free(name: str, key: str, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    with _place(database_url, schema) as place:
        freed = place.noted(operate.free_key(name, key), f"{name} {key}", reason)
    if not freed:
        echo(f"tenure: key {key!r} of queue {name!r} does not wait for an operator: nothing to free", err=True)
        raise click.exceptions.Exit(NO)
    answer(as_json, f"{key} goes on", queue=name, key=key, freed=True)


@named(command, "postpone_key")
@click.argument("name")
@click.argument("key")
@click.option("--for", "seconds", type=Span(), required=True, metavar="AGE", help="How long from now: 90s, 10m, 2h.")
@noting
def postpone(
    name: str, key: str, seconds: float, reason: str, as_json: bool, database_url: str | None, schema: str | None
) -> None:
    if not 0 < seconds <= DELAY_SECONDS_MAX:
        raise click.UsageError("--for must be above 0 and at most ten years")
    with _place(database_url, schema) as place:
        until = place.run(questions.clock()) + timedelta(seconds=seconds)
        rows = place.noted(operate.postpone(name, key, until), f"{name} {key} {in_unit(seconds)}", reason)
    said = f"{rows:,} row{'s' * (rows != 1)} of {key} postponed by {in_unit(seconds)}"
    answer(as_json, said, queue=name, key=key, postponed=rows)


@command.command(short_help="List the blocked ordered keys, and why.")
@click.option("-n", "most", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Keys at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def blocked(most: int, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the blocked ordered keys, the row that blocks each, and how many rows wait behind it.

    A key with the reason waits_for_operator goes on after `tenure redrive ROW`, `tenure delete ROW`, or
    `tenure queues free QUEUE KEY`.
    """
    with _place(database_url, schema) as place:
        found = place.run(questions.blocked_keys(most))
    if as_json:
        echo(one_document({"schema": 1, "keys": [_blocked(each) for each in found]}))
    else:
        head = ("queue", "key", "waiting", "reason", "row", "status")
        lines = [(k.queue, k.partition_key, str(k.waiting), k.reason, str(k.head), k.status) for k in found]
        show(head, lines, "no key is blocked")


def _blocked(found: BlockedKey) -> dict[str, Any]:
    """Named as over HTTP."""
    return {"key" if name == "partition_key" else name: value for name, value in found._asdict().items()}


class Place(NamedTuple):
    """An open connection, and the schema to use."""

    conn: QueueConnection
    schema: str

    def run(self, statement: Statement[T]) -> T:
        """The answer to one statement."""
        return postgres.run(self.conn, statement, self.schema)

    def noted(self, statement: Statement[T], target: str, reason: str) -> T:
        """Run one change and write its line of the audit."""
        return operate.noted(self.conn, statement, me(), statement.name, target, self.schema, reason=reason)

    def warn_of(self, name: str, then: str = "") -> None:
        """Warn if no row, worker or setting names this queue. The change is made all the same: rows may come later."""
        known = {each.queue for each in self.run(queues.queues()) if each.is_set}
        known |= {each.queue for each in self.run(questions.queue_depths(cap=1))}
        known |= {queue for worker in self.run(questions.workers()) for queue in worker.metadata.get("queues", ())}
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "`tenure queues` lists the known ones."
            said = f"no row, worker or setting names the queue {name!r} yet{then}. {hint}"
            remark(printable(f"tenure: {said}"))


@contextmanager
def _place(database_url: str | None, schema: str | None) -> Iterator[Place]:
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure queues") as conn,
    ):
        migrate.require(conn, database.schema)
        yield Place(conn, database.schema)


def _rows(depth: Sequence[Depth], known: Sequence[Queue]) -> list[dict[str, Any]]:
    """One entry a queue: how many rows are in which state, then its settings, if it has any."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for found in depth:
        counts[found.queue][found.status] = found.rows
    settings = {queue.queue: queue._asdict() for queue in known if queue.is_set}
    return [
        {"queue": name} | counts[name] | settings.get(name, {"paused": False}) for name in sorted({*counts, *settings})
    ]


def _words(queue: Mapping[str, Any]) -> str:
    """The settings of a queue, for people."""
    said = ["paused"] if queue["paused"] else []
    if queue.get("max_running") is not None:
        said.append(f"{queue['running']} of {queue['max_running']} processing")
    if queue.get("max_per_key"):
        said.append(f"{queue['max_per_key']} per key")
    if queue.get("rate_per_second"):
        said.append(f"{queue['rate_per_second']:g} per second, burst {queue['burst']}")
    if queue.get("retention_seconds"):
        said.append(f"kept for {in_unit(queue['retention_seconds'])}")
    return " · ".join(said)
