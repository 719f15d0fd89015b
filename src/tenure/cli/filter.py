"""How a command reads its filter: words on the command line, or one text."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.filter import BadFilter, Filter, parse


def filter_of(words: Sequence[str], text: str = "") -> Filter:
    """The filter these words say together; a shell has already eaten the quotes of error:"time out"."""
    return parse(" ".join([*map(_quoted_again, words), text]))


def _quoted_again(word: str) -> str:
    """The word itself, unless it makes sense only with its value in quotes."""
    name, colon, value = word.partition(":")
    if not colon or not set(word) & set(" \t\n"):
        return word
    try:
        parse(word)
    except BadFilter:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{name}:"{escaped}"'
    return word
