"""`tenure drill tune`: let real workers process a backlog, measure them, and name the bottleneck."""

from __future__ import annotations

import json
from typing import Any

import click

from .drill import at, describe, options
from .drill_explore import seconds
from .option_types import Number


@click.command("tune")
@click.option("--workers", type=click.IntRange(1, 4), default=1, show_default=True, help="Worker processes.")
@click.option("--slots", type=click.IntRange(1, 100), default=10, show_default=True, help="Jobs at once in each.")
@seconds("--handler-seconds", 0, 1, 0.05, "How long a handler waits.")
@seconds("--poll-seconds", 0.05, 5, 2.0, "How often a worker polls.")
@click.option("--listen/--no-listen", default=True, show_default=True, help="Workers are woken by NOTIFY.")
@click.option("--backlog", type=click.IntRange(1, 5000), default=1000, show_default=True, help="Rows, at most.")
@click.option(
    "--arrivals-per-second",
    type=Number(0, 500),
    default=0.0,
    show_default=True,
    help="Enqueue the rows one by one at this rate; 0: all at once.",
)
@seconds("--seconds", 2, 20, 5.0, "How long to measure, at most.")
@options
def command(as_json: bool, url: str | None, **asked: Any) -> None:
    """What is the bottleneck? Change the settings, run it, see.

    Real worker processes process a backlog in a throw-away schema. The numbers were measured in this run, on this
    machine and database: compare them with other runs here, not with other machines.
    """
    from ..console.terminal import echo
    from ..drills.teller import Json
    from ..drills.tune import Tune, perform

    with at(url) as database:
        if not as_json:
            echo(f"{describe(database)}\n")
        answer = perform(database.url, Tune(**asked), Json().event if as_json else lambda _: None)
    if as_json:
        echo(json.dumps({"who": "drill", "event": "tuned", **answer}))
    else:
        echo("\n".join(f"  {name:<22}{figure:>12}" for name, figure in figures(answer)))
        echo(f"\n  {answer['explanation']}")


def figures(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured, by name, with units."""
    return [
        ("rows done", f"{answer['rows']:,}"),
        ("in", f"{answer['seconds']:.2f} s"),
        ("rows a second", f"{answer['rows_per_second']:,.0f}"),
        ("lag, half of them", f"{answer['lag_p50_seconds']:.3f} s"),
        ("lag, 95 % of them", f"{answer['lag_p95_seconds']:.3f} s"),
        ("rows a claim", f"{answer['rows_per_claim']:.1f}"),
        ("slots used", f"{answer['slots_used']:.0%}"),
        ("waiting for claims", f"{answer['claim_share']:.0%}"),
        ("worker CPU", f"{answer['worker_cpu_share']:.0%}"),
        ("database at work", f"{answer['database_share']:.0%}"),
    ]
