"""The body of a request: read in time and up to a size, as the type that its route asks for."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

import msgspec
from starlette.requests import Request

from .explained import explained
from .http_errors import Refused

BODY_BYTES_MAX = 2 * 1024 * 1024
BODY_SECONDS = 25.0  # shorter than the server's own limit, which closes the connection without a word
_NOT_WHOLE = re.compile(r"Expected `int(?: \| null)?`, got `float` - at `\$\.(\w+)`")
_WHOLE = re.compile(rb"(-?\d+)\.0+")
S = TypeVar("S")


async def read_body(request: Request, kind: type[S], *, may_be_empty: bool) -> S:
    """The body as this type, or a refusal. What may be left out must be valid where it is there."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    other_type = Refused(415, f"content-type {content_type[:60]!r} is not supported: send application/json")
    is_json = content_type == "application/json"
    if not is_json and not may_be_empty:
        raise other_type
    body = await _bytes_in_time(request)
    if not body and may_be_empty:
        return kind()
    if not is_json:
        raise other_type
    try:
        return _decoded(body, kind)
    except msgspec.ValidationError as error:
        raise Refused(400, f"body: {explained(error, kind)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"body is not JSON ({error}): send one object") from None


def _decoded(body: bytes, kind: type[S]) -> S:
    """The body as this type; 3.0 is accepted as a whole number, because JSON has one kind of number."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        field = _NOT_WHOLE.match(str(error))
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw]) if field else {}
        number = _WHOLE.fullmatch(bytes(fields[field[1]])) if field else None
        if field is None or number is None:
            raise
        return _decoded(msgspec.json.encode({**fields, field[1]: msgspec.Raw(number[1])}), kind)


async def _bytes_in_time(request: Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _bytes(request)
    except TimeoutError:
        raise Refused(
            408, f"the body did not come within {BODY_SECONDS:.0f} s: send it faster, or less at once"
        ) from None


async def _bytes(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise Refused(413, f"the body is longer than {BODY_BYTES_MAX} bytes: send less at once")
        parts.append(part)
    return b"".join(parts)
