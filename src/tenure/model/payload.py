"""Checks before a row is sent: a value that Postgres or Python cannot give back would be lost."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from ..errors import InvalidPayload, PayloadTooLarge
from . import limits, numbers
from .plain_json import plain_json
from .rows import NewRow

_BOXES = (dict, list, tuple)
_SPACES = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|\s+', re.DOTALL)  # those between the strings
_Path = tuple[str | int, ...]
_TYPED = (bytes, bytearray, datetime, date, clock, timedelta, UUID, Decimal)  # as keys, two may become one text


class _Pairs(list[tuple[str, Any]]):
    """An object of a Raw with all its pairs: Postgres checks each, even if a name comes twice."""


def encode(payload: Any) -> str:
    """The payload as JSON text that Postgres can store and Python can read back, or InvalidPayload.

    A msgspec.Raw is JSON already and stays as it was written.
    """
    if isinstance(payload, msgspec.Raw):
        return _encode_raw(payload)
    if (plain := plain_json(payload)) is not None:
        return plain
    try:
        typed = msgspec.to_builtins(payload, builtin_types=_TYPED)
        plain = msgspec.to_builtins(typed, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(payload, error) from None
    growth = _inspect(typed)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _check_size(len(text.encode()), growth)
    return text


def _encode_raw(raw: msgspec.Raw) -> str:
    written = bytes(raw)
    _check_size(len(written))
    text = _utf8(written)
    try:
        value = json.loads(text, parse_int=numbers.noted, parse_float=numbers.noted, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise _not_json(raw, error) from None
    growth = _inspect(value)
    if len(written) + growth > limits.PAYLOAD_BYTES_MAX:  # what it has of spaces, Postgres writes anew
        growth -= sum(len(found[0]) for found in _SPACES.finditer(text) if not found[1])
    _check_size(len(written), growth)
    return text


def encode_headers(headers: Mapping[str, str] | None) -> str | None:
    """The headers of a row as JSON text; None if there are none, InvalidPayload if a value is not text."""
    if headers is None or headers == {}:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidPayload(f"headers={headers!r} must be a mapping of text to text, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidPayload(f"headers[{name!r}]={value!r} must have text as name and value: use str()")
        check_text(name, f"headers: the name {name[:40]!r}")
        check_text(value, f"headers[{name[:40]!r}]")
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(", ", ": "))
    if len(text.encode()) > limits.HEADERS_BYTES_MAX:
        raise InvalidPayload(
            f"headers have {len(text.encode())} bytes, the limit is {limits.HEADERS_BYTES_MAX}: "
            "put larger values into the payload"
        )
    return text


def _not_json(payload: Any, error: Exception) -> InvalidPayload:
    if isinstance(error, RecursionError):
        return InvalidPayload(f"payload is nested deeper than {limits.DEPTH_MAX} levels or contains itself: flatten it")
    return InvalidPayload(f"payload of type {type(payload).__name__} is not JSON ({error}): send plain values")


def _utf8(written: bytes) -> str:
    """The text of JSON in UTF-8. UTF-16 and UTF-32 contain zero bytes, JSON in UTF-8 contains none."""
    if not written.startswith(codecs.BOM_UTF8) and b"\0" not in written:
        with contextlib.suppress(UnicodeDecodeError):
            return written.decode()
    raise InvalidPayload("payload must be JSON in UTF-8: decode it, then send it with text.encode()")


def _check_size(size: int, growth: int = 0) -> None:
    if size + growth > limits.PAYLOAD_BYTES_MAX:
        how = " as Postgres writes it" if growth else ""
        raise PayloadTooLarge(
            f"payload has {size + growth} bytes{how}, the limit is {limits.PAYLOAD_BYTES_MAX}: "
            "store the content elsewhere and send its address"
        )


def _inspect(value: Any) -> int:
    """Check every value, without recursion; refuse what Postgres would refuse, or store but Python could not read back.

    Returns by how many bytes it grows in Postgres, which writes 5e-324 with all its zeros, and a space after each comma
    and colon.
    """
    growth = -1  # for the name that it has here
    stack: list[tuple[Any, _Path]] = [(_Pairs([("payload", value)]), ())]
    while stack:
        box, path = stack.pop()
        if len(path) >= limits.DEPTH_MAX and box:
            raise InvalidPayload(f"payload is nested deeper than {limits.DEPTH_MAX} levels: flatten it")
        growth += max(0, len(box) - 1) + (len(box) if isinstance(box, dict | _Pairs) else 0)
        for step, inner in _steps(box, path):
            if isinstance(inner, _BOXES):
                stack.append((inner, (*path, step)))
            else:
                growth += _inspect_scalar(inner, path, step)
    return growth


def _steps(box: Any, path: _Path) -> Iterable[tuple[Any, Any]]:
    """The values in a list or object, each with its number or its name in JSON."""
    if not isinstance(box, (dict, _Pairs)):
        return enumerate(box)
    pairs = box if isinstance(box, _Pairs) else _named(box, path)
    for name, _ in pairs:
        if not _is_ascii(name):
            check_text(name, f"a key in {_place(path)}")
    return pairs


def _named(box: dict[Any, Any], path: _Path) -> Iterable[tuple[str, Any]]:
    """The pairs of an object whose keys need not be text: in JSON, 1 and "1" are the same name."""
    if set(map(type, box)) <= {str}:
        return box.items()
    where = _place(path)
    named: dict[str, Any] = {}
    for key, inner in box.items():
        if not numbers.is_finite(key):
            raise InvalidPayload(f"a key in {where} is {key}, which JSON does not have: send a string")
        (name,) = msgspec.to_builtins({key: None}, str_keys=True)
        if name in named:
            raise InvalidPayload(f"two keys in {where} become {name[:40]!r} in JSON, one would be lost: rename one")
        named[name] = inner
    return named.items()


def _inspect_scalar(value: Any, path: _Path, step: str | int) -> int:
    if value is None or (isinstance(value, float) and 1e-4 <= abs(value) < 1e16):  # written without an exponent
        return 0
    if isinstance(value, str) and not isinstance(value, numbers.Number):
        if not _is_ascii(value):
            check_text(value, _place((*path, step)))
        return 0
    if trouble := numbers.trouble(value):
        raise InvalidPayload(f"{_place((*path, step))} is {trouble}")
    return numbers.growth(value)


def _is_ascii(text: str) -> bool:
    return text.isascii() and "\x00" not in text


def _place(path: _Path) -> str:
    """Where a value is, like payload['lines'][0]."""
    inner = (f"[{step[:40]!r}]" if isinstance(step, str) else f"[{step}]" for step in path[1:])
    return f"{path[0]}{''.join(inner)}"


def check_text(text: str, where: str) -> str:
    """The text itself, or InvalidPayload if Postgres cannot store it."""
    if "\x00" in text:
        raise InvalidPayload(f"{where} contains a NUL character, which Postgres cannot store: remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(
            f"{where} contains a lone surrogate ({text[error.start]!r}), which is not a character: decode it properly"
        ) from None
    return text


def check_row(row: NewRow) -> None:
    """Refuse options that contradict each other or exceed a limit, with the value and the next step."""
    if not isinstance(row, NewRow):
        raise InvalidPayload(f"{row!r} is not a row: pass handler.row(…), or NewRow(kind, payload)")
    alike = (row.kind, row.queue, row.priority, row.max_attempts, row.delay_seconds, row.ordered, row.hold)
    try:
        _check_options(*alike)
    except TypeError:  # something that has no hash
        _check_options.__wrapped__(*alike)
    if row.key is not None:
        check_row_key(row.key)
    elif row.ordered:
        raise InvalidPayload("ordered=True needs a key: order is kept per key")
    if row.idempotency_key is not None:
        check_row_key(row.idempotency_key, "idempotency_key")
    if row.at is not None:
        _check_at(row)
    encode_headers(row.headers)


def _check_at(row: NewRow) -> None:
    if not isinstance(row.at, datetime) or row.at.tzinfo is None:
        raise InvalidPayload(f"at={row.at!r} must be a datetime with a time zone: add tzinfo=timezone.utc")
    if abs(row.at.timestamp() - time.time()) > limits.DELAY_SECONDS_MAX:
        raise InvalidPayload(f"at={row.at} must be within ten years from now")
    if row.delay_seconds:
        both = f"at={row.at} and delay_seconds={row.delay_seconds}"
        raise InvalidPayload(f"{both} both say when the row is due: give only one")


@lru_cache(typed=True)
def _check_options(
    kind: str, queue: str, priority: int, max_attempts: int, delay_seconds: float, ordered: bool, hold: bool
) -> None:
    """What the rows of a handler have in common, looked at once."""
    check_name(kind, "kind")
    check_name(queue, "queue")
    _check_int(priority, "priority", -limits.PRIORITY_MAX, limits.PRIORITY_MAX)
    _check_int(max_attempts, "max_attempts", 1, limits.ATTEMPTS_MAX)
    most = limits.DELAY_SECONDS_MAX
    if not isinstance(delay_seconds, int | float) or not 0 <= delay_seconds <= most:
        raise InvalidPayload(f"delay_seconds={delay_seconds!r} must be between 0 and {most:.0f}: a number, 0 is none")
    for flag, name in ((ordered, "ordered"), (hold, "hold")):
        if not isinstance(flag, bool):
            raise InvalidPayload(f"{name}={flag!r} must be True or False")
    if hold and not ordered:
        raise InvalidPayload("hold=True needs ordered=True: after a dead letter, the key waits for an operator")


def check_name(name: str, what: str) -> str:
    """A kind, queue, worker or effect name, or InvalidPayload."""
    return _check_bytes(name, what, limits.NAME_BYTES_MAX)


def check_row_key(key: Any, what: str = "key") -> str:
    """The key of a row, or its idempotency key, or InvalidPayload."""
    return _check_bytes(key, what, limits.KEY_BYTES_MAX)


def clean_error(error: str | None) -> str | None:
    """An error text that Postgres can store, whatever the exception contained: the attempt must end."""
    if error is None:
        return None
    safe = error.replace("\x00", "\\0").encode("utf-8", "backslashreplace")
    return safe[: limits.ERROR_BYTES_MAX].decode("utf-8", "ignore")


def _check_bytes(text: str, what: str, most: int) -> str:
    if not isinstance(text, str):
        raise InvalidPayload(f"{what}={text!r} must be text, not {type(text).__name__}")
    if text.isascii() and 1 <= len(text) <= most and "\x00" not in text:
        return text
    check_text(text, what)
    if not 1 <= len(text.encode()) <= most:
        shown = repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
        raise InvalidPayload(f"{what}={shown} has {len(text.encode())} bytes: it must have 1 to {most}")
    return text


def _check_int(value: int, what: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        shown = "a huge number" if isinstance(value, int) and value.bit_length() > 64 else repr(value)
        raise InvalidPayload(f"{what}={shown} must be a whole number between {least} and {most}")
