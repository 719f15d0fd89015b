"""`tenure worker`: run the handlers of an inbox until the process is told to stop."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..errors import BadSettings
from ..settings import find, number, session_url, whole
from .database import place_options, setting
from .errors import tell
from .worker_place import poll_seconds, where_it_works
from .worker_told import tell_address, tell_json, tell_unknown

if TYPE_CHECKING:
    from ..worker.worker import Worker


def _some(_: click.Context, __: click.Parameter, names: str | None) -> str | None:
    """The value of --queues; a usage error if it is empty, because that would count as not given."""
    if names is not None and not names.strip():
        raise click.UsageError("--queues must name a queue: write e.g. --queues mail,reports, or leave it out")
    return names


serving = click.option(
    "--queues",
    metavar="NAMES",
    callback=_some,
    help=setting("QUEUES", "e.g. mail,reports or with weights mail=3,reports=1"),
)


@click.command()
@click.argument("app", metavar="MODULE:INBOX")
@serving
@click.option("--slots", type=int, help=setting("SLOTS"))
@click.option("--lease-seconds", type=float, help=setting("LEASE_SECONDS"))
@click.option("--drain-seconds", type=float, help=setting("DRAIN_SECONDS"))
@click.option("--poll-seconds", type=float, help=setting("POLL_SECONDS"))
@click.option("--grace-seconds", type=float, help=setting("GRACE_SECONDS"))
@click.option(
    "--session-url",
    metavar="URL",
    help="The server's own address, if the other is a pooler's [env: TENURE_SESSION_URL].",
)
@click.option(
    "--shards",
    metavar="NAME=URL,…",
    help="Serve the rows of several databases, e.g. eu=postgresql://…,us=postgresql://… [env: TENURE_SHARDS].",
)
@click.option(
    "--citus",
    is_flag=True,
    help="Serve every node of a Citus cluster; the URL is the coordinator's [env: TENURE_CITUS].",
)
@click.option("--no-housekeeping", is_flag=True, help="Leave sweeping, archiving and schedules to other workers.")
@click.option("--health-port", type=click.IntRange(0, 65535), metavar="PORT", help=setting("HEALTH_PORT"))
@click.option("--health-host", metavar="HOST", help=setting("HEALTH_HOST"))
@click.option("--json", "as_json", is_flag=True, help="Log one JSON object a line.")
@click.option("-v", "--verbose", is_flag=True, help="Log every job, not only what needs attention.")
@click.option("--jobs", is_flag=True, help="Print each job with its time, each failure with its traceback.")
@place_options
def command(app: str, queues: str | None, **rest: Any) -> None:
    """Run the handlers of an inbox, e.g. `tenure worker shop.jobs:inbox` or `tenure worker ./shop.py:inbox`.

    SIGTERM or Ctrl-C drains: the worker claims nothing more, handlers get --drain-seconds to finish, then their rows
    are given back at no cost. A second signal gives them back at once. Exit codes: 0 no row was left behind; 75 some
    were, because the database did not answer (their leases run out); 70 a bug in Tenure; 78 bad settings.
    """
    with _in_json(rest["as_json"]):
        _work(app, queues, rest)


def _work(app: str, queues: str | None, rest: dict[str, Any]) -> None:
    from ..events import Bus, Subscriber
    from ..telemetry.log import Log
    from ..worker.config import Terms
    from ..worker.health import Health
    from ..worker.worker import Worker

    inbox = load(app)
    with where_it_works(rest.pop("database_url"), rest.pop("schema") or inbox.schema, rest) as where:
        inbox.use_schema(where["schema"])
        if "citus" in where:
            inbox.use_citus()
        taken = weights(_said("queues", queues)) or inbox.queues
        tell_unknown(taken, inbox.queues, as_json=rest["as_json"])
        terms = Terms(
            **where,
            session_url=session_url(rest["session_url"]),
            queues=taken,
            slots=whole("TENURE_SLOTS", rest["slots"], "--slots"),
            lease_seconds=_number("lease_seconds", rest),
            drain_seconds=_number("drain_seconds", rest),
            poll_seconds=poll_seconds(rest["poll_seconds"], citus="citus" in where),
            grace_seconds=_number("grace_seconds", rest),
            housekeeping=not rest["no_housekeeping"],
        )
        port = _port(rest["health_port"])
        host = _said("health_host", rest["health_host"]) or ""
        bus = Bus()
        log: Subscriber = Log(sys.stderr, as_json=rest["as_json"])
        if rest["jobs"] and not rest["as_json"]:
            from .job_lines import JobLines

            bus.subscribe(JobLines(log))
        else:
            bus.subscribe(log, each_job=rest["verbose"])
        worker = Worker(inbox, terms, bus)
        worker.garbage.ours = True  # nothing else is done in this process
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: worker.stop())
        with Health(worker, host, port) as health:
            if port is not None:
                tell_address(f"http://{host}:{health.port}", as_json=rest["as_json"])
            code = _run(worker, tell_json if rest["as_json"] else tell)
    _leave(code)


@contextmanager
def _in_json(wanted: bool) -> Iterator[None]:
    """With --json, every line is: also that it could not start, and what libraries say."""
    if not wanted:
        yield
        return
    from ..telemetry.log import all_as_json

    all_as_json(sys.stderr)
    try:
        yield
    except Exception as error:
        raise click.exceptions.Exit(tell_json(error)) from None


def _said(name: str, given: object) -> str | None:
    """The value of the flag, the variable or the settings file."""
    found = find(f"TENURE_{name.upper()}", given, f"--{name.replace('_', '-')}")
    return found.value if found else None


def _port(given: int | None) -> int | None:
    return whole("TENURE_HEALTH_PORT", given, "--health-port") if _said("health_port", given) else None


def _number(name: str, given: dict[str, Any]) -> float:
    return number(f"TENURE_{name.upper()}", given[name], f"--{name.replace('_', '-')}")


def _run(worker: Worker, tell: Callable[[BaseException], int]) -> int:
    """The exit code, also after an error: that is printed here, so that `_leave` is always reached."""
    try:
        return worker.run(at_last=_leave)
    except BaseException as error:
        return tell(error)


def _leave(code: int) -> NoReturn:
    """Exit without waiting for handlers: their threads cannot be ended, and their rows are given back or expire."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def load(app: str) -> Any:
    """The inbox that MODULE:INBOX or FILE:INBOX names; BadSettings with what was found instead."""
    from ..app.inbox import Inbox

    module, name = parted(app)
    found = _load_file(app, module) if is_path(module) else _import(app, module, Path.cwd())
    inbox = getattr(found, name, None)
    if not isinstance(inbox, Inbox):
        near = [key for key, value in vars(found).items() if isinstance(value, Inbox)]
        hint = f"did you mean {module}:{near[0]}?" if near else "it has none: write `inbox = Inbox()` in it"
        found_there = f"is a {type(inbox).__name__}, not an Inbox" if hasattr(found, name) else "is not there"
        raise BadSettings(f"{app!r} {found_there}: {hint}")
    if not inbox.handlers:
        raise BadSettings(f'{app!r} has no handlers: write `@{name}.handler("kind")` on a function')
    return inbox


def parted(app: str) -> tuple[str, str]:
    """The module or file, and the name of the inbox in it; BadSettings if one is missing."""
    module, _, name = app.rpartition(":")
    if not module or not name:
        raise BadSettings(f"{app!r} must name an inbox: write MODULE:INBOX, e.g. shop.jobs:inbox")
    return module, name


def is_path(module: str) -> bool:
    """Whether it is a file, not a module."""
    return "/" in module or module.endswith(".py") or module.startswith(".")


def _load_file(app: str, path: str) -> ModuleType:
    """The module in this file, imported under its usual name: from the working directory if it is below it."""
    file = Path(f"{path.removesuffix('.py')}.py").resolve()
    if not file.is_file():
        raise BadSettings(
            f"{app!r} must name a Python file, and {file} is none: write FILE:INBOX, e.g. ./shop.py:inbox"
        )
    root = Path.cwd() if file.is_relative_to(Path.cwd()) else file.parent
    while (root / "__init__.py").exists():
        root = root.parent
    found = _import(app, ".".join(file.relative_to(root).with_suffix("").parts), root)
    if Path(found.__file__ or "").resolve() != file:
        raise BadSettings(f"{app!r} is hidden by another module {found.__name__!r} ({found.__file__}): rename it")
    return found


def _import(app: str, module: str, root: Path) -> ModuleType:
    """This module, searched below root first; BadSettings with the line of the user's code that raised an error."""
    sys.path[:0] = dict.fromkeys([str(root), str(Path.cwd())])
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        where = _line_of_theirs(error) or f"looked in {root} and on the Python path"
        raise BadSettings(f"{app!r} cannot be loaded: {said} ({where})") from None


def _line_of_theirs(error: BaseException) -> str:
    """file:line of the last call in the user's own code; empty if none of it ran."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    others = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parents[1]), "<frozen")
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(others)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def weights(text: str | None) -> dict[str, float] | None:
    """mail=3,reports=1 as weights; a bare name weighs 1."""
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        try:
            found[name] = float(weight or 1)
        except ValueError:
            raise BadSettings(f"--queues {text!r}: the weight {weight!r} of {name!r} must be a number") from None
    return found
