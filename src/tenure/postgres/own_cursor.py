"""Cursors of ours on anybody's connection: they send and read as psycopg does by itself, whatever is registered there.

A handler may set on a lent connection how a type is read, an application on its own or on all: our parameters and
answers are not theirs. A time that no calendar has is read as the first or the last there is: one row must not keep
everybody from reading the others.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from psycopg import AsyncCursor, Cursor, DataError, postgres, pq
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.array import register_all_arrays
from psycopg.types.json import set_json_loads

from ..model.times import FIRST, LAST


def _untouched() -> AdaptersMap:
    """The adapters of psycopg itself: those of all its connections may have been changed before we are imported."""
    adapters = AdaptersMap()
    postgres.register_default_types(adapters.types)
    postgres.register_default_adapters(adapters)
    register_all_arrays(adapters)
    set_json_loads(json.loads, adapters)
    return adapters


OURS = _untouched()  # one for all: to make it anew for each statement would take longer than the statement
_TIME = OURS.types["timestamptz"].oid
_PLAIN = OURS.get_loader(_TIME, pq.Format.BINARY)


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


def read_any_time(context: AdaptContext) -> None:
    """From now on every time that the database has is read there."""
    context.adapters.register_loader(_TIME, _AnyTime)


read_any_time(OURS)


class OwnCursor(Cursor[tuple[Any, ...]]):
    """For a blocking connection."""

    __slots__ = ()

    @property
    def adapters(self) -> AdaptersMap:
        """Ours, not those of the connection."""
        return OURS


class OwnAsyncCursor(AsyncCursor[tuple[Any, ...]]):
    """For an awaiting connection."""

    __slots__ = ()

    @property
    def adapters(self) -> AdaptersMap:
        """Ours, not those of the connection."""
        return OURS
