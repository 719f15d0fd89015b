"""`tenure demo`: a small shop with real workers, and keys to kill and pause them; without a terminal, a tour."""

from __future__ import annotations

import io
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from .. import __version__, settings
from ..errors import NO
from .database import Database, of_our_own, opened
from .door import Doorway, further
from .drill import describe
from .option_types import Number
from .serve import HOST, PORT, address_of, listening

if TYPE_CHECKING:
    from ..demo.opening import Opened
    from ..demo.show import Show

RATE = Number(0.1, 20)
OTHERS = (*settings.URLS, *(f"{name}_FILE" for name in settings.URLS), *settings.LIBPQ)


@click.command("demo")
@click.option("--no-open", is_flag=True, help="Do not open the dashboard in a browser.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help=f"The port of the dashboard [{PORT}].")
@click.option("--reset", is_flag=True, help="First remove the schemas of demos and drills that were killed.")
@click.option("--database-url", metavar="URL", help="Use this database, instead of the embedded Postgres.")
@click.option("--orders-per-second", type=RATE, default=4, show_default=True, help="How busy the shop is.")
def command(no_open: bool, port: int | None, reset: bool, database_url: str | None, orders_per_second: float) -> None:
    """See it work: a small shop, three real workers, the dashboard, and keys.

    The keys kill, pause, add and drain workers, send the same order twice or a poison row, and cut the database.
    Without a terminal it plays a tour of half a minute, and exits 0 if its five proofs hold. It works in a throw-away
    schema, with processes that end with it. It uses the embedded Postgres, or the database of --database-url; one that
    is named elsewhere (TENURE_DATABASE_URL, DATABASE_URL, PGHOST, …) is left alone.
    """
    from ..console.signals import endable
    from ..demo import opening
    from ..demo.show import Show

    settings.check_names(os.environ)
    settings.check_drills()
    live = sys.stdin.isatty() and sys.stdout.isatty()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that this terminal cannot show must not end the demo
    show = Show(footed=live)
    show.line(f"\n  Tenure {__version__} · durable work in Postgres\n")
    if database_url is None:
        _forget_others(show)
    with endable(), _database(database_url) as database:
        _begin(show, database, reset=reset)
        with (
            _listening(port) as listener,
            opening.opened(database.url, show, orders_per_second) as shop,
            _dashboard(show, listener, database, shop, may_open=live and not no_open),
        ):
            ok = _live(show, shop) if live else _tour(show, shop)
    _farewell(show, ok, live=live)
    if not ok:
        raise click.exceptions.Exit(NO)


def _forget_others(show: Show) -> None:
    """Unset every variable that names a database: libpq or our processes would use it, and its rows are not ours."""
    named = [name for name in OTHERS if os.environ.pop(name, "")]
    if named:
        show.line(_line("note", f"{', '.join(named)} left alone: only --database-url takes a demo elsewhere"))


def _database(url: str | None) -> AbstractContextManager[Database]:
    return of_our_own(leave_nothing=True, shared=True) if url is None else opened(url, None, leave_nothing=True)


def _listening(port: int | None) -> AbstractContextManager[socket.socket | None]:
    """The socket of the dashboard; None if the dashboard is not installed."""
    has_web = find_spec("starlette") is not None and find_spec("uvicorn") is not None
    return listening(HOST, port) if has_web else nullcontext()


def _begin(show: Show, database: Database, *, reset: bool) -> None:
    from ..demo import leftovers

    show.line(describe(database))
    if reset:
        show.line(
            _line(
                "removed", ", ".join(leftovers.remove(database.url)) or "nothing: no demo or drill left a schema behind"
            )
        )


@contextmanager
def _dashboard(
    show: Show, listener: socket.socket | None, database: Database, shop: Opened, *, may_open: bool
) -> Iterator[None]:
    """Say what runs where, and serve the dashboard while the block lasts."""
    schema = shop.stage.schema
    show.line(_line("schema", f"{schema}, removed at the end"))
    show.line(_line("workers", f"{len(shop.stage.actors)} alive · 1024 buckets: {shop.shares}"))
    rate = f"{shop.till.per_second:g} orders a second"
    show.line(_line("shop", f"{rate}, each enqueues send_receipt in its own transaction\n"))
    sql = _line("SQL", f"PGOPTIONS=--search_path={schema} {_psql(database)}")
    if listener is None:
        show.line(_line("dashboard", 'not installed: pip install "tenure[web]"'))
        show.line(sql)
        yield
        return
    from ..console.browser import browsing
    from ..demo.dashboard import served

    address = address_of(listener)
    way = Doorway(address, "tenure demo", lambda link: show.line(_line("dashboard", further(link))))
    with served(listener, database.url, schema, way.door), browsing(way.link, wanted=may_open) as opens:
        notes = "  (opens in your browser)" if opens else "  (good once)" if way.is_by_link else ""
        show.line(_line("dashboard", way.link + notes))
        show.line(_line("drills", f"{address}/drills"))
        show.line(sql)
        yield


def _psql(database: Database) -> str:
    """The command to type, without the password: psql asks for it."""
    if database.source == "embedded":
        return "tenure pg psql"
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    words = {name: value for name, value in conninfo_to_dict(database.url).items() if "password" not in name}
    return f"psql {shlex.quote(make_conninfo('', **words))}"


def _live(show: Show, shop: Opened) -> bool:
    """Play until q or Ctrl-C; both are a good end."""
    from ..demo.keys import play

    try:
        play(shop.stage, shop.till, show)
    except KeyboardInterrupt:
        return True
    finally:
        show.end()
    return True


def _tour(show: Show, shop: Opened) -> bool:
    from ..console.terminal import mark
    from ..demo.tour import tour

    verdict = tour(shop.stage, shop.till, show)
    show.line("\n  Five proofs, asked of the database when all was over\n")
    if verdict.trouble:
        show.line(f"  {mark(False)} {verdict.trouble}")
    for n, check in enumerate(verdict.checks, 1):
        show.line(f"  {mark(check.ok)} {n}  {check.sentence}")
    failed = ", ".join(check.name for check in verdict.checks if not check.ok)
    if failed:
        show.line(f"\n  Not proven: {failed}")
    return verdict.ok


def _farewell(show: Show, ok: bool, *, live: bool) -> None:
    show.line()
    if not ok:
        show.line("  The tour failed. The same drills one by one, for a report:  tenure drill all --json")
        return
    show.line("  Nothing of it is left: no process, no schema.\n")
    show.line("  next       tenure drill             each of these alone, with and without its guard")
    if not live:
        show.line("             tenure demo              the same shop with keys, in a terminal")
    show.line("             tenure new my_app        a dozen lines of your own\n")


def _line(word: str, text: str) -> str:
    return f"  {word:<9}  {text}".rstrip(" ")
