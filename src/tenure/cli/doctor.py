"""`tenure doctor`: check everything a queue depends on; a line for each finding, with the next step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .. import postgres, settings
from ..console.terminal import echo, sentence
from ..errors import BUG, NO, NoDatabase
from .database import Database, opened, options
from .inbox_told import HERE
from .output import lines
from .table import painted

if TYPE_CHECKING:
    from psycopg import Connection

    from ..doctor import Finding

Known = list[tuple[str, settings.Found | None]]
COLOURS = {"ok": "green", "warn": "yellow", "fault": "red"}


@click.command()
@click.option("--settings", "only_settings", is_flag=True, help="Print only the settings, each with its source.")
@click.option("--citus", is_flag=True, help="Check a Citus cluster instead; the URL is the coordinator's.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(only_settings: bool, citus: bool, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Check everything a queue depends on; exit 1 if something is at fault.

    It checks settings, versions, schema, clocks, pooler, connections, durability, indexes, vacuum and what holds it
    back, the archive, housekeeping, leases and workers, and names what is full in a fleet that works. It changes
    nothing, and takes seconds, however large the database is.
    """
    known = settings.everything(database_url=database_url, schema=schema)
    if only_settings:
        _show_settings(known, as_json)
        return
    found = []
    for finding in _findings(database_url, schema, citus=citus):
        found.append(finding)
        if not as_json:
            sentence(_line(finding))
    faults = [finding for finding in found if finding.level == "fault"]
    if as_json:
        document = {"schema": 1, "ok": not faults, "findings": [finding._asdict() for finding in found]}
        echo(json.dumps({**document, "settings": _plain(known)}, sort_keys=True, default=str))
    if faults:
        raise click.exceptions.Exit(_code(faults[-1]))


def _code(last: Finding) -> int:
    """A database that does not answer has its own exit codes; any other fault is a no."""
    return int(last.value) if last.check == "database" else NO


def _findings(database_url: str | None, schema: str | None, *, citus: bool = False) -> Iterator[Finding]:
    """One by one; a database that does not answer or does not let us in is the last finding."""
    import psycopg

    from ..doctor import Finding, examine
    from ..doctor.cluster import examine_cluster
    from .errors import explain

    yield _sources(database_url, schema)
    try:
        with opened(database_url, schema) as database:
            if citus:
                yield from examine_cluster(database.url, database.schema)
            else:
                yield from examine(database.url, database.schema, flag=database.flag)
                yield from _one_place(database)
                yield from _twice(database)
    except (psycopg.Error, NoDatabase) as error:
        sentence, code = explain(error)
        if code == BUG:
            raise
        yield Finding("database", "fault", code, sentence, "nothing else can be checked without it")


def _one_place(database: Database) -> Iterator[Finding]:
    """Whether two of several inboxes are one database by two addresses: workers and acts refuse such a list."""
    every = _inboxes(database) if HERE.get() else {}
    if len(every) < 2:
        return
    from ..doctor import Finding
    from .one_place import one_place

    if refused := one_place(every, database.schema):
        yield Finding("inboxes", "fault", sorted(every), str(refused), "workers and acts refuse these settings")
    else:
        yield Finding("inboxes", "ok", sorted(every), "each that answers is a database of its own")


def _twice(database: Database) -> Iterator[Finding]:
    """Whether a schedule that fires in this inbox, one of several, fires in another one too."""
    every = _inboxes(database) if HERE.get() else {}
    if len(every) < 2:
        return
    from ..doctor.fleet import fires_twice
    from ..verbs.schedules import schedules
    from ..worker.places import Places

    def firing(conn: Connection[Any]) -> set[str]:
        return {each.name for each in postgres.run(conn, schedules(), database.schema) if not each.rests}

    with postgres.connect(database.url) as conn, Places(every, database.schema).others(HERE.get()) as others:
        here, there = firing(conn), {inbox: firing(other) for inbox, other in others.items()}
    also_in = {name: [inbox for inbox, names in there.items() if name in names] for name in sorted(here)}
    yield fires_twice(also_in, unseen=sorted(every.keys() - there.keys() - {HERE.get()}))


def _inboxes(database: Database) -> dict[str, str]:
    """The addresses of all inboxes, also if one of them was chosen; on Citus every node knows them."""
    from .inboxes import nodes_of

    return nodes_of(database.url, database.schema) if settings.on_citus() else settings.shards()


def _line(finding: Finding) -> str:
    """ok, warn or fault; the check; what was found; and, after an arrow, what to do."""
    step = f"  → {finding.next}" if finding.next else ""
    return f"{painted(f'{finding.level:<5}', COLOURS[finding.level])}  {finding.check:<20} {finding.said}{step}"


def _sources(database_url: str | None, schema: str | None) -> Finding:
    """Where the two settings that decide everything came from."""
    from ..doctor import Finding

    chosen = settings.load(database_url=database_url, schema=schema)
    named = settings.find("TENURE_SCHEMA", schema, "--schema")
    source = named.source if named else "default"
    where = f"inbox {HERE.get()}" if HERE.get() else chosen.database_from
    said = f"database from {where}, schema {chosen.schema} from {source}"
    return Finding("settings", "ok", {"database": where, "schema": source}, said)


def _plain(known: Known) -> list[dict[str, str | None]]:
    return [
        {"name": name, "value": found.value if found else None, "source": found.source if found else None}
        for name, found in known
    ]


def _show_settings(known: Known, as_json: bool) -> None:
    if as_json:
        echo(json.dumps({"schema": 1, "settings": _plain(known)}, sort_keys=True))
        return
    found = [(name, found.source if found else "not set", found.value if found else "") for name, found in known]
    echo(lines(("setting", "from", "value"), found))
