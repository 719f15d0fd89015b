"""`tenure drill explore`: set the stall, the lease and the guard of a lease race, and see what stops a stale write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import NO
from .database import Database
from .drill import at, describe, options
from .option_types import Number

if TYPE_CHECKING:
    from ..drills.explore import Explore

F = TypeVar("F", bound=Callable[..., Any])
GUARDS = ("none", "owner", "generation", "lease_time", "downstream", "fence")


def choice(name: str, words: tuple[str, ...], default: str, says: str) -> Callable[[F], F]:
    """An option with one of these words."""
    return click.option(name, type=click.Choice(words), default=default, show_default=True, help=says)


def seconds(name: str, least: float, most: float, default: float, says: str) -> Callable[[F], F]:
    """An option in seconds, between least and most."""
    return click.option(name, type=Number(least, most), default=default, show_default=True, help=says)


@click.command("explore")
@choice("--guard", GUARDS, "fence", "What is checked before a write counts.")
@seconds("--lease-seconds", 0.2, 10, 1.0, "How long worker-A's lease is.")
@seconds("--stall-seconds", 0, 15, 2.0, "How long worker-A stands still.")
@choice("--stall", ("frozen", "slow"), "frozen", "The whole process stands still (SIGSTOP), or only its handler.")
@click.option("--renews/--no-renews", default=False, show_default=True, help="A thread of worker-A renews its lease.")
@choice("--taker", ("another", "same"), "another", "worker-B claims under its own name, or under worker-A's.")
@choice("--second", ("busy", "done"), "busy", "worker-B is still at work when worker-A comes back, or has completed.")
@click.option("--matrix", is_flag=True, help="Play every guard in every situation, and print a table.")
@options
def command(matrix: bool, as_json: bool, url: str | None, **asked: Any) -> None:
    """Which guard stops a stale write? Set it up, run it, see.

    worker-A claims a row and stands still, worker-B tries to claim it, worker-A comes back and writes. The guard is one
    SQL statement in the transaction of that write; `fence` is what Tenure does. Exit 0 if the run ended as
    expected for this combination, 1 if not.
    """
    from ..drills.explore import Explore

    question = Explore(**asked)
    with at(url) as database:
        ok = _matrix(database, as_json) if matrix else _one(database, question, as_json)
    if not ok:
        raise click.exceptions.Exit(NO)


def _one(database: Database, asked: Explore, as_json: bool) -> bool:
    """One combination, told as it happens, and its sentence."""
    from ..console.terminal import echo
    from ..drills.explore import explore
    from ..drills.teller import Json, Plain, Teller

    teller: Teller = Json() if as_json else Plain()
    if not as_json:
        echo(f"{describe(database)}\n")
    verdict, words = explore(database.url, asked, teller.event)
    if as_json:
        last = {"at": round(verdict.seconds, 3), "who": "drill", "event": "verdict"}
        echo(json.dumps({**last, **verdict.fields(), **words}))
        return verdict.ok
    teller.verdict(verdict)
    echo(f"\n   {words.get('explanation', 'The run did not finish, so it shows nothing.')}")
    return verdict.ok


def _matrix(database: Database, as_json: bool) -> bool:
    """Every guard in every situation: a line for each guard as soon as it is known."""
    from ..console.terminal import echo
    from ..drills.explore import SITUATIONS

    wide = max(map(len, SITUATIONS)) + 2
    if not as_json:
        echo("".join(f"{word:<{wide}}" for word in ("guard", *SITUATIONS)).rstrip())
    right = True
    for guard in GUARDS:
        cells = [_cell(database.url, guard, situation, as_json) for situation in SITUATIONS]
        right = right and all(ok for _, ok in cells)
        if not as_json:
            echo("".join(f"{word:<{wide}}" for word in (guard, *(word for word, _ in cells))).rstrip())
    if not as_json:
        echo(
            "\nno race: worker-A wrote within its lease · stopped: its stale write was refused · DUPLICATE: both wrote"
        )
        echo("STOLEN: the stale write was accepted, and the current holder refused")
    return right


def _cell(url: str, guard: str, situation: str, as_json: bool) -> tuple[str, bool]:
    """The outcome of one combination, and whether it was the expected one."""
    from ..console.terminal import echo
    from ..drills.explore import SITUATIONS, Explore, explore

    verdict, words = explore(url, Explore(guard, **SITUATIONS[situation]), lambda _: None)  # type: ignore[arg-type]
    if as_json:
        echo(json.dumps({"guard": guard, "situation": situation, **verdict.fields(), **words}))
    harm = str(words.get("harm") or "FAILED")
    return harm.upper() if harm in ("duplicate", "stolen") else harm, verdict.ok
