"""`tenure worker`: run the handlers of an inbox until the process is told to stop."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from ..errors import BadSettings
from ..settings import DEFAULT_SCHEMA
from .database import opened, options


@click.command()
@click.argument("app", metavar="MODULE:INBOX")
@click.option(
    "--queues", metavar="NAMES", help="Which queues, e.g. mail,reports or with weights mail=3,reports=1 [the inbox's]."
)
@click.option("--slots", type=int, default=20, show_default=True, help="How many jobs run at once.")
@click.option(
    "--lease-seconds", type=float, default=90.0, show_default=True, help="How long a claim holds without renewal."
)
@click.option(
    "--drain-seconds", type=float, default=25.0, show_default=True, help="How long handlers may finish after SIGTERM."
)
@click.option("--poll-seconds", type=float, default=2.0, show_default=True, help="How often to look when nobody calls.")
@click.option(
    "--grace-seconds",
    type=float,
    default=6.0,
    show_default=True,
    help="How long a worker whose session ended may stay away.",
)
@click.option(
    "--session-url",
    metavar="URL",
    envvar="TENURE_SESSION_URL",
    help="A direct address beside a pooler's [env: TENURE_SESSION_URL].",
)
@click.option("--no-housekeeping", is_flag=True, help="Leave sweeping, archiving and schedules to other workers.")
@click.option("--health-port", type=int, metavar="PORT", help="Serve /livez /readyz /startupz /metrics on this port.")
@click.option("--health-host", default="127.0.0.1", show_default=True, metavar="HOST")
@click.option("--json", "as_json", is_flag=True, help="Log one JSON object a line.")
@click.option("-v", "--verbose", is_flag=True, help="Log every job, not only what needs attention.")
@options
def command(app: str, queues: str | None, **rest: Any) -> None:
    """Run the handlers of an inbox, e.g. `tenure worker shop.jobs:inbox`.

    SIGTERM or Ctrl-C drains: nothing more is claimed, handlers get --drain-seconds to finish, then their rows are given
    back without cost. A second signal gives them back at once. Exit codes: 0 nothing was left behind, 75 rows were
    (the database did not answer; their leases run out), 70 a bug in Tenure, 78 bad settings.
    """
    from ..events import Bus
    from ..health import Health
    from ..log import Log
    from ..terms import Terms
    from ..worker import Worker

    inbox = load(app)
    named = inbox.schema if inbox.schema != DEFAULT_SCHEMA else None  # a default must not hide TENURE_SCHEMA
    with opened(rest.pop("database_url"), rest.pop("schema") or named) as database:
        terms = Terms(
            database.url,
            rest["session_url"],
            database.schema,
            weights(queues) or inbox.queues,
            slots=rest["slots"],
            lease_seconds=rest["lease_seconds"],
            drain_seconds=rest["drain_seconds"],
            poll_seconds=rest["poll_seconds"],
            grace_seconds=rest["grace_seconds"],
            housekeeping=not rest["no_housekeeping"],
        )
        bus = Bus()
        bus.subscribe(Log(sys.stderr, as_json=rest["as_json"]), each_job=rest["verbose"])
        worker = Worker(inbox, terms, bus)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: worker.stop())
        with Health(worker, rest["health_host"], rest["health_port"]) as health:
            if rest["health_port"] is not None:
                click.echo(f"health on http://{rest['health_host']}:{health.port}", err=True)
            code = worker.run()
    sys.stdout.flush()
    sys.stderr.flush()
    # A handler's thread cannot be ended from outside; its row has been given back, so the process need not wait for it.
    os._exit(code)


def load(app: str) -> Any:
    """The inbox that MODULE:INBOX names, the working directory first; BadSettings with what was found instead."""
    from ..inbox import Inbox

    module, colon, name = app.partition(":")
    if not colon or not module or not name:
        raise BadSettings(f"{app!r} is no inbox: write MODULE:INBOX, e.g. shop.jobs:inbox")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module.removesuffix(".py").replace("/", "."))
    except ModuleNotFoundError as error:
        raise BadSettings(f"{app!r} cannot be loaded: {error} (looked in {Path.cwd()} and the Python path)") from None
    inbox = getattr(found, name, None)
    if not isinstance(inbox, Inbox):
        near = [key for key, value in vars(found).items() if isinstance(value, Inbox)]
        hint = f"did you mean {module}:{near[0]}?" if near else "it has none: write `inbox = Inbox()` in it"
        found_there = f"holds {type(inbox).__name__}, no Inbox" if hasattr(found, name) else "is not there"
        raise BadSettings(f"{app!r} {found_there}: {hint}")
    if not inbox.handlers:
        raise BadSettings(f'{app!r} has no handlers: write `@{name}.handler("kind")` on a function')
    return inbox


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
            raise BadSettings(f"--queues {text!r}: the weight of {name!r} is {weight!r}, which is no number") from None
    return found
