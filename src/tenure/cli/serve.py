"""`tenure serve`: the dashboard and the HTTP API, for this machine only unless credentials are set."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .. import postgres, settings
from ..console.loopback import is_loopback
from ..console.terminal import echo
from ..errors import BadSettings, NoDatabase, SchemaMismatch, TenureError
from ..postgres import migrate
from ..postgres.connection import soon_given_up
from ..verbs.questions import place
from ..worker.places import Places
from .database import Database, opened, place_options
from .door import Doorway, check_reach, further
from .inbox_told import Told, side_by_side
from .inboxes import chosen

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ..worker.config import Terms

HOST = "127.0.0.1"
PORT = 7117


@click.command()
@click.option("--host", metavar="HOST", help=f"Where to listen [env: TENURE_WEB_HOST; {HOST}].")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"The port; 0 takes any free one [env: TENURE_WEB_PORT; {PORT}].",
)
@click.option("--prefix", default="", metavar="PATH", help="Serve below this path, e.g. /tenure.")
@click.option("--hide-payloads", is_flag=True, help="Hide every payload.")
@click.option("--redact", default="", metavar="NAMES", help="More names whose values are hidden, e.g. iban,phone.")
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option("--allowed-host", "allowed", multiple=True, metavar="NAME", help="Another name of this machine.")
@click.option("--drills", is_flag=True, help="Let admins play drills with real processes; on loopback only.")
@click.option("--insecure", is_flag=True, help="Let everybody in as admin, on any address.")
@click.option("--hash", "hash_only", is_flag=True, help="Read a secret, print its hash for the settings, and end.")
@place_options
def command(host: str | None, port: int | None, database_url: str | None, schema: str | None, **rest: Any) -> None:
    """Serve the dashboard and the HTTP API until Ctrl-C.

    On loopback and without credentials it prints a link that lets one browser in as admin, once; then it prints the
    next link. Scripts, and any other address, need TENURE_WEB_TOKEN, TENURE_WEB_TOKENS (name:role:token,…) or
    TENURE_WEB_USERS (name:role:password,…). Roles are read, operate and admin. `tenure serve --hash` makes a hash of a
    secret, to be written in its place.

    Where the settings name several inboxes (TENURE_SHARDS), it serves all; with TENURE_CITUS, all nodes.
    """
    if rest.pop("hash_only"):
        echo(_hash())
        return
    host = _setting("TENURE_WEB_HOST", host) or HOST
    if rest["drills"]:
        _check_drills(host, insecure=rest["insecure"])
    check_reach(host, insecure=rest["insecure"])
    rest["allowed"] = (host, *rest["allowed"])
    prefix = _prefix(rest.pop("prefix"))
    if shards := chosen(database_url, None, schema):
        _serve_several(
            host, port, prefix, {**rest, "shards": shards}, settings.load(database_url=database_url, schema=schema)
        )
    else:
        _serve_one(host, port, database_url, schema, prefix, rest)
    sys.stderr.flush()
    os._exit(0)  # all is cleaned up; the interpreter would need longer for its own clean-up than we did


def _serve_several(host: str, port: int | None, prefix: str, rest: dict[str, Any], chosen: settings.Settings) -> None:
    shards = {name: soon_given_up(url) for name, url in rest["shards"].items()}
    check_schemas(shards, chosen.schema)
    with listening(host, port) as listener:
        database = Database("", chosen.schema, "TENURE_SHARDS", "")
        made = _made(listener, database, prefix, {**rest, "shards": shards})
        if settings.on_citus() and chosen.database_url:
            from ..worker.config import Terms

            _follow(made, Terms(shards=shards, citus=chosen.database_url, schema=chosen.schema))
        serve(made, listener, prefix)


def _follow(made: Starlette, terms: Terms) -> None:
    """A node that joins the cluster is served from then on; one that has moved is found where it is."""
    from ..web.inboxes import join
    from ..worker.nodes import Nodes

    def attend(inbox: str, url: str) -> None:
        check_schemas({inbox: url}, terms.schema)
        join(made.state.site, inbox, url)
        echo(f"node group {inbox} has joined the cluster: its inbox is served", err=True)

    Nodes(terms, attend, lambda: True).start()


def _serve_one(
    host: str, port: int | None, database_url: str | None, schema: str | None, prefix: str, rest: dict[str, Any]
) -> None:
    with opened(database_url, schema) as database:
        with postgres.connect(database.url, application_name="tenure serve") as conn:
            migrate.require(conn, database.schema)
        with listening(host, port) as listener:
            serve(_made(listener, database, prefix, rest), listener, prefix)


def check_schemas(shards: Mapping[str, str], schema: str) -> None:
    """Refuse if one that answers has another schema than ours, or is another one by another address.

    Who is away is told on every page.
    """
    places: dict[str, str] = {}

    def looked(name: str) -> Told:
        try:
            with postgres.connect(soon_given_up(shards[name]), application_name="tenure serve") as conn:
                migrate.require(conn, schema)
                places[name] = postgres.run(conn, place(), schema)
        except SchemaMismatch as error:
            return Told(name, (), error=error.at(f"--inbox {name}"))
        except Exception as error:
            return Told(name, (), error=error)
        return Told(name, ())

    for each in side_by_side({name: partial(looked, name) for name in shards}):
        if isinstance(each.error, TenureError) and not isinstance(each.error, NoDatabase):
            each.error.add_note(f"inbox {each.inbox}")
            raise each.error
    known = Places({}, schema)
    for name in shards:
        if name in places:
            known.check(name, places[name])


def _hash() -> str:
    """The hash of a secret that is typed without echo, or comes on stdin."""
    from ..web.credentials import SECRET_MIN
    from ..web.hashing import Hashed

    if sys.stdin.isatty():
        secret = click.prompt("Secret", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if len(secret) < SECRET_MIN:
        raise BadSettings(f"the secret must have {SECRET_MIN} characters or more: give a longer one")
    return str(Hashed.of(secret))


def _made(listener: socket.socket, database: Database, prefix: str, rest: dict[str, Any]) -> Starlette:
    """The app, once its link is printed."""
    from ..web import app

    address = f"{address_of(listener)}{prefix}"
    way = Doorway(address, "tenure serve", _say_next, rest["allowed"], insecure=rest["insecure"])
    made = app(
        database_url=database.url or None,  # empty where PG* say it
        schema=database.schema,
        access=way.door,
        redact=rest["redact"].split(","),
        hide_payloads=rest["hide_payloads"],
        read_only=rest["read_only"],
        drills=rest["drills"],
        shards=rest.get("shards"),
        citus=settings.on_citus(),
    )
    echo(f"{way.link}  ({'good once; ' if way.is_by_link else ''}Ctrl-C ends this)", err=True)
    return made


def _say_next(link: str) -> None:
    echo(further(link), err=True)


def serve(made: Starlette, listener: socket.socket, prefix: str = "") -> None:
    """Serve until a signal ends it."""
    from ..web.serve import Server

    # Not asyncio.run: it would wait for every thread, and one that waits for a stuck database never ends.
    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(Server(made, prefix).serve([listener]))


def address_of(listener: socket.socket) -> str:
    """The address for a browser."""
    name, port = listener.getsockname()[:2]
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def _check_drills(host: str, *, insecure: bool) -> None:
    """Refuse settings that would let others start processes here."""
    if not is_loopback(host):
        raise BadSettings(f"--drills starts and stops processes, for this machine only: --host {host} lets others in")
    if insecure:
        raise BadSettings("--drills starts and stops processes as you, and --insecure lets everybody in: leave one out")
    settings.check_drills()
    if hasattr(signal, "SIGHUP"):  # the terminal was closed: leave no schema behind
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _prefix(text: str) -> str:
    """/tenure for tenure, /tenure and /tenure/."""
    words = text.strip("/")
    if not all(word and word.replace("-", "").replace("_", "").isalnum() for word in words.split("/") if words):
        raise BadSettings(f"--prefix {text!r} must be a path of letters, digits, - and _: write e.g. /tenure")
    return f"/{words}" if words else ""


def listening(host: str, port: int | None) -> socket.socket:
    """A socket on the given port; if none was given and the default is taken, on any free port."""
    asked = _setting("TENURE_WEB_PORT", port)
    if asked is not None and not (asked.isdigit() and int(asked) <= 65535):
        raise BadSettings(f"TENURE_WEB_PORT={asked!r} must be a port: choose one from 1 to 65535")
    from ..web.serve import listen

    try:
        return listen(host, PORT if asked is None else int(asked))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise BadSettings(f"--host {host} --port {asked or PORT} cannot be served: {error.strerror}") from None
        if asked is not None:
            raise BadSettings(f"--port {asked} is taken: choose another, or leave it out") from None
    echo(f"port {PORT} is taken, using a free one", err=True)
    return listen(host, 0)


def _setting(name: str, given: object) -> str | None:
    found = settings.find(name, given, f"--{name.removeprefix('TENURE_WEB_').lower()}")
    return found.value if found else None
