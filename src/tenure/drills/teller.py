"""How a drill is told: aligned lines for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Protocol

import click

from .stage import Said
from .verdict import Check, Verdict

_HIDDEN = ("worker", "job_id")  # named by the column before, or the same in every line
_LOUD = {"stale_write_blocked": "yellow", "ledger_written": "green"}

# Events of the drill itself, in words: the event, then its fields.
_WORDS = {
    "schema_made": ("schema made", "{schema}"),
    "schema_removed": ("schema removed", "{schema}"),
    "schema_left": ("schema left behind", "remove it with: {remedy}"),
    "worker_paused": ("{worker} paused", "SIGSTOP to pid {pid}, its lease is {lease_seconds:g} s"),
    "worker_resumed": ("{worker} resumed", "SIGCONT to pid {pid}"),
    "lease_expired": ("lease expired", "on the database's clock"),
    "backoff_skipped": ("backoff skipped", "{seconds:g} s of waiting that this race does not need"),
}


class Teller(Protocol):
    """Whoever tells a drill."""

    def event(self, said: Said) -> None:
        """Tell one thing that happened, as it happens."""

    def verdict(self, verdict: Verdict) -> None:
        """Tell how it ended."""


class Json:
    """For programs: every line is an object with at, who and event; the last one is the verdict."""

    def event(self, said: Said) -> None:
        """One line."""
        echo(json.dumps({"at": round(said.at, 3), "who": said.who, "event": said.event, **said.fields}))

    def verdict(self, verdict: Verdict) -> None:
        """The last line."""
        echo(json.dumps({"at": round(verdict.seconds, 3), "who": "drill", "event": "verdict", **verdict.fields()}))


class Plain:
    """For people: seconds, who, what; then the assertions, two to a line."""

    def event(self, said: Said) -> None:
        """One line, in columns."""
        name, fields = _in_words(said)
        seconds = click.style(f"{said.at:6.3f}s", dim=True)
        event = click.style(f"{name:<19}", fg=_LOUD.get(said.event), bold=said.event in _LOUD or None)
        echo(f"  {seconds}  {said.who:<8}  {event}  {fields}".rstrip())

    def verdict(self, verdict: Verdict) -> None:
        """The assertions, or why there are none."""
        echo()
        if verdict.trouble:
            echo(f"   {mark(False)} {verdict.trouble}")
        left = max((len(check.sentence) for check in verdict.checks[::2]), default=0)
        for n in range(0, len(verdict.checks), 2):
            echo("   " + "      ".join(_assertion(check, left) for check in verdict.checks[n : n + 2]).rstrip())


def echo(line: str = "") -> None:
    """Print at once; colour only on a terminal, and not where NO_COLOR is set."""
    click.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    sys.stdout.flush()


def mark(ok: bool) -> str:
    """✓ or ✗, in letters where the terminal has no such signs."""
    signs = ("✓", "✗")
    try:
        "".join(signs).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        signs = ("ok", "NO")
    return click.style(signs[0], fg="green") if ok else click.style(signs[1], fg="red", bold=True)


def _assertion(check: Check, width: int) -> str:
    return f"{mark(check.ok)} {check.sentence:<{width}}"


def _in_words(said: Said) -> tuple[str, str]:
    if said.event in _WORDS:
        name, fields = _WORDS[said.event]
        return name.format(**said.fields), fields.format(**said.fields)
    shown = {key: value for key, value in said.fields.items() if key not in _HIDDEN and value not in ("", 0)}
    return said.event, " ".join(f"{key}={_value(value)}" for key, value in shown.items())


def _value(value: Any) -> str:
    return "none" if value is None else str(value)
