"""A command over several inboxes: all are asked side by side, and their answers are told as one.

Which they are, the settings say (TENURE_SHARDS, [shards]); `--inbox` chooses one. An inbox that does not answer is
named on stderr, and does not keep the others' answers back.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import click

from .. import settings
from ..console.terminal import KEPT, Said, sentence
from ..errors import INTERRUPTED, NO, BadSettings, NoEndpoint
from .inbox_told import HERE, Ask, Told, given_up_in_time, side_by_side

F = TypeVar("F", bound=Callable[..., Any])
HELP = "Only this inbox of several [TENURE_SHARDS]; else all, exit 0 if one answers, 75 if an act is left undone."

# What one inbox alone can do: it makes something there, or its answer is a file of that inbox.
ALONE = (
    *("enqueue", "audit export", "hooks add", "hooks replay", "outbox replay", "tokens create"),
    *("flow check", "flow listen"),
)
OF_ONE = {"audit": "before", "audit verify": "tip"}  # options whose value means something in one inbox alone
LOOK_SECONDS = 3.0  # how long who has answered waits to know whether two of them are one database
WATCHING = ("top", "tail")  # until they are told to end


def in_each(command: F) -> F:
    """The command, run in each inbox of the settings."""

    @functools.wraps(command)
    def run(*args: Any, inbox: str | None = None, **given: Any) -> Any:
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is not None:
            found = command(*args, **given)
            for each in (ctx.default_map or {}).values():
                each["inbox"] = inbox
            return found
        path = ctx.command_path.partition(" ")[2]
        urls = {} if given.get("citus") else chosen(given["database_url"], inbox, given["schema"])
        if not urls or not _looks(path, given):
            return command(*args, **given)
        if len(urls) == 1:
            ((name, url),) = urls.items()
            HERE.set(name)
            return command(*args, **{**given, "database_url": url})
        if not given.get("across"):
            _check_many(path, given, urls)
        with nullcontext() if path == "doctor" else _places_checked(urls, given["schema"], acts=changes(path, given)):
            if given.get("across"):
                return command(*args, **{**given, "across": urls})
            asks = {name: _ask(ctx, command, args, given, name, url) for name, url in urls.items()}
            if changes(path, given) and not _may_take_long(path, given):
                with given_up_in_time():
                    return _in_all(path, asks, given)
            return _in_all(path, asks, given)

    return run  # type: ignore[return-value]


def _looks(path: str, given: Mapping[str, Any]) -> bool:
    """Does it look into a database at all?"""
    of_a_file = path == "audit verify" and given["file"] is not None
    return not (of_a_file or given.get("print_sql") or given.get("only_settings"))


def _check_many(path: str, given: Mapping[str, Any], urls: Mapping[str, str]) -> None:
    """A usage error if this can only be asked of one."""
    one = f"give --inbox, one of {', '.join(urls)}"
    if path in ALONE:
        raise click.UsageError(f"{path} works in one inbox: {one}")
    if path in OF_ONE and given[OF_ONE[path]] is not None:
        raise click.UsageError(f"--{OF_ONE[path]} is of one inbox: {one}")


@contextmanager
def _places_checked(urls: Mapping[str, str], schema: str | None, *, acts: bool) -> Iterator[None]:
    """Two addresses of one database: an act is refused before it begins; who reads is told, and waits no longer."""
    from .one_place import one_place

    named, found = settings.load(schema=schema).schema, list[BadSettings | None]()
    looking = threading.Thread(target=lambda: found.append(one_place(urls, named)), daemon=True)
    looking.start()
    if acts:
        looking.join()
    if acts and found and found[0]:
        raise found[0]
    try:
        yield
    finally:
        looking.join(LOOK_SECONDS)
        for refused in filter(None, found):
            sentence(f"tenure: {refused}", err=True)


def _in_all(path: str, asks: Mapping[str, Ask], given: Mapping[str, Any]) -> None:
    """Imported here: most commands look into one database."""
    if changes(path, given):
        from .inbox_acts import act_in_each

        act_in_each(path, asks, given)
    elif path in WATCHING and not given.get("once"):
        from .inbox_watch import watch_each

        watch_each(path, asks, given)
    else:
        from .inbox_answers import tell_as_one

        tell_as_one(path, side_by_side(asks), given)


def chosen(database_url: str | None, inbox: str | None, schema: str | None = None) -> dict[str, str]:
    """The addresses by name; none if the settings have one database, or the flag names one."""
    if settings.on_citus() and settings.load(database_url=database_url).database_url:
        return _of(nodes_of(database_url, schema), inbox)
    if database_url is not None and inbox is not None:
        raise BadSettings("--database-url and --inbox: give one of them; inboxes have URLs of their own")
    urls = {} if database_url is not None else settings.shards(wanted=inbox is not None)
    if inbox is not None and not urls:
        raise BadSettings(f"--inbox {inbox!r}: no inboxes are named; set TENURE_SHARDS, or [shards] in tenure.toml")
    return _of(urls, inbox)


def nodes_of(database_url: str | None, schema: str | None) -> dict[str, str]:
    """The nodes of the cluster whose coordinator the settings name."""
    from ..postgres.citus_door import node_urls

    found = settings.load(database_url=database_url, schema=schema)
    return node_urls(found.database_url or "", found.schema)


def _of(urls: dict[str, str], inbox: str | None) -> dict[str, str]:
    """All of them, or the one that is asked for."""
    if inbox is None:
        return urls
    if inbox not in urls:
        raise BadSettings(f"--inbox {inbox!r} is not known: there are {', '.join(urls)}")
    return {inbox: urls[inbox]}


def changes(path: str, given: Mapping[str, Any]) -> bool:
    """Does this command change something? Then it goes from inbox to inbox."""
    if path in ("schedules", "projections"):
        return bool(given["verb"])
    if path == "journal":
        return given["erase"] or given["keep_days"] is not None
    return "reason" in given or path == "migrate"


def _may_take_long(path: str, given: Mapping[str, Any]) -> bool:
    """Is one of its statements as long as a table or a stream is? Cut off, it would never end."""
    return path == "migrate" or (path == "journal" and given["erase"])


def _ask(ctx: click.Context, command: Any, args: Any, given: dict[str, Any], name: str, url: str) -> Ask:
    """A function that runs the command in one inbox, and keeps what it says instead of printing it."""

    def ask(kept: bool = True, **more: Any) -> Told:
        said: list[Said] = []
        before, here = KEPT.set(said if kept else None), HERE.set(name)
        from ..postgres.connection import soon_given_up

        try:
            with ctx.scope(cleanup=False):
                command(*args, **{**given, "database_url": soon_given_up(url), **more})
        except click.exceptions.Exit as done:
            return Told(name, said, done.exit_code)
        except click.Abort:  # at a question: it is asked once, for all of them
            raise
        except KeyboardInterrupt:
            told = f"interrupted: `tenure audit --inbox {name}` says whether it was done"
            return Told(name, [*said, Said(told, True)], INTERRUPTED)
        except NoEndpoint as error:  # it may be in another
            return Told(name, [*said, Said(f"tenure: {error}", True)], NO)
        except Exception as error:
            return Told(name, said, error=error)
        finally:
            KEPT.reset(before)
            HERE.reset(here)
        return Told(name, said)

    return ask
