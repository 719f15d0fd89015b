"""What the acting commands share: count the rows, ask, act in batches under a bar, and say what was done."""

from __future__ import annotations

import contextlib
import getpass
import inspect
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from .. import operate, postgres
from ..console.terminal import echo
from ..errors import INTERRUPTED, NO
from ..model.filter import Filter
from ..operator_verbs import OPERATOR_VERBS, OperatorVerb
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from .asking import TYPED_ABOVE, confirm, outcome, rows
from .database import Database, opened, options
from .filter import filter_of
from .inbox_told import ACT

F = TypeVar("F", bound=Callable[..., Any])


def me() -> operate.Actor:
    """The user at this terminal, for the audit."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # no entry in the password file, as in many containers
        name = f"uid {os.getuid()}"
    return operate.Actor(f"{name}@{platform.node()}", f"cli:{ACT.get()}" if ACT.get() else "cli")


def noting(command: F) -> F:
    """--reason and --json, on every command that changes one thing and writes it into the audit."""
    reason = click.option("--reason", default="", metavar="TEXT", help="Why, for the audit.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
    return reason(as_json(options(command)))


def answer(as_json: bool, said: str, **facts: Any) -> None:
    """Print the outcome: a sentence for people, the facts for programs."""
    echo(json.dumps({"schema": 1, **facts}, sort_keys=True, default=str) if as_json else printable(said))


def named(group: click.Group, verb: str) -> Callable[[F], click.Command]:
    """The command of a verb on one thing, as `tenure queues pause NAME`; what its function says comes second."""
    entry = OPERATOR_VERBS[verb]

    def command(function: F) -> click.Command:
        text = f"{entry.does}\n\n{inspect.getdoc(function) or ''}"
        short = f"{entry.brief[0].upper()}{entry.brief[1:]}."
        return group.command(entry.command.split()[-1], help=text, short_help=short)(function)

    return command


def acting(entry: OperatorVerb) -> click.Command:
    """The command of a verb on rows: `tenure VERB FILTER...`."""
    verb = entry.name

    @click.command(entry.command, help=f"{entry.does}\n\n{_HOW}", no_args_is_help=False)
    @click.argument("words", nargs=-1, metavar="FILTER...")
    @click.option("--filter", "text", default="", metavar="TEXT", help="The filter, or more of it, as one text.")
    @click.option(
        "--all", "everything", is_flag=True, help="Every row that the command takes; needed without a filter."
    )
    @click.option("--dry-run", is_flag=True, help="Say how many rows match, and change none.")
    @click.option("--yes", is_flag=True, help="Do it without asking.")
    @click.option("--reason", default="", metavar="TEXT", help="Why, for the audit.")
    @click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
    @options
    def command(words: tuple[str, ...], text: str, everything: bool, **given: Any) -> None:
        filter = filter_of(words, text)
        if not filter and not everything:
            raise click.UsageError(f"{verb} which rows? Give a filter such as kind:send_receipt, or --all")
        if filter and everything:
            raise click.UsageError(f"--all and {str(filter)!r} contradict each other: give one")
        _act(verb, filter, **given)

    return command


_HOW = (
    "FILTER is a list of words that must all match, as in `tenure rows`: kind:send_receipt queue:mail status:failed "
    'error:"time out" key:order:* payload.order_id:9182 attempts:>3 age:>1h, or a row\'s id. They may be one text: '
    "then a value with blanks has quotes of its own. The command says how many "
    f"rows match and asks; above {TYPED_ABOVE:,} you type the number. Every action is in the audit (`tenure audit`)."
)


def _act(
    verb: str,
    filter: Filter,
    *,
    dry_run: bool,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
    expect: int | None = None,
) -> None:
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name=f"tenure {verb}") as conn,
    ):
        migrate.require(conn, database.schema)
        matched = operate.would(conn, verb, filter, database.schema)
        said = str(operate.narrow(verb, filter) or filter)
        echo(f"{verb}  {rows(matched)}  {printable(said)}", err=as_json)
        answer = {"schema": 1, "verb": verb, "filter": said, "matched": matched, "dry_run": dry_run}
        rest = verb == "erase" and bool(filter.ids or filter.idempotency_key)  # of rows that are gone
        if (matched or rest) and not dry_run:
            confirm(verb, matched, yes)
            expect = expect if yes else matched
            answer |= _change(conn, database, verb, filter, reason, matched, expect)
        if verb == "erase":
            answer["processing"] = operate.left_out(conn, verb, filter, database.schema)
    echo(json.dumps(answer, sort_keys=True) if as_json else outcome(answer), err="interrupted" in answer)
    if "interrupted" in answer:
        raise click.exceptions.Exit(INTERRUPTED)
    if answer.get("processing") or (verb == "erase" and answer.get("skipped")):
        _say_unfinished(answer)


def _say_unfinished(answer: dict[str, Any]) -> None:
    """An erasure that left something is told, and its exit code says no."""
    if held := answer.get("processing"):
        left = (
            "1 row is processing and left as it is"
            if held == 1
            else f"{held:,} rows are processing and left as they are"
        )
        whom = "its worker" if held == 1 else "their workers"
        echo(f"tenure: {left}: `tenure cancel ID` asks {whom} to stop; then erase again", err=True)
    if not answer["dry_run"]:
        raise click.exceptions.Exit(NO)


def _change(
    conn: QueueConnection,
    database: Database,
    verb: str,
    filter: Filter,
    reason: str,
    matched: int,
    expect: int | None,
) -> dict[str, Any]:
    """What was done; after Ctrl-C, what the action's line of the audit says."""
    begun: list[int] = []
    try:
        with _bar(verb, matched) as advance:
            done = operate.act(
                conn, verb, filter, me(), schema=database.schema, reason=reason, progress=advance, began=begun.append,
                expect=expect,
            )  # fmt: skip
    except KeyboardInterrupt:
        if not begun:
            return {"changed": 0, "interrupted": True}
        with postgres.connect(database.url) as other:  # the first one may be in the middle of something
            (line,) = postgres.run(other, operate.audit(1, begun[0] + 1), database.schema)
        return {"action": line.id, "changed": line.rows, "interrupted": True}
    return {"action": done.action, "changed": done.changed, "skipped": done.skipped}


@contextlib.contextmanager
def _bar(verb: str, matched: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar for more than one batch, if stderr is a terminal."""
    if matched <= operate.BATCH or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=matched, label=verb, file=sys.stderr) as bar:
        yield bar.update
