"""How a command reads its filter: words on the command line, or one text."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.filter import BadFilter, Filter, parse
from .output import remark


def filter_of(words: Sequence[str], text: str = "") -> Filter:
    """The filter of these words, whose quotes the shell has removed; stderr gets a hint for each old word."""
    found = parse(" ".join([*map(_quoted_again, words), text]))
    for hint in found.hints:
        remark(f"tenure: {hint}")
    return found


def _quoted_again(word: str) -> str:
    """The word itself; with its value in quotes if it is valid only so."""
    name, colon, value = word.partition(":")
    if not colon or not set(word) & set(" \t\n"):
        return word
    try:
        parse(word)
    except BadFilter:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{name}:"{escaped}"'
    return word
