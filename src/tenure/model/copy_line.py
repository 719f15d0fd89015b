"""A row as a line of COPY: tabs between its columns, and none in them."""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def copy_line(values: Iterable[str | None]) -> str:
    """These texts as one line for COPY in its text format; None is NULL. They have no NUL characters."""
    return "\t".join(["\\N" if value is None else escape(value) for value in values]) + "\n"


def escape(text: str) -> str:
    """The text as COPY reads it back: what ends a column or a line, and the backslash, each with a backslash."""
    if text.isprintable() and "\\" not in text:
        return text
    for each, written in _ESCAPED:
        text = text.replace(each, written)
    return text
