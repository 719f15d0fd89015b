"""`tenure sql`: print the SQL of a verb or question, to read or to run in psql."""

from __future__ import annotations

import json

import click

from .. import settings, sql
from ..console.terminal import echo
from ..other_words import hint
from .output import remark

ROOMS = ("verbs", "questions")
# Names that 0.1.0 printed, and what they are called now.
OLD = {"backlog_per_worker": "backlog", "fence_strip": "lease_counts", "note": "begin_audit"}


@click.command()
@click.argument("name", required=False)
@click.option("--schema", metavar="NAME", help="The schema to write into it [env: TENURE_SCHEMA; tenure].")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(name: str | None, schema: str | None, as_json: bool) -> None:
    """Print the SQL of a verb or question; without a name, list them.

    `:name` is a parameter, as in psql. `tenure sql backlog` has none: an autoscaler can run it.
    """
    chosen = settings.load(schema=schema).schema
    if name is None:
        echo(json.dumps({"schema": 1, **_listing()}, sort_keys=True) if as_json else _words())
        return
    name = _known(name.replace("-", "_"))
    text = sql.in_schema(sql.text(name), chosen)
    if as_json:
        echo(json.dumps({"schema": 1, "name": name, "sql": text}, sort_keys=True))
    else:
        echo(text, nl=False)


def _known(name: str) -> str:
    """The name of a file; an old name works, and stderr has the new one."""
    if name in OLD:
        remark(f"tenure: {name} is called {OLD[name]} now")
        return OLD[name]
    known = [each for room in ROOMS for each in sql.names(room)]
    if name not in known:
        lists = "`tenure sql` lists them"
        raise click.UsageError(f"there is no verb or question {name[:60]!r}: {hint(name, known, lists)}")
    return name


def _listing() -> dict[str, dict[str, str]]:
    """Every file by name, with the sentence it begins with."""
    return {room: {each: _sentence(each) for each in sql.names(room)} for room in ROOMS}


def _sentence(name: str) -> str:
    return sql.text(name).splitlines()[0].removeprefix(f"-- {name}: ")


def _words() -> str:
    lines = []
    for room, found in _listing().items():
        lines += [f"{room}:", *(f"  {name}: {sentence}" for name, sentence in found.items())]
    return "\n".join(lines)
