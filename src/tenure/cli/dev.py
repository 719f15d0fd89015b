"""`tenure dev`: everything it takes to work on an app, in one terminal, and nothing of it left after Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import click

from .. import __version__, postgres, settings
from ..demo.browser import browsing
from ..errors import BadSettings
from ..postgres import migrate
from .database import Database, opened, options, setting
from .door import Doorway, further
from .drill import describe
from .numbers import Number
from .reload import Reloader
from .serve import HOST, PORT, address_of, listening, serve
from .worker import is_path, parted, serving

DRAIN_SECONDS = 2.0  # a save must not have to wait for long; what is not done by then is given back at no cost
DRAIN = Number(0, 3600, min_open=True)


@click.command()
@click.argument("app", metavar="MODULE:INBOX")
@serving
@click.option("--slots", type=int, help=setting("SLOTS"))
@click.option("--drain-seconds", type=DRAIN, default=DRAIN_SECONDS, show_default=True, help="For handlers at a save.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help=f"Of the dashboard [{PORT}].")
@click.option("--no-open", is_flag=True, help="Do not open the dashboard in a browser.")
@click.option("--no-reload", is_flag=True, help="Let the worker run on, whatever is saved.")
@click.option("--remote", is_flag=True, help="Work also on a database of another machine, and migrate it.")
@click.option("-v", "--verbose", is_flag=True, help="Log every job, not only what needs attention.")
@options
def command(app: str, database_url: str | None, schema: str | None, **rest: Any) -> None:
    """Work on your app: `tenure dev app:inbox` or `tenure dev ./app.py:inbox`.

    Starts the embedded Postgres unless a database is named, migrates it, runs a worker that starts anew whenever a
    Python file, pyproject.toml or tenure.toml below this folder is saved, and serves the dashboard. Ctrl-C ends it all.
    """
    from ..drills.signals import endable

    roots = _roots(app)
    with endable(), opened(database_url, schema, leave_nothing=True) as database:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))  # the terminal was closed
        _say(f"\n  Tenure {__version__}, at work on {app}\n")
        _say(describe(database))
        _say(_line("schema", _schema(database, remote=rest["remote"])))
        with listening(HOST, rest["port"]) as listener:
            _say(_line("worker", "as it is now" if rest["no_reload"] else f"starts anew at a save below {roots[0]}"))
            way = Doorway(address_of(listener), "tenure dev", lambda link: _say(_line("dashboard", further(link))))
            _say(_line("dashboard", f"{way.link}{'  (good once)' if way.is_by_link else ''}"))
            _say(f"\n  {_next(database)}\n")
            words, watched = _words(app, schema, rest), () if rest["no_reload"] else roots
            with (
                Reloader(words, _environ(database), watched, rest["drain_seconds"]) as worker,
                browsing(way.link, wanted=not rest["no_open"] and sys.stderr.isatty()),
            ):
                _serve(listener, database, way)
                _hear_nothing()
    sys.stderr.flush()
    os._exit(worker.code)  # as in `serve`: everything of ours is given back


def _roots(app: str) -> list[Path]:
    """Where to look for what is saved: the working directory, and the folder of a file that is elsewhere."""
    module, _ = parted(app)
    here = Path.cwd()
    file = Path(module).resolve()
    return [here, file.parent] if is_path(module) and not file.is_relative_to(here) else [here]


def _schema(database: Database, *, remote: bool) -> str:
    """Migrate it; what is on another machine is not touched unless they say so: its rows may be somebody's."""
    with postgres.connect(database.url, application_name="tenure dev") as conn:
        if not remote and not _is_here(conn.info.host, conn.info.hostaddr):
            raise BadSettings(
                f"{database.source} leads to {conn.info.host}, which is not this machine, and code you are editing "
                "would work off its rows: say --remote if you mean it, or name another with --database-url"
            )
        behind = len(migrate.applied(conn, database.schema)) < migrate.newest()
        done = migrate.apply(conn, database.schema) if behind else []
        migrate.require(conn, database.schema)
    return f"{database.schema}, {'migrated' if done else 'up to date'} (migration {migrate.newest()})"


def _is_here(host: str, address: str) -> bool:
    """A socket in the file system, or loopback: as it was connected to, whatever it was called."""
    from ..web.access import is_loopback

    return host.startswith("/") or is_loopback(address or host)


def _words(app: str, schema: str | None, rest: dict[str, Any]) -> list[str]:
    """What the worker is told; the rest it finds in the same settings as everybody."""
    given = {"--queues": rest["queues"], "--slots": rest["slots"], "--schema": schema}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    verbose = ["--verbose"] if rest["verbose"] else []
    return ["worker", app, "--drain-seconds", str(rest["drain_seconds"]), *options, *verbose]


def _environ(database: Database) -> dict[str, str]:
    """The address goes by a variable: it may hold a password, and arguments are public. PG* speak for themselves."""
    return {**os.environ, **({"TENURE_DATABASE_URL": database.url} if database.url else {})}


def _serve(listener: socket.socket, database: Database, way: Doorway) -> None:
    """The dashboard, with its drills where they are not forbidden, until a signal says that it is enough."""
    from ..web import app

    said = settings.find("TENURE_DRILLS")
    made = app(
        database_url=database.url or None,
        schema=database.schema,
        access=way.door,
        drills=said is None or said.value != "forbid",
    )
    serve(made, listener)


def _hear_nothing() -> None:
    """From here on a further signal would only leave half of the tidying undone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _next(database: Database) -> str:
    sql = "tenure pg psql looks into it, " if database.source == "embedded" else ""
    return f"Ctrl-C ends all of it. In another terminal: {sql}tenure enqueue KIND '{{}}' sends a row."


def _line(word: str, text: str) -> str:
    return f"  {word:<9}  {text}"


def _say(words: str) -> None:
    click.echo(words, err=True)
