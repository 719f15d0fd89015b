"""The command line: every command is loaded only when it is called, every error is one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from .. import __version__
from ..operator_verbs import ON_ROWS

COMMANDS = {
    **{verb.command: verb.brief for verb in ON_ROWS.values()},
    "audit": "what operators did, when, and to how many rows",
    "completion": "print the completion script of a shell",
    "dead": "what ended badly, grouped by kind and error",
    "demo": "a first look: a small shop, three workers, the dashboard, and keys to kill and pause them",
    "dev": "work on your app: embedded Postgres, a worker that reloads on save, the dashboard",
    "doctor": "settings, versions, clock, indexes, bloat, pooler: what is not as it should be",
    "drill": "force a race on a real Postgres and print the proof",
    "enqueue": "put rows into the inbox",
    "health": "ask a worker or server whether it is live or ready, for exec probes",
    "migrate": "bring the schema to the version this package speaks",
    "new": "write a starter app, with what it takes to deploy it",
    "pg": "the embedded Postgres: start, stop, status, url, psql, dump, reset",
    "queues": "depth and limits of queues; pause, resume, limit, blocked, free",
    "ring": "which worker owns which buckets",
    "row": "one row with its lease tape",
    "rows": "the rows that match a filter",
    "schedules": "what runs by the clock; pause, resume, remove",
    "serve": "the dashboard and the HTTP API",
    "sql": "print the SQL of a verb or question",
    "tail": "the events of the fleet as they happen",
    "top": "the fleet in one live picture",
    "why": "why a row is not running, in one sentence",
    "worker": "run the handlers of an inbox",
    "workers": "the processes of the fleet; drain one",
}

EPILOG = """\b
Exit codes: 0 done · 1 the answer is no (doctor found a fault, a drill failed,
--check differs, health: it is not, you said no)
2 usage or bad payload · 69 database not reachable · 70 a bug in Tenure
74 a file or the output fails · 75 try later · 77 not allowed
78 bad settings, schema too old or too new · 130 interrupted"""


class Lazy(click.Group):
    """Commands by name; the module of a command is imported when it runs, so that --help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name in ON_ROWS:
            from .operators import acting

            return acting(ON_ROWS[name])
        command = importlib.import_module(f"tenure.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "`tenure --help` lists them"
            raise click.UsageError(f"there is no command {name[:60]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read this has seen enough
            _to_nowhere()
            return 0

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=words) for name, words in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tenure")
def tenure() -> None:
    """Durable work in Postgres. A job with tenure is never lost."""


def main() -> NoReturn:
    """Run the command line; whatever goes wrong ends as one sentence on stderr and a documented exit code."""
    _open_streams()
    try:
        code = tenure(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = 130
    except click.ClickException as usage:
        usage.show()
        code = usage.exit_code
    except Exception as error:
        from .errors import tell

        code = tell(error)
        if isinstance(error, OSError):
            _to_nowhere()
    sys.exit(code if isinstance(code, int) else 0)


def _open_streams() -> None:
    """Whatever was closed before we came, as by `>&-`, leads nowhere: no command has to ask whether it is there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _to_nowhere() -> None:
    """What is still to be printed cannot be: Python must not try it again on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
