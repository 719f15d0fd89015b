"""What acting commands ask and tell: whether to go on, and what was done."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any, NoReturn

import click

from .. import operate
from ..console.terminal import echo, one_line, shown
from ..errors import NO, USAGE
from ..model.filter import parse
from ..operator_verbs import ON_ROWS

SKIPPED = "locked or changed meanwhile"
TYPED_ABOVE = 1000  # rows above which the number itself must be typed
AGREED: ContextVar[dict[str, bool] | None] = ContextVar("tenure_agreed", default=None)  # what was answered to what


def confirm(verb: str, matched: int, yes: bool) -> None:
    """Ask the person at the terminal; without a terminal, --yes is needed."""
    if yes:
        return
    attended(f"{verb} would change {rows(matched)}")
    if not matched:
        agreed(f"{verb} what is left of rows that are gone?")
        return
    if matched <= TYPED_ABOVE:
        agreed(f"{verb} {rows(matched)}?")
        return
    typed = click.prompt(f"{verb} {rows(matched)}? Type the number of rows", default="", show_default=False, err=True)
    if typed.replace(",", "").strip() != str(matched):
        _leave()


def attended(would: str) -> None:
    """Continue only if somebody can be asked."""
    if not sys.stdin.isatty():
        echo(f"tenure: {would}: give --yes to do it, nobody is here to ask", err=True)
        raise click.exceptions.Exit(USAGE)


def agreed(question: str) -> None:
    """Continue only after a yes; in several inboxes the same is asked once."""
    before = AGREED.get()
    known = {} if before is None else before
    if question not in known:
        known[question] = click.confirm(one_line(shown(question)), err=True)
    if not known[question]:
        _leave()


def _leave() -> NoReturn:
    echo("nothing was changed", err=True)
    raise click.exceptions.Exit(NO)


def outcome(answer: dict[str, Any]) -> str:
    """What was done, for people."""
    if "interrupted" in answer:
        line = f" · line {answer['action']} of the audit" if "action" in answer else ""
        were = f"{answer['changed']:,} of {rows(answer['matched'])} were {ON_ROWS[answer['verb']].past}"
        return f"interrupted: {were}{line}"
    if not answer["matched"] and "action" not in answer:
        takes = f"{answer['verb']} takes rows that are {_takes(answer['verb'])}"
        return f"no row matches: nothing to do ({takes}{_others(answer['verb'], answer['filter'])})"
    if answer["dry_run"]:
        return "nothing was changed: this was a dry run"
    why = "locked, changed meanwhile, or flows that have begun" if answer["verb"] == "delete" else SKIPPED
    skipped = f", {answer['skipped']:,} skipped ({why})" if answer["skipped"] else ""
    return f"done  {rows(answer['changed'])} changed{skipped} · line {answer['action']} of the audit"


def _others(verb: str, filter: str) -> str:
    """Which verb takes the statuses that were named, if this one takes none of them and that one destroys nothing."""
    wanted = parse(filter)
    if operate.narrow(verb, wanted) is not None:
        return ""
    others = [name for name, each in ON_ROWS.items() if not each.grave and operate.narrow(name, wanted) is not None]
    return "".join(f"; {name} takes rows that are {_takes(name)}" for name in others)


def _takes(verb: str) -> str:
    return " or ".join(ON_ROWS[verb].statuses)


def rows(n: int) -> str:
    """So many rows, in words."""
    return f"{n:,} row{'' if n == 1 else 's'}"
