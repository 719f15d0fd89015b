"""Lines and marks that the terminal can show; elsewhere plain text."""

from __future__ import annotations

import os
import sys

import click


def echo(line: str = "") -> None:
    """Print at once; colour only on a terminal, and not where NO_COLOR is set."""
    click.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    sys.stdout.flush()


def mark(ok: bool) -> str:
    """✓ or ✗; letters if the terminal cannot show them."""
    signs = ("✓", "✗")
    try:
        "".join(signs).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        signs = ("ok", "NO")
    return click.style(signs[0], fg="green") if ok else click.style(signs[1], fg="red", bold=True)
