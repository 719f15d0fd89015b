"""`tenure top`: the fleet in one picture that stays up to date."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
from psycopg import Connection

from .. import postgres
from ..console.terminal import echo
from ..telemetry.log import printable
from ..verbs import history, questions, search
from ..verbs.capacity import BusyQueue, busy_queues
from ..verbs.questions import Member, spoken
from .database import opened, options
from .option_types import Number
from .output import remark
from .reconnect import Reconnecting
from .table import table

LINES_MAX = 20
CAP = 10_001
REFUSALS_MAX = 5


class Picture(NamedTuple):
    """The fleet at one moment."""

    overview: search.Overview
    queues: list[BusyQueue]
    workers: list[Member]
    fence: history.LeaseCounts
    refusals: list[history.Refusal]


@click.command()
@click.option("--once", is_flag=True, help="Print one picture and exit.")
@click.option(
    "--interval",
    "seconds",
    type=Number(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two pictures.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document a picture.")
@options
def command(once: bool, seconds: float, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Show the fleet: rows by state, queues, workers, and the writes that were refused lately.

    On a terminal the picture is redrawn in place, and q or Ctrl-C ends it; into a pipe it is printed at each interval.
    """
    with opened(database_url, schema) as database, Reconnecting(database, "tenure top") as watch:
        try:
            if once:
                _say(look(watch.conn, watch.schema), as_json)
            elif as_json or not _can_draw():
                _print(watch, seconds, as_json)
            else:
                _draw(watch, seconds)
        except KeyboardInterrupt:
            return


def look(conn: Connection[Any], schema: str) -> Picture:
    """One picture: five questions, each of which takes milliseconds however many rows there are."""
    return Picture(
        postgres.run(conn, search.overview(), schema),
        postgres.run(conn, busy_queues(LINES_MAX, cap=CAP), schema),
        postgres.run(conn, questions.workers(), schema),
        postgres.run(conn, history.lease_counts(3600), schema),
        postgres.run(conn, history.recent_refusals(REFUSALS_MAX), schema),
    )


# -- printed


def _print(watch: Reconnecting, seconds: float, as_json: bool) -> None:
    while True:
        if (picture := watch.ask(look)) is None:
            remark(watch.away)
        else:
            _say(picture, as_json)
            if not as_json:
                echo()
        time.sleep(seconds)


def _say(picture: Picture, as_json: bool) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    echo(json.dumps(document(picture), sort_keys=True) if as_json else "\n".join(lines(picture, width)))


def lines(picture: Picture, width: int | None = None) -> list[str]:
    """The picture as plain text; numbers are wrapped where there is no room, other lines are cut."""
    parts = [
        _wrapped(_numbers(picture.overview), width),
        _wrapped(_fence(picture.fence), width),
        "",
        table(("queue", "due", "a second", ""), [_queue(each) for each in picture.queues])
        if picture.queues
        else "no queue has rows",
        "",
        _workers(picture.workers),
    ]
    if picture.refusals:
        parts += [
            "",
            f"the last writes that were refused, at most {REFUSALS_MAX}, however long ago:",
            table(
                ("refused", "worker", "verb", "row", "token", "current", ""),
                [_refusal(each) for each in picture.refusals],
            ),
        ]
    every = [line for part in parts for line in part.splitlines() or [""]]
    return [printable(line)[:width] for line in every]


def _wrapped(fields: list[str], width: int | None) -> str:
    """Fields side by side, on as many lines as they need."""
    every = [""]
    for field in fields:
        longer = f"{every[-1]}   {field}" if every[-1] else field
        if width is not None and len(longer) > width and every[-1]:
            every.append(f"  {field}")
        else:
            every[-1] = longer
    return "\n".join(every)


def _numbers(overview: search.Overview) -> list[str]:
    oldest = overview.oldest_runnable_seconds
    said = {
        "due": _count(overview.runnable),
        "processing": _count(overview.held),
        "scheduled": _count(overview.scheduled),
        "ended badly": _count(overview.dead),
        "oldest": "-" if oldest is None else spoken(oldest),
        "workers": str(overview.workers_alive),
    }
    return [f"{name} {value}" for name, value in said.items()]


def _count(count: search.Count) -> str:
    return f"{count.n}+" if count.more else str(count.n)


def _fence(fence: history.LeaseCounts) -> list[str]:
    """How leases ended; first the number that shows whether the fence was needed."""
    known = fence._asdict()
    said = {"stale_writes_blocked": known.pop("stale_writes_blocked"), **known}
    return ["leases of the last hour:", *(f"{name.replace('_', ' ')} {value}" for name, value in said.items())]


def _queue(queue: BusyQueue) -> tuple[str, ...]:
    due = f"{CAP - 1}+" if queue.due >= CAP else str(queue.due)
    return (queue.queue, due, f"{queue.settled / 60:.1f}", "paused" if queue.paused else "")


def _workers(workers: list[Member]) -> str:
    if not workers:
        return "no workers"
    shown = [_worker(each) for each in workers[:LINES_MAX]]
    more = f"\nand {len(workers) - LINES_MAX} more" if len(workers) > LINES_MAX else ""
    return table(("worker", "status", "seen", "slots", "queues"), shown) + more


def _worker(worker: Member) -> tuple[str, ...]:
    said = worker.metadata
    slots = "-" if worker.status == "dead" else f"{said.get('slots_used', '?')}/{said.get('slots', '?')}"
    return (worker.id, worker.status, f"{worker.seen_seconds:.0f}s", slots, ",".join(said.get("queues", ())) or "?")


def _refusal(refusal: history.Refusal) -> tuple[str, ...]:
    current = "-" if refusal.current_token is None else str(refusal.current_token)
    at = f"{refusal.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return (at, refusal.worker, refusal.verb, str(refusal.row_id), str(refusal.stale_token), current, refusal.reason)


def document(picture: Picture) -> dict[str, Any]:
    """The picture for programs."""
    overview = picture.overview._asdict()
    counts = {name: value._asdict() if isinstance(value, search.Count) else value for name, value in overview.items()}
    return {
        "schema": 1,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "overview": counts,
        "queues": [{**each._asdict(), "more": each.due >= CAP} for each in picture.queues],
        "workers": [each._asdict() for each in picture.workers],
        "fence": picture.fence._asdict(),
        "refusals": [
            {**each._asdict(), "row_id": str(each.row_id), "at": each.at.isoformat()} for each in picture.refusals
        ],
    }


# -- drawn


def _can_draw() -> bool:
    if not sys.stdout.isatty():
        return False
    try:
        import rich.live  # noqa: F401
    except ImportError:
        return False
    return True


def _draw(watch: Reconnecting, seconds: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        picture = None
        while True:
            began = time.monotonic()
            picture = watch.ask(look) or picture
            text = lines(picture, console.width) if picture else []
            foot = " · ".join(filter(None, [watch.away, f"every {seconds:g} s", "q ends this"]))
            live.update(Text("\n".join([*text[: console.height - 2], "", foot]), no_wrap=True), refresh=True)
            if pressed(max(0.0, began + seconds - time.monotonic())) == "q":
                return


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key; the terminal is restored at the end."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    import termios
    import tty

    stream = sys.stdin.fileno()
    before = termios.tcgetattr(stream)
    try:
        tty.setcbreak(stream)
        yield (
            lambda seconds: os.read(stream, 1).decode("latin-1") if select.select([stream], [], [], seconds)[0] else ""
        )
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""
