"""`tenure audit verify`, `export` and `forget`: the audit as a chain of hashes, here or in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

import click

from .. import operate, postgres
from ..console.terminal import echo, sentence
from ..errors import NO, USAGE
from ..model.chain import Link, Unfit, Walk
from ..model.filter_words import in_unit
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..verbs import witness
from .asking import agreed, attended
from .database import opened, options
from .operators import answer, me, noting
from .option_types import Span

PAGE = 1000
DAY_SECONDS = 86_400.0
_TIP = re.compile(r"(\d{1,18}):([0-9a-f]{64})")
TIMES = ("at", "done_at")


@click.command()
@click.argument("file", type=click.File("r", encoding="utf-8"), required=False)
@click.option("--tip", metavar="LINK:HASH", help="A tip that was printed before: it must still be in the chain.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def verify(file: TextIO | None, tip: str | None, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Check that no line of the audit was changed, removed or put in between.

    Reads the database, or a FILE that `tenure audit export` wrote. It names the first line that does not fit, and ends
    with 1. It prints the tip, the last link and its hash: keep it elsewhere and give it as --tip next time, because
    whoever owns the database could write a whole chain anew.
    """
    known = _known(tip)
    if file is not None:
        walk, unfit = _walked(_read(file), known)
        more: dict[str, Any] = {}
    else:
        with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
            migrate.require(conn, database.schema)
            walk, unfit, more = _checked(conn, database.schema, known)
    if unfit is None and known and known[0] > walk.seq:
        unfit = Unfit(
            walk.seq, 0, f"the chain ends at link {walk.seq}, before link {known[0]} of --tip: its end is gone"
        )
    facts = {"ok": unfit is None, "links": walk.links, "tip": f"{walk.seq}:{walk.hash}", **more}
    answer(as_json, _said(facts, unfit), **facts, unfit=unfit._asdict() if unfit else None)
    if unfit:
        raise click.exceptions.Exit(NO)


@click.command()
@click.option("--after", type=click.IntRange(0), default=0, metavar="LINK", help="Only links after this one.")
@options
def export(after: int, database_url: str | None, schema: str | None) -> None:
    """Print the audit as JSON lines, one for each link, with its hash and the hash before.

    A hash is the SHA-256 of: the hash before, a line feed, and a JSON array of texts: link, line, "begun" or "ended",
    at, actor, via, verb, target, reason, database user, rows, done at (the last two are empty in a link that is begun).
    """
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        operate.sealed(conn, database.schema)
        for link in _links(conn, database.schema, after):
            echo(json.dumps(_plain(link)))


@click.command()
@click.option(
    "--older-than", "age", type=Span(), required=True, metavar="AGE", help="How old: 52w, 365d; a day at least."
)
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def forget(age: float, yes: bool, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Forget the oldest lines of the audit, for the owner of the schema.

    The chain then begins at the hash of the last forgotten link, and verify begins there. It stops before the first
    action that is younger. An action that was broken off counts from its beginning. Export them first if you must keep
    them.
    """
    if age < DAY_SECONDS:
        raise click.UsageError(f"--older-than {in_unit(age)} must be a day at least: as in 365d")
    if not yes:
        attended(f"forget would remove lines older than {in_unit(age)}")
        agreed(f"forget the lines of the audit that are older than {in_unit(age)}?")
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        operate.sealed(conn, database.schema)
        n = operate.noted(
            conn, witness.forget_audit(age), me(), "forget_audit", f"older than {in_unit(age)}", database.schema,
            reason=reason,
        )  # fmt: skip
    answer(as_json, f"{n:,} lines forgotten", forgotten=n)


def _checked(
    conn: QueueConnection, schema: str, known: tuple[int, str] | None
) -> tuple[Walk, Unfit | None, dict[str, Any]]:
    operate.sealed(conn, schema)
    ends = postgres.run(conn, witness.audit_chain(), schema)
    links = _links(conn, schema, ends.anchor_seq, ends.tip_seq)
    walk, unfit = _walked(links, known, Walk(ends.anchor_seq, ends.anchor_hash))
    if unfit is None and (walk.seq, walk.hash) != (ends.tip_seq, ends.tip_hash):
        unfit = Unfit(walk.seq, 0, f"the chain ends at link {walk.seq}, and its end was link {ends.tip_seq}")
    if unfit is None and ends.stray is not None:
        unfit = Unfit(walk.seq, ends.stray, "the line was linked, and its link is gone")
    return walk, unfit, {"anchor": ends.anchor_seq, "unlinked": ends.unsealed}


def _walked(
    links: Iterator[Link], known: tuple[int, str] | None, walk: Walk | None = None
) -> tuple[Walk, Unfit | None]:
    """Go along them. A file begins where its first link says: it may have been exported after a link."""
    first = next(links, None)
    walk = walk or (Walk(first.seq - 1, first.before) if first else Walk())
    if known and known[0] < walk.seq:
        why = f"it begins after link {walk.seq}, so --tip says nothing: older links were forgotten, or cut off"
        return walk, Unfit(walk.seq, 0, why)
    if known and known[0] == walk.seq and known[1] != walk.hash:
        return walk, Unfit(walk.seq, 0, "the hash that it begins after is not that of --tip: it was written anew")
    for link in _with(first, links) if first else ():
        if unfit := walk.along([link]):
            return walk, unfit
        if known and known[0] == link.seq and known[1] != link.hash:
            return walk, Unfit(link.seq, link.line, "its hash is not that of --tip: the chain was written anew")
    return walk, None


def _with(first: Link, rest: Iterable[Link]) -> Iterator[Link]:
    yield first
    yield from rest


def _links(conn: QueueConnection, schema: str, after: int, upto: int | None = None) -> Iterator[Link]:
    while found := postgres.run(conn, witness.audit_links(after, PAGE), schema):
        for link in found:
            if upto is None or link.seq <= upto:
                yield link
        after = found[-1].seq
        if upto is not None and after >= upto:
            return


def _read(file: TextIO) -> Iterator[Link]:
    for number, text in enumerate(file, 1):
        try:
            given = json.loads(text)
            times = {name: given[name] and datetime.fromisoformat(given[name]) for name in TIMES}
            yield Link(**{**given, **times})
        except (ValueError, TypeError, KeyError, AttributeError):
            sentence(f"tenure: line {number} is not of an export of the audit: give a whole file", err=True)
            raise click.exceptions.Exit(USAGE) from None


def _plain(link: Link) -> dict[str, Any]:
    times = {name: _time(getattr(link, name)) for name in TIMES}
    return {**link._asdict(), **times}


def _time(at: datetime | None) -> str | None:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if at else None


def _known(tip: str | None) -> tuple[int, str] | None:
    found = _TIP.fullmatch(tip) if tip else None
    if tip and not found:
        raise click.UsageError(f"--tip {tip[:80]!r} must be LINK:HASH, as `tenure audit verify` printed it")
    return (int(found[1]), found[2]) if found else None


def _said(facts: dict[str, Any], unfit: Unfit | None) -> str:
    if unfit:
        where = f"line {unfit.line} (link {unfit.seq})" if unfit.line else "an end"
        return f"the audit does not fit at {where}: {unfit.why}"
    waiting = f", {facts['unlinked']:,} lines not linked yet" if facts.get("unlinked") else ""
    return f"ok  {facts['links']:,} links fit{waiting} · tip {facts['tip']}"
