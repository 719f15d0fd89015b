"""The one door to the terminal: text from others cannot control it there; marks and colours are ours.

A colour that we put into a text carries a number that nobody else knows; any other control character is shown as \\x1b.
"""

from __future__ import annotations

import os
import re
import sys
from contextvars import ContextVar
from typing import Any, NamedTuple

import click

from ..telemetry.log import printable

_OURS = f"\x1b{os.urandom(8).hex()}["
_STYLE = re.compile(re.escape(_OURS) + r"([0-9;]*m)")


class Said(NamedTuple):
    """What was to be printed."""

    text: str
    err: bool


# What is said in this context is kept here and not printed, if it is set: answers that are told together.
KEPT: ContextVar[list[Said] | None] = ContextVar("tenure_said", default=None)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print at once; colour only on a terminal, and not where NO_COLOR is set."""
    if (kept := KEPT.get()) is not None:
        kept.append(Said(text, err))
        return
    click.echo(shown(text), err=err, nl=nl, color=False if os.environ.get("NO_COLOR") else None)
    (sys.stderr if err else sys.stdout).flush()


def cleared() -> None:
    """Begin again at the top of an empty terminal."""
    click.echo("\x1b[H\x1b[2J", nl=False)


def sentence(text: str, *, err: bool = False) -> None:
    """Print a sentence: one line, whatever names are in it."""
    echo(one_line(text), err=err)


def shown(text: str) -> str:
    """The text as a terminal may get it: our colours, lines and tabs, and every other control character written out."""
    first, *rest = _STYLE.split(text)
    parts = [_plain(first)]
    for code, after in zip(rest[::2], rest[1::2], strict=True):
        parts += [f"\x1b[{code}", _plain(after)]
    return "".join(parts)


def _plain(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(each if each.isprintable() else _written_out(each) for each in lines)


def _written_out(text: str) -> str:
    """Also in JSON, which knows \\u007f and not \\x7f, and has no other control character."""
    return "\t".join(printable(cell) for cell in text.replace("\x7f", "\\u007f").split("\t"))


def one_line(text: str) -> str:
    """The text on one line."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def styled(text: str, **style: Any) -> str:
    """The text in a colour, bold or dim, for `echo`."""
    on, off = (code.replace("\x1b[", _OURS) for code in click.style("\0", **style).split("\0"))
    return f"{on}{text}{off}"


def mark(ok: bool) -> str:
    """✓ or ✗; letters if the terminal cannot show them."""
    signs = ("✓", "✗")
    try:
        "".join(signs).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        signs = ("ok", "NO")
    return styled(signs[0], fg="green") if ok else styled(signs[1], fg="red", bold=True)
