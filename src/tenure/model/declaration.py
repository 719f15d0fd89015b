"""What a handler declared of its kind, for producers that cannot import it: the command line, HTTP and SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from ..errors import InvalidPayload
from .envelope import find, is_shown
from .payload import encode
from .rows import MAX_ATTEMPTS

Keyed = Literal["never", "by_template", "in_code"]
_PLAIN = re.compile(r"(?:[^{}]|\{[A-Za-z_]\w*\})+")  # what SQL can fill in, too
_FIELD = re.compile(r"\{(\w+)\}")


class Declaration(NamedTuple):
    """How rows of a kind are sent. The order of its fields is the order of the columns of `tenure.kinds`."""

    kind: str
    queue: str = "default"
    keyed: Keyed = "never"
    key_template: str | None = None
    ordered: bool = False
    hold: bool = False
    priority: int = 0
    max_attempts: int = MAX_ATTEMPTS
    encrypted: bool = False


class Filled(NamedTuple):
    """The options of a row, and what its sender should know of them ("" for nothing)."""

    options: dict[str, Any]
    hint: str


def keyed_by(key: object) -> tuple[Keyed, str | None]:
    """How the key of a kind is made: never, by a template that everybody can fill in, or only by Python code."""
    if key is None:
        return "never", None
    return ("by_template", key) if isinstance(key, str) and _PLAIN.fullmatch(key) else ("in_code", None)


def fill(given: Mapping[str, Any], payload: bytes, ways: list[Declaration], kind: str) -> Filled:
    """The options of a new row: those that were given (not None), and for the rest what its handler declared.

    `ways` are its declarations, the first one counts. InvalidPayload if the payload cannot be kept or is what is shown
    of an encrypted one, if the rows of the kind are encrypted and this payload is not, or if they are kept in order and
    nobody can know the key.
    """
    told = {name: value for name, value in given.items() if value is not None}
    if is_shown(bytes(payload).decode(errors="replace")):
        raise InvalidPayload(
            f"the payload of this {kind!r} is what is shown of an encrypted one: send it from Python, with the codec"
        )
    if not ways:
        unknown = f"no worker has declared kind {kind!r} yet: the row goes to queue 'default'"
        return Filled(told, "" if "queue" in told else unknown)
    declared, hints, text = ways[0], [], encode(msgspec.Raw(payload))
    if declared.encrypted and find(text) is None:
        raise InvalidPayload(
            f"rows of {kind!r} are encrypted, and this one would stand in clear: send it from Python, with the codec"
        )
    known = {name: getattr(declared, name) for name in ("queue", "ordered", "hold", "priority", "max_attempts")}
    options = {**known, **told}
    options["hold"] = told.get("hold", declared.hold and options["ordered"])
    if "key" not in options and declared.keyed != "never":
        options["key"] = _key(declared.key_template, text)
        if options["key"] is None:
            hints.append(_no_key(declared, ordered=options["ordered"]))
    if others := sorted({way.queue for way in ways} - {declared.queue}) if "queue" not in told else []:
        hints.append(
            f"kind {kind!r} was also declared for queue {', '.join(map(repr, others))}: the row goes to queue "
            f"{declared.queue!r}"
        )
    return Filled(options, "; ".join(hints))


def _no_key(declared: Declaration, *, ordered: bool) -> str:
    """The hint that a row goes without its key; InvalidPayload if it cannot."""
    made = f"from {declared.key_template!r} and this payload" if declared.key_template else "without its Python code"
    if ordered:
        raise InvalidPayload(
            f"the handler of {declared.kind!r} keeps its rows in order, and its key cannot be made {made}: give the key"
        )
    return f"the key of {declared.kind!r} cannot be made {made}: the row goes without one, give the key"


def _key(template: str | None, payload: str) -> str | None:
    """The key by its template; None if the payload has neither text nor a whole number where the template asks."""
    if template is None:
        return None
    named = _FIELD.findall(template)
    fields = json.loads(payload) if named else {}
    values = {name: fields.get(name) if isinstance(fields, dict) else None for name in named}
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values.values()):
        return None
    return _FIELD.sub(lambda found: str(values[found[1]]), template)
