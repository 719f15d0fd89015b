"""Waiting for the end of a row: a note says when its result is there, and polling finds every other end."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection, Connection

from ..embedded.default_database import address, address_async
from ..errors import BadSettings, InvalidPayload
from ..model.ended import OPEN, Ended, EndedRow
from ..model.envelope import MissingKey, find
from ..postgres.connection import connect, connect_async
from ..postgres.runner import run
from ..verbs.results import await_end, ended
from .codec import Codec
from .encryption import RESULT_OF

POLL_SECONDS = 1.0  # a note comes sooner, of rows that completed


def opened(row: EndedRow, codec: Codec | None) -> Ended[Any]:
    """How a row ended, with its value as Python values."""
    text = row.value
    envelope = None if text is None else find(text)
    if text is not None and envelope is not None:
        if codec is None:
            raise MissingKey(envelope.key, "and this inbox has no codec")
        key = None if row.partition_key == str(row.id) else row.partition_key
        text = codec.decrypt(text, envelope, kind=f"{RESULT_OF}{row.kind}", queue=row.queue or "", key=key)
    return Ended(row.status, None if text is None else msgspec.json.decode(text), row.error)  # type: ignore[arg-type]


def wait_for_end(url: str | None, schema: str, row_id: UUID, seconds: float, codec: Codec | None) -> Ended[Any]:
    """Until it ends; TimeoutError after so many seconds."""
    by = _by(seconds)
    with connect(address(url), application_name="tenure result", schema=schema) as conn:
        channel = run(conn, await_end(row_id, seconds))
        conn.execute(f'LISTEN "{channel}"'.encode())
        while (found := _found(run(conn, ended([row_id]))[0])) is None:
            _hear(conn, row_id, _left(by, row_id, seconds))
    return opened(found, codec)


async def wait_for_end_async(
    url: str | None, schema: str, row_id: UUID, seconds: float, codec: Codec | None
) -> Ended[Any]:
    """The same, awaiting."""
    by = _by(seconds)
    found_at = await address_async(url)
    async with await connect_async(found_at, application_name="tenure result", schema=schema) as conn:
        channel = await run(conn, await_end(row_id, seconds))
        await conn.execute(f'LISTEN "{channel}"'.encode())
        while (found := _found((await run(conn, ended([row_id])))[0])) is None:
            await _hear_async(conn, row_id, _left(by, row_id, seconds))
    return opened(found, codec)


def _hear(conn: Connection[Any], row_id: UUID, seconds: float) -> None:
    """Until a note of this row comes, or the next poll."""
    by = time.monotonic() + seconds
    while (left := by - time.monotonic()) > 0:
        for note in conn.notifies(timeout=left, stop_after=1):
            if note.payload == str(row_id):
                return


async def _hear_async(conn: AsyncConnection[Any], row_id: UUID, seconds: float) -> None:
    by = time.monotonic() + seconds
    while (left := by - time.monotonic()) > 0:
        async for note in conn.notifies(timeout=left, stop_after=1):
            if note.payload == str(row_id):
                return


def id_of(sent: Any) -> UUID:
    """The id of a row, by the answer of enqueue, its id, or its id as text."""
    given = getattr(sent, "id", sent)
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (AttributeError, TypeError, ValueError):
        raise BadSettings(f"{sent!r} is not the id of a row: pass what enqueue answered, or its id") from None


def _found(row: EndedRow) -> EndedRow | None:
    if row.status == "unknown":
        raise InvalidPayload(
            f"there is no row {row.id}, not yet or no more: commit the transaction that sent it, then wait for it"
        )
    return None if row.status in OPEN else row


def _by(seconds: float) -> float:
    if not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
        raise BadSettings(f"timeout_seconds={seconds!r} must be a number above 0, at most 86400: longer is a flow")
    return time.monotonic() + seconds


def _left(by: float, row_id: UUID, seconds: float) -> float:
    left = by - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"row {row_id} has not ended within {seconds:g} s: it is still to run, ask again later")
    return min(left, POLL_SECONDS)
