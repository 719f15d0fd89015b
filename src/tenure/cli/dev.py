"""`tenure dev`: all you need to work on an app, in one terminal; after Ctrl-C nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from .. import __version__, postgres, settings
from ..console.browser import browsing
from ..console.loopback import is_loopback
from ..console.terminal import echo
from ..errors import BadSettings
from ..postgres import migrate
from .database import Database, opened, place_options, setting
from .door import Doorway, further
from .drill import describe
from .option_types import Number
from .reload import Reloader
from .serve import HOST, PORT, address_of, listening, serve
from .worker import is_path, parted, serving

DRAIN_SECONDS = 2.0  # short, so that a save takes effect soon; rows that are not done are given back at no cost
DRAIN = Number(0, 3600, min_open=True)


@click.command()
@click.argument("app", metavar="MODULE:INBOX")
@serving
@click.option("--slots", type=int, help=setting("SLOTS"))
@click.option(
    "--drain-seconds",
    type=DRAIN,
    default=DRAIN_SECONDS,
    show_default=True,
    help="How long handlers may finish after a save.",
)
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help=f"The port of the dashboard [{PORT}].")
@click.option("--no-open", is_flag=True, help="Do not open the dashboard in a browser.")
@click.option("--no-reload", is_flag=True, help="Do not restart the worker when a file is saved.")
@click.option("--remote", is_flag=True, help="Allow a database on another machine, and migrate it.")
@click.option("-v", "--verbose", is_flag=True, help="Log every event instead of a line for each job.")
@place_options
def command(app: str, database_url: str | None, schema: str | None, **rest: Any) -> None:
    """Work on your app: `tenure dev app:inbox` or `tenure dev ./app.py:inbox`.

    It starts the embedded Postgres unless you name a database, migrates it, runs a worker and serves the dashboard.
    Each job is a line with its time, each failure has its traceback below it. The worker restarts when a Python file,
    pyproject.toml or tenure.toml below this folder is saved. Ctrl-C ends all of it.
    """
    from ..console.signals import endable

    roots = _roots(app)
    with endable(), opened(database_url, schema, leave_nothing=True) as database:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))  # the terminal was closed
        _say(f"\n  Tenure {__version__}, at work on {app}\n")
        _say(describe(database))
        for line in _whose(database):
            _say(line)
        _say(_line("schema", _schema(database, remote=rest["remote"])))
        with listening(HOST, rest["port"]) as listener:
            _say(
                _line(
                    "worker",
                    "does not restart" if rest["no_reload"] else f"restarts when a file below {roots[0]} is saved",
                )
            )
            way = Doorway(address_of(listener), "tenure dev", lambda link: _say(_line("dashboard", further(link))))
            _say(_line("dashboard", f"{way.link}{'  (good once)' if way.is_by_link else ''}"))
            _say(f"\n  {_next(database)}\n")
            words, watched = _words(app, schema, rest), () if rest["no_reload"] else roots
            with (
                Reloader(words, _environ(database), watched, rest["drain_seconds"]) as worker,
                browsing(way.link, wanted=not rest["no_open"] and sys.stderr.isatty()),
            ):
                _until_a_signal(lambda: _serve(listener, database, way))
    sys.stderr.flush()
    os._exit(worker.code)  # as in `serve`: everything of ours is given back


def _roots(app: str) -> list[Path]:
    """The folders to watch: the working directory, and the folder of a file that is elsewhere."""
    module, _ = parted(app)
    here = Path.cwd()
    file = Path(module).resolve()
    return [here, file.parent] if is_path(module) and not file.is_relative_to(here) else [here]


def _schema(database: Database, *, remote: bool) -> str:
    """Migrate the database, and say so. One on another machine is refused without --remote: others may use its rows."""
    with postgres.connect(database.url, application_name="tenure dev") as conn:
        if not remote and not _is_here(conn.info.host, conn.info.hostaddr):
            raise BadSettings(
                f"{database.source} names a database on {conn.info.host}, which is not this machine, and code you are "
                "editing would process its rows: add --remote if you mean it, or name another with --database-url"
            )
        behind = len(migrate.applied(conn, database.schema)) < migrate.newest()
        done = migrate.apply(conn, database.schema) if behind else []
        migrate.require(conn, database.schema)
    return f"{database.schema}, {'migrated' if done else 'up to date'} (migration {migrate.newest()})"


def _whose(database: Database) -> Iterator[str]:
    """Whose rows the embedded database has, and where rows of 0.1.0 are left."""
    from .. import embedded

    if database.project is None:
        return
    ours = database.project
    yield _line("project", f"{ours.database}, a database of its own for {ours.source}")
    if ours.database != embedded.SHARED and (rows := embedded.rows_of_all(database.url)):
        kept = f"TENURE_PROJECT={embedded.SHARED}"
        yield _line("before", f"{rows:,} rows of 0.1.0, where all projects shared one database, are kept:")
        yield _line("", f"`{kept} tenure rows` shows them, `{kept} tenure dev …` works on them")


def _is_here(host: str, address: str) -> bool:
    """Whether the connection goes to a socket in the file system or to loopback; its name does not count."""
    return host.startswith("/") or is_loopback(address or host)


def _words(app: str, schema: str | None, rest: dict[str, Any]) -> list[str]:
    """The arguments of the worker; the rest it reads from the settings."""
    given = {"--queues": rest["queues"], "--slots": rest["slots"], "--schema": schema}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    verbose = ["--verbose"] if rest["verbose"] else ["--jobs"]
    return ["worker", app, "--drain-seconds", str(rest["drain_seconds"]), *options, *verbose]


def _environ(database: Database) -> dict[str, str]:
    """The worker's environment, with the URL: it may hold a password, and arguments are public.

    It has no other inboxes: code you are editing works on this database alone. A variable goes before the file's.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("TENURE_SHARDS", "TENURE_SHARDS_FILE")}
    return {**kept, **({"TENURE_DATABASE_URL": database.url} if database.url else {})}


def _serve(listener: socket.socket, database: Database, way: Doorway) -> None:
    """Serve the dashboard until a signal; with drills, unless they are forbidden."""
    from ..web import app

    said = settings.find("TENURE_DRILLS")
    made = app(
        database_url=database.url or None,
        schema=database.schema,
        access=way.door,
        drills=said is None or said.value != "forbid",
    )
    serve(made, listener)


def _until_a_signal(serve: Callable[[], None]) -> None:
    """Serve; a signal that comes before the server minds it, or after, ends it just as well. Later ones are ignored."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        serve()
    except KeyboardInterrupt:
        pass
    except SystemExit as end:
        if end.code not in [128 + number for number in ending]:  # what `endable` makes of a signal
            raise
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_IGN)  # it would only interrupt the clean-up


def _next(database: Database) -> str:
    sql = "tenure pg psql opens psql, " if database.source == "embedded" else ""
    return f"Ctrl-C ends all of it. In another terminal: {sql}tenure enqueue KIND '{{}}' sends a row."


def _line(word: str, text: str) -> str:
    return f"  {word:<9}  {text}"


def _say(words: str) -> None:
    echo(words, err=True)
