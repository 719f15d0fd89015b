"""A column in a line of COPY: tabs stand between columns, and none in them."""

from __future__ import annotations

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def column(text: str | None) -> str:
    """The text as COPY reads it back; None is NULL. It has no NUL characters.

    What ends a column or a line has a backslash before it, and so has the backslash itself.
    """
    if text is None:
        return "\\N"
    if text.isprintable() and "\\" not in text:
        return text
    for each, written in _ESCAPED:
        text = text.replace(each, written)
    return text
