"""`tenure pg`: start, stop and look at the embedded server by hand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from .. import embedded
from ..console.terminal import echo
from ..embedded.project import ensure, in_database, project
from ..errors import NO, USAGE, BadSettings, NoDatabase
from .suggest import Suggesting

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}


@click.group("pg", cls=Suggesting)
@click.option("--here", is_flag=True, help="The server of this project, in ./.tenure, instead of the one in your home.")
@click.pass_context
def command(ctx: click.Context, here: bool) -> None:
    """The embedded Postgres: a real server, started when needed, stopped when idle."""
    ctx.obj = here


def _root(ctx: click.Context) -> Path:
    return embedded.here_root() if ctx.obj else embedded.home_root()


def _folder(ctx: click.Context) -> Path | None:
    """The folder of --here; None is the one of this user, with the database of the project."""
    return embedded.locate(_root(ctx))[0] if ctx.obj else None


@command.command()
@click.pass_context
def start(ctx: click.Context) -> None:
    """Start the server and keep it until `tenure pg stop`."""
    with embedded.start(_folder(ctx)) as server:
        how = f"started in {server.seconds:.1f} s" if server.started else "was running"
        _say("postgres", f"{server.version}, embedded, {how}", _short(server.folder))
        _say("url", server.url)


@command.command()
@click.pass_context
def stop(ctx: click.Context) -> None:
    """Stop the server now, even if somebody uses it."""
    stopped = embedded.stop(_folder(ctx))
    folder = _short(embedded.locate(_root(ctx))[0])
    _say("postgres", "stopped, the rows are kept" if stopped else "was not running", folder)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Say whether the server runs; exit 0 if it does, 1 if not."""
    found, (_, programs) = embedded.status(_folder(ctx)), embedded.locate(_root(ctx))
    # The database of this project may not be there yet.
    databases = embedded.known(in_database(found.url, embedded.SHARED)) if found.running else []
    if as_json:
        echo(json.dumps(_document(found, programs, databases), sort_keys=True))
    else:
        for words in [*_lines(found, programs), *(_project(each) for each in databases)]:
            echo(_aligned(*words))
    ctx.exit(0 if found.running else NO)


def _project(known: embedded.Known) -> tuple[str, ...]:
    """The line of one database."""
    of_all = "of all projects in 0.1.0, drills and demos" if known.database == embedded.SHARED else known.source
    return "database", f"{known.database}, {_size(known.size_bytes)}", _short(Path(of_all)) if of_all else ""


def _document(
    found: embedded.Status, programs: embedded.Binaries, databases: list[embedded.Known]
) -> dict[str, object]:
    return {
        "schema": 1,
        "running": found.running,
        "folder": str(found.folder),
        "url": found.url,
        "version": found.version,
        "keeper_pid": found.guardian_pid,
        "pinned": found.pinned,
        "size_bytes": found.size_bytes,
        "other_versions": list(found.other_versions),
        "databases": [{"name": each.database, "of": each.source, "size_bytes": each.size_bytes} for each in databases],
        "programs": {"bin": str(programs.bin), "source": programs.source, "version": programs.version},
    }


def _lines(found: embedded.Status, programs: embedded.Binaries) -> list[tuple[str, ...]]:
    until = "until `tenure pg stop`" if found.pinned else "until its last user leaves"
    state = f"{found.version}, embedded, running {until}" if found.running else "not running"
    lines = [
        ("postgres", state, _short(found.folder)),
        ("rows", _size(found.size_bytes)),
        ("programs", f"{programs.version} from {programs.source}", _short(programs.bin)),
    ]
    if found.running:
        lines.append(("url", found.url))
    if found.other_versions:
        lines.append(("beside", f"{', '.join(found.other_versions)}: of other major versions, left alone"))
    return lines


@command.command()
@click.argument("major", type=int)
@click.pass_context
def choose(ctx: click.Context, major: int) -> None:
    """Use PostgreSQL MAJOR from now on; the rows of the version before stay in its folder."""
    here = sorted({programs.major for programs in embedded.all_programs()})
    if major not in here:
        raise BadSettings(
            f"PostgreSQL {major} is not here, only {', '.join(map(str, here)) or 'none'}: install it, or name its "
            "programs with TENURE_PG_BIN=/its/bin"
        )
    root = _root(ctx)
    before = embedded.chosen(root)
    embedded.choose(root, major)
    _say("postgres", f"{major} from now on", _short(root / f"pg{major}"))
    if before not in (None, major):
        _say("kept", f"the rows of {before}: `tenure pg choose {before}` goes back", _short(root / f"pg{before}"))


@command.command()
@click.pass_context
def url(ctx: click.Context) -> None:
    """Print the URL of the project's database, which is made if need be; starts no server."""
    found = embedded.status(_folder(ctx))
    if not found.running:
        echo(f"tenure: no server runs in {_short(found.folder)}: start it with `tenure pg start`", err=True)
        ctx.exit(NO)
    server = in_database(found.url, embedded.SHARED)
    echo(found.url if ctx.obj else ensure(server, project()))


@command.command(context_settings=PASS_ON)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def psql(ctx: click.Context, args: tuple[str, ...]) -> None:
    """Open psql on the server; further arguments go to psql."""
    _run_beside_server(ctx, "psql", args)


@command.command(context_settings=PASS_ON)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def dump(ctx: click.Context, args: tuple[str, ...]) -> None:
    """Print the whole database as SQL; further arguments go to pg_dump."""
    _run_beside_server(ctx, "pg_dump", args)


def _run_beside_server(ctx: click.Context, name: str, args: tuple[str, ...]) -> NoReturn:
    bundled = embedded.locate(_root(ctx))[1].program(name)
    program = str(bundled) if os.access(bundled, os.X_OK) else shutil.which(name)
    if program is None:
        raise NoDatabase(
            f"{name} was found neither in {bundled.parent} nor on PATH: run `tenure pg url` and use your own"
        )
    with embedded.attach(_folder(ctx)) as server:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql, where it cancels a query
        try:
            code = subprocess.run([program, f"--dbname={server.url}", *args], preexec_fn=_hear_interrupts).returncode
        finally:
            signal.signal(signal.SIGINT, before)
    ctx.exit(code if code >= 0 else 128 - code)


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def reset(ctx: click.Context, yes: bool) -> None:
    """Stop the server and delete every row it keeps."""
    found = embedded.status(_folder(ctx))
    _say("delete", f"{_size(found.size_bytes)}, every row of every project", _short(found.folder))
    if not yes:
        if not sys.stdin.isatty():
            echo("tenure: nobody is here to ask, so nothing was deleted: run `tenure pg reset --yes`", err=True)
            ctx.exit(USAGE)
        if not click.confirm("Delete it?", err=True):
            ctx.exit(NO)
    _say("deleted", _size(embedded.reset(found.folder)))


def _aligned(word: str, text: str, place: str = "") -> str:
    return f"{word:<10} {text:<48} {place}".rstrip()


def _say(word: str, text: str, place: str = "") -> None:
    echo(_aligned(word, text, place), err=True)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"


def _short(path: Path) -> str:
    home = os.environ.get("HOME", "")
    text = str(path)
    return "~" + text[len(home) :] if len(home) > 1 and text.startswith(home.rstrip("/") + "/") else text
