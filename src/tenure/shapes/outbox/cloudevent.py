"""An event as CloudEvents 1.0 has it: attributes by name, and the same as headers of each protocol in binary mode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec

from ...errors import InvalidPayload

TYPE_CHARS_MAX = 200
_TYPE = re.compile(r"[!-~]+")
_TRACE = ("traceparent", "tracestate")


def check_type(type: Any) -> str:
    """The type of an event itself, or InvalidPayload."""
    if not isinstance(type, str) or len(type) > TYPE_CHARS_MAX or not _TYPE.fullmatch(type):
        raise InvalidPayload(
            f"type={str(type)[:60]!r} must be 1 to {TYPE_CHARS_MAX} visible ASCII characters, such as 'order.paid'"
        )
    return type


def encoded(data: Any, bytes_max: int) -> bytes:
    """The data as JSON, or InvalidPayload if it cannot be or is too large for the broker."""
    try:
        body = msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"the data of an event must be JSON: {error}") from None
    if len(body) > bytes_max:
        said = f"the data of an event has {len(body)} bytes, the broker takes {bytes_max}"
        raise InvalidPayload(f"{said}: store it, and publish its address")
    return body


def attributes(
    row_id: UUID,
    seq: int,
    source: str,
    type: str,
    key: str | None,
    sent_headers: Mapping[str, str],
    id: str | None = None,
) -> dict[str, str]:
    """What CloudEvents asks for. The time is when the row was made: its id begins with it."""
    made = datetime.fromtimestamp((row_id.int >> 80) / 1000, UTC)
    said = {
        "specversion": "1.0",
        "id": id or str(row_id),
        "source": source,
        "type": type,
        "time": made.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sequence": f"{seq:019d}",
    }
    if key is not None:
        said["subject"] = key
    return {**said, **{name: sent_headers[name] for name in _TRACE if name in sent_headers}}


def headers(attributes: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Binary mode: every attribute with the protocol's prefix, written so that any header can carry it."""
    named = {f"{prefix}{name}": quote(value, safe=_PLAIN) for name, value in attributes.items()}
    return {**named, "content-type": "application/json"}


_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
