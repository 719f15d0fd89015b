"""The command line: a command is loaded when it is called, and every error is one sentence and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import sys
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from .. import __version__
from ..operator_verbs import ON_ROWS
from .examples import with_examples
from .suggest import Suggesting

COMMANDS = {
    **{verb.command: verb.brief for verb in ON_ROWS.values()},
    "audit": "what operators did; verify, export, forget",
    "batch": "one batch: how far it is, what follows, rows that failed",
    "batches": "the latest batches, and how far each has come",
    "completion": "print the completion script of a shell",
    "dead": "failed rows and dead letters, grouped by kind and error",
    "demo": "a small shop with three workers, and keys to kill and pause them",
    "dev": "work on your app: Postgres, a worker that reloads, the dashboard",
    "doctor": "check settings, versions, clocks, indexes, bloat and workers",
    "drill": "force a race on a real Postgres and print the proof",
    "enqueue": "put rows into the inbox",
    "flow": "one flow; show, signal, cancel, check new code",
    "flows": "the flows that live or ended badly",
    "health": "ask a worker or server whether it is live or ready, for probes",
    "hooks": "endpoints of webhooks and their calls; add, pause, resend",
    "journal": "what happened, by stream or in order; erase a stream",
    "migrate": "bring the schema to the version that this package needs",
    "new": "write a starter app, with a test and the files to deploy it",
    "outbox": "events on their way to a broker: lag, who is away; replay",
    "pg": "the embedded Postgres: start, stop, status, psql, dump, reset",
    "projections": "how far each has read; pause, resume, rebuild, skip, forget",
    "queues": "depth and limits of queues; pause, resume, limit, blocked, free",
    "ring": "which worker owns which buckets",
    "row": "one row: its columns, its leases, and how each attempt ended",
    "rows": "the rows that match a filter",
    "schedules": "what runs by cron; pause, resume, remove",
    "serve": "serve the dashboard and the HTTP API",
    "shards": "the inboxes of a Citus cluster; drain one, adopt without one",
    "sql": "print the SQL of a verb or question",
    "tail": "the events of the fleet as they happen",
    "tokens": "tokens for the HTTP API; create, list, revoke",
    "top": "rows, queues, workers and refused writes, live",
    "why": "what a row waits for, in one sentence",
    "worker": "run the handlers of an inbox",
    "workers": "the workers of the fleet; drain one",
}

# What a reader wants to do, and the commands for it, in the order to try them.
PURPOSES = {
    "Start": ("new", "dev", "worker", "serve"),
    "Look": (
        "rows",
        "row",
        "why",
        "dead",
        "flows",
        "flow",
        "batches",
        "batch",
        "queues",
        "outbox",
        "hooks",
        "schedules",
        "projections",
        "journal",
        "workers",
        "ring",
        "top",
        "tail",
        "audit",
    ),
    "Act": ("enqueue", "redrive", "retry", "release", "cancel", "delete", "erase"),
    "Operate": ("migrate", "doctor", "health", "shards", "tokens", "pg"),
    "Learn": ("demo", "drill", "sql", "completion"),
}

EPILOG = """\b
`tenure help COMMAND` says more. Exit codes: 0 done
1 the answer is no: doctor found a fault, a drill failed, a migration is
missing, a worker is not healthy, or you answered no
2 usage or bad payload · 69 database not reachable · 70 a bug in Tenure
74 a file or the output fails · 75 try later · 77 not allowed
78 bad settings, schema too old or too new · 130 interrupted"""


class Lazy(Suggesting):
    """Commands by name. The module of a command is imported when it runs, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name in ON_ROWS:
            from .operators import acting

            return with_examples(name, acting(ON_ROWS[name]))
        command = importlib.import_module(f"tenure.cli.{name}").command
        assert isinstance(command, click.Command)
        return with_examples(name, command)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has closed the pipe, as `head` does
            _to_nowhere()
            return 0

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=words) for name, words in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, COMMANDS))
        for purpose, names in PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl([(f"{name:<{wide}}", COMMANDS[name]) for name in names])


@click.group(cls=Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tenure")
def tenure() -> None:
    """Durable work in Postgres. A job with tenure is never lost.

    New here? `tenure demo` shows it at work, `tenure new` writes a first app.
    """


def main() -> NoReturn:
    """Run the command line; every error ends as one sentence on stderr and a documented exit code."""
    _open_streams()
    logging.getLogger("psycopg").addFilter(_is_of_use)
    try:
        code = tenure(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.Abort:
        _say("interrupted")
        code = 130
    except click.ClickException as usage:
        code = _refused(usage)
    except Exception as error:
        from .errors import tell

        code = tell(error)
        if isinstance(error, OSError):
            _to_nowhere()
    sys.exit(code if isinstance(code, int) else 0)


def _is_of_use(record: logging.LogRecord) -> bool:
    """Not what the driver ignores itself while it closes a connection after Ctrl-C."""
    return not str(record.msg).startswith("error ignored in")


def _refused(usage: click.ClickException) -> int:
    """Say what is wrong with the arguments; those are shown, and cannot control the terminal."""
    from ..telemetry.log import printable

    vars(usage)["message"] = printable(usage.message)
    with contextlib.suppress(OSError):  # stderr is closed: the exit code still counts
        told = io.StringIO()
        usage.show(told)
        _say(told.getvalue().rstrip("\n"))
    return usage.exit_code


def _say(text: str) -> None:
    from ..console.terminal import echo

    echo(text, err=True)


def _open_streams() -> None:
    """Open /dev/null in place of a stream that the caller has closed, as with `>&-`: no command has to check."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _to_nowhere() -> None:
    """Nobody reads stdout any more: send the rest to /dev/null, or Python would fail again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
