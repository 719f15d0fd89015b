"""Times that no calendar has (infinity, or a year beyond ours): read as the first or the last time there is.

Whoever may insert a row may write such a time, and one row must not keep everybody from reading the others.
"""

from __future__ import annotations

from datetime import datetime

from psycopg import AsyncConnection, Connection, DataError, adapters, pq
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader

from ..model.times import FIRST, LAST

_OID = adapters.types["timestamptz"].oid
_PLAIN = adapters.get_loader(_OID, pq.Format.BINARY)


class _AnyTime(Loader):
    format = pq.Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        assert _PLAIN is not None
        self._plain = _PLAIN(oid, context)

    def load(self, data: Buffer) -> datetime:
        """The time as psycopg reads it, as far as it can."""
        try:
            time: datetime = self._plain.load(data)
            return time
        except DataError:
            is_early = bytes(data)[0] & 0x80  # microseconds since 2000, the sign first
            return FIRST if is_early else LAST


def read_any_time(conn: Connection[tuple[object, ...]] | AsyncConnection[tuple[object, ...]]) -> None:
    """From now on this connection reads every time that the database has."""
    conn.adapters.register_loader(_OID, _AnyTime)
