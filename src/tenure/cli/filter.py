"""How a command reads its filter: words on the command line, or one text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model.filter import FIELDS, WORD, BadFilter, Filter, parse
from .output import remark

TEXTS = ("error", "key", "idempotency")  # besides payload.NAME: their values may well have blanks
_KNOWN = "|".join(re.escape(name) for name in FIELDS)
_LIKE_A_WORD = re.compile(rf"(?:{_KNOWN}|payload\.\S*?)[:=<>]|[A-Za-z_][\w.]*:(?!//)\S")
_HINT = "a value with blanks needs quotes inside those of the shell, as in 'error:\"time out\"'"


def filter_of(words: Sequence[str], text: str = "", also: Mapping[str, str] | None = None) -> Filter:
    """The filter of these words, whose quotes the shell has removed; stderr gets a hint for each old word.

    `also` has names that the command knows besides, each with the field that it stands for.
    """
    named = [WORD.sub(lambda found: _named(found[0], also or {}), each) for each in words]
    found = parse(" ".join([*map(_quoted_again, named), text]))
    for hint in found.hints:
        remark(f"tenure: {hint}")
    return found


def _named(word: str, also: Mapping[str, str]) -> str:
    name, colon, value = word.partition(":")
    return f"{also[name]}:{value}" if colon and name in also else word


def _quoted_again(word: str) -> str:
    """The word itself; one text with blanks gets its quotes back.

    Refused where it could be a filter with a wrong word in it: taken for one text, it would match nothing in silence.
    """
    name, colon, value = word.partition(":")
    if not colon or not set(word) & set(" \t\n"):
        return word
    try:
        parse(word)
    except BadFilter as bad:
        if not _is_one_text(name, value):
            raise BadFilter(f"{bad}; {_HINT}", bad.word) from None
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{name}:"{escaped}"'
    return word


def _is_one_text(name: str, value: str) -> bool:
    """The shell has removed its quotes, and nothing in it looks like a word of a filter."""
    may_have_blanks = name in TEXTS or name.startswith("payload.")
    return may_have_blanks and value[:1] != '"' and not any(map(_LIKE_A_WORD.match, value.split()[1:]))
