"""Most payloads are a few plain values under names: JSON in one pass, without the careful walk of payload.py."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import msgspec

from . import limits, numbers

BYTES_MAX = limits.PAYLOAD_BYTES_MAX // 3  # with a space after each comma and colon it still fits
_FINE = frozenset({str, bool, type(None), datetime, date, time, timedelta, UUID})  # whatever their value
_SIMPLE = _FINE | {int}  # as long as the text is short: no number in it can be too long
_NAMES = frozenset({str})
_INT = range(-(1 << 63), 1 << 63)
_encode = msgspec.json.Encoder().encode


def plain_json(payload: Any) -> str | None:
    """The payload as JSON text, if it is null or an object of plain values or lists of them; None: look with care.

    What is refused, or written in another way, is never plain: a number that is no number, a NUL character, an object
    inside (two of its names may be one in JSON), a subclass of anything.
    """
    if payload is None:
        return "null"
    values = _values(payload)
    if values is None:
        return None
    simple = _SIMPLE.issuperset(map(type, values))
    if not simple and not _are_plain(values, lists=True):
        return None
    try:
        data = _encode(payload)
    except (TypeError, ValueError):  # a lone surrogate
        return None
    if len(data) > numbers.DIGITS_MAX and (len(data) > BYTES_MAX or (simple and not _are_plain(values, lists=False))):
        return None
    return None if rb"\u0000" in data else data.decode()


def _values(payload: Any) -> Collection[Any] | None:
    kind = type(payload)
    if kind is dict:
        return payload.values() if _NAMES.issuperset(map(type, payload)) else None
    if issubclass(kind, msgspec.Struct):
        return msgspec.structs.astuple(payload)
    try:
        return [getattr(payload, name) for name in kind.__dataclass_fields__]
    except AttributeError:
        return None


def _are_plain(values: Collection[Any], *, lists: bool) -> bool:
    for value in values:
        kind = type(value)
        if kind in _FINE:
            continue
        if kind is int:
            fine = value in _INT
        elif kind is float:
            fine = 1e-4 <= abs(value) < 1e16 or value == 0.0  # written without an exponent
        else:
            fine = kind is list and lists and _are_plain(value, lists=False)
        if not fine:
            return False
    return True
