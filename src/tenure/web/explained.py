"""Why a query or a body is refused: the sentence of msgspec, or what was probably meant."""

from __future__ import annotations

import difflib
import re
from typing import Any, get_args

import msgspec

from ..other_words import meant

_WORD = re.compile(r"Invalid enum value '(.*)' - at `\$\.(\w+)`", re.DOTALL)


def explained(error: msgspec.ValidationError, kind: Any) -> str:
    """The message of msgspec; for an unknown field or word, the one that was probably meant."""
    said = str(error)
    if word := _WORD.fullmatch(said):
        return _unknown_word(kind, word[1], word[2])
    if "unknown field" not in said:
        return said[0].lower() + said[1:]
    wrong = said.split("`")[1][:60]
    flat = isinstance(kind, type) and " - at " not in said
    known = [each.encode_name for each in msgspec.structs.fields(kind)] if flat else []
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}?" if near else "leave it out"
    return f"there is no field {wrong!r}: {hint}"


def _unknown_word(kind: Any, value: str, name: str) -> str:
    """The sentence about a value that is not one of a few words."""
    fields = msgspec.structs.fields(kind) if isinstance(kind, type) else ()
    words = [str(word) for each in fields if each.encode_name == name for word in get_args(each.type)]
    near = meant(value, words)
    asks = f": did you mean {near!r}?" if near else ""
    lists = f"{' There' if near else ': there'} are {', '.join(words)}" if words else ""
    return f"{name} {value[:60]!r} is unknown{asks}{lists}"
