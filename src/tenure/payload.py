"""What may go into the inbox, checked before it is sent: what Postgres or Python cannot give back would be lost."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from .errors import InvalidPayload
from .model import NewRow

PAYLOAD_BYTES_MAX = 1024 * 1024
DEPTH_MAX = 200
DIGITS_MAX = 4000
KEY_BYTES_MAX = 512
NAME_BYTES_MAX = 128
DELAY_SECONDS_MAX = 315_576_000.0
ERROR_BYTES_MAX = 8192
HEADERS_BYTES_MAX = 4096


def encode(payload: Any) -> str:
    """The payload as JSON text that Postgres takes and every Python gives back, or InvalidPayload.

    A msgspec.Raw is JSON already and stays as it was written, digit by digit.
    """
    if isinstance(payload, msgspec.Raw):
        return _encode_raw(bytes(payload))
    try:
        plain = msgspec.to_builtins(payload, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(payload, error) from None
    _inspect(plain)
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        raise _not_json(payload, error) from None
    if size > PAYLOAD_BYTES_MAX:
        raise InvalidPayload(
            f"payload has {size} bytes, the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere and send its address"
        )
    return text


def _encode_raw(raw: bytes) -> str:
    if len(raw) > PAYLOAD_BYTES_MAX:
        raise InvalidPayload(
            f"payload has {len(raw)} bytes, the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere and send its address"
        )
    try:
        _inspect(json.loads(raw))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidPayload):
            raise
        raise _not_json(raw, error) from None
    return raw.decode()


def encode_headers(headers: Mapping[str, str] | None) -> str | None:
    """What a producer sends along with a row, as JSON text; None for nothing, InvalidPayload for what is not text."""
    if headers is None or headers == {}:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidPayload(f"headers={headers!r} must be a mapping of text to text, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidPayload(f"headers[{name!r}]={value!r} must be text named by text: use str()")
        check_text(name, f"headers: the name {name[:40]!r}")
        check_text(value, f"headers[{name[:40]!r}]")
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(", ", ": "))
    if len(text.encode()) > HEADERS_BYTES_MAX:
        raise InvalidPayload(
            f"headers have {len(text.encode())} bytes, the limit is {HEADERS_BYTES_MAX}: "
            "put what is larger into the payload"
        )
    return text


def _not_json(payload: Any, error: Exception) -> InvalidPayload:
    if isinstance(error, RecursionError):
        return InvalidPayload(f"payload is nested deeper than {DEPTH_MAX} levels or contains itself: flatten it")
    return InvalidPayload(f"payload of type {type(payload).__name__} is not JSON ({error}): send plain values")


def _inspect(plain: Any) -> None:
    """Walk without recursion; refuse what Postgres would refuse, and what it would keep but Python could not read."""
    stack: list[tuple[Any, int, str]] = [(plain, 1, "payload")]
    while stack:
        value, depth, where = stack.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                check_text(str(key), f"a key in {where}")
                stack.append((inner, depth + 1, f"{where}[{str(key)[:40]!r}]"))
        elif isinstance(value, list | tuple):
            stack.extend((inner, depth + 1, f"{where}[{n}]") for n, inner in enumerate(value))
        elif isinstance(value, str):
            check_text(value, where)
        elif isinstance(value, float) and not math.isfinite(value):
            raise InvalidPayload(f"{where} is {value}, which JSON does not have: send null or a string")
        elif isinstance(value, int) and value.bit_length() > DIGITS_MAX * 3:
            raise InvalidPayload(f"{where} is a number of more than {DIGITS_MAX * 3 // 4} digits: send it as a string")
        if depth > DEPTH_MAX:
            raise InvalidPayload(f"payload is nested deeper than {DEPTH_MAX} levels: flatten it")


def check_text(text: str, where: str) -> str:
    """The text itself, or InvalidPayload if Postgres cannot store it."""
    if "\x00" in text:
        raise InvalidPayload(f"{where} contains a NUL character, which Postgres cannot store: remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(
            f"{where} contains a lone surrogate ({text[error.start]!r}), which is no character: decode it properly"
        ) from None
    return text


def check_row(row: NewRow) -> None:
    """Refuse options that contradict each other or the inbox, naming the value and the way out."""
    check_name(row.kind, "kind")
    check_name(row.queue, "queue")
    for key, name in ((row.key, "key"), (row.idempotency_key, "idempotency_key")):
        if key is not None:
            _check_bytes(key, name, KEY_BYTES_MAX)
    _check_int(row.priority, "priority", -100, 100)
    _check_int(row.max_attempts, "max_attempts", 1, 10_000)
    if not isinstance(row.delay_seconds, int | float) or not 0 <= row.delay_seconds <= DELAY_SECONDS_MAX:
        raise InvalidPayload(
            f"delay_seconds={row.delay_seconds!r} must be within 0 and {DELAY_SECONDS_MAX:.0f}: leave it out for now"
        )
    if row.at is not None and (not isinstance(row.at, datetime) or row.at.tzinfo is None):
        raise InvalidPayload(f"at={row.at!r} must be a datetime with a time zone: add tzinfo=timezone.utc")
    if row.at is not None and abs(row.at.timestamp() - time.time()) > DELAY_SECONDS_MAX:
        raise InvalidPayload(f"at={row.at} must lie within ten years of now")
    if row.at is not None and row.delay_seconds:
        raise InvalidPayload(
            f"at={row.at} and delay_seconds={row.delay_seconds} are two answers to one question: give one"
        )
    if row.ordered and row.key is None:
        raise InvalidPayload("ordered=True needs a key: order is kept per key")
    if row.hold and not row.ordered:
        raise InvalidPayload("hold=True needs ordered=True: it keeps the key waiting for an operator")
    encode_headers(row.headers)


def copy_row(row: NewRow) -> tuple[object, ...]:
    """One row in the columns of COPY, checked like any other; a delay counts from now, on the producer's clock."""
    check_row(row)
    if row.idempotency_key is not None:
        raise InvalidPayload(f"idempotency_key={row.idempotency_key!r} cannot go through COPY: use enqueue_many")
    at = row.at or datetime.now(UTC) + timedelta(seconds=row.delay_seconds)
    return (
        row.kind,
        encode(row.payload),
        row.key,
        row.queue,
        row.priority,
        at,
        row.max_attempts,
        row.ordered,
        row.hold,
        encode_headers(row.headers),
    )


def check_name(name: str, what: str) -> str:
    """A kind, queue, worker or effect name, or InvalidPayload."""
    return _check_bytes(name, what, NAME_BYTES_MAX)


def clean_error(error: str | None) -> str | None:
    """An error text that Postgres will take whatever the exception contained: the attempt must end even so."""
    if error is None:
        return None
    safe = error.replace("\x00", "\\0").encode("utf-8", "backslashreplace")
    return safe[:ERROR_BYTES_MAX].decode("utf-8", "ignore")


def _check_bytes(text: str, what: str, most: int) -> str:
    if not isinstance(text, str):
        raise InvalidPayload(f"{what}={text!r} must be text, not {type(text).__name__}")
    check_text(text, what)
    if not 1 <= len(text.encode()) <= most:
        shown = repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
        raise InvalidPayload(f"{what}={shown} has {len(text.encode())} bytes: it must have 1 to {most}")
    return text


def _check_int(value: int, what: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidPayload(f"{what}={value!r} must be a whole number within {least} and {most}")
