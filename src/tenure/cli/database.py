"""How a command gets its database: the URL that was given, or the embedded Postgres if none was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from .. import settings
from ..errors import OldWorkersAlive, SchemaMismatch
from .inbox_told import HERE
from .inboxes import HELP, in_each

if TYPE_CHECKING:
    from .. import embedded

F = TypeVar("F", bound=Callable[..., Any])


class Database(NamedTuple):
    """Where a command works."""

    url: str
    schema: str
    source: str  # which setting the address came from, or "embedded"
    words: str  # for people: what it is and how it came up
    flag: str = ""  # the option that gave the address; commands that we name need it too
    project: embedded.Project | None = None  # whose database of the embedded Postgres it is


def options(command: F) -> F:
    """--database-url, --schema and --inbox, on every command that looks into a database or changes something there."""
    inbox = click.option("--inbox", metavar="NAME", help=HELP)
    return place_options(inbox(in_each(command)))


def place_options(command: F) -> F:
    """--database-url and --schema, on a command that needs a database."""
    url = click.option("--database-url", metavar="URL", help="Where the database is [env: TENURE_DATABASE_URL].")
    schema = click.option(
        "--schema", metavar="NAME", help="The schema of Tenure's tables [env: TENURE_SCHEMA; tenure]."
    )
    return url(schema(command))


def setting(name: str, more: str = "") -> str:
    """The help text of an option that a variable or the settings file can set, too."""
    known = f"TENURE_{name}"
    words = settings.KNOWN[known]
    default = f"; {settings.DEFAULTS[known]}" if known in settings.DEFAULTS else ""
    return f"{words[0].upper()}{words[1:]}{f', {more}' if more else ''} [env: {known}{default}]."


@contextmanager
def opened(
    database_url: str | None,
    schema: str | None,
    flag: str = "--database-url",
    *,
    leave_nothing: bool = False,
    shared: bool = False,
) -> Iterator[Database]:
    """The database of these options. The embedded one runs at least as long as the block.

    There it is the database of the project in the working folder; with `shared` the one for all.

    It stays a little longer, so that the next command starts faster; with `leave_nothing` it ends with the block.
    """
    chosen = settings.load(database_url=database_url, flag=flag, schema=schema)
    if chosen.database_url is not None:
        words, given = f"given by {chosen.database_from}", flag if database_url else ""
        given = f"--inbox {HERE.get()}" if HERE.get() else given
        try:
            yield Database(chosen.database_url, chosen.schema, chosen.database_from, words, given)
        except (SchemaMismatch, OldWorkersAlive) as error:
            raise error.at(given) from None
        return
    with of_our_own(chosen.schema, leave_nothing=leave_nothing, shared=shared) as database:
        yield database


@contextmanager
def of_our_own(
    schema: str = settings.DEFAULT_SCHEMA, *, leave_nothing: bool = False, shared: bool = False
) -> Iterator[Database]:
    """The embedded Postgres, even if the settings name another database."""
    from ..embedded import SHARED, attach, wait_for_end

    server = attach(database=SHARED if shared else None, linger_seconds=0.1 if leave_nothing else 2.0)
    try:
        with server:
            how = f"started in {server.seconds:.1f} s" if server.started else "already running"
            words = f"{server.version}{server.programs}, embedded, {how}"
            yield Database(server.url, schema, "embedded", words, project=server.project)
    finally:
        if leave_nothing and server.started:
            wait_for_end(server.folder)
