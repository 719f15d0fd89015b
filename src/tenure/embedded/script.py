"""A connection for scripts: to the database that every command works on, the embedded Postgres included."""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg import AsyncConnection, Connection

from .. import settings
from ..postgres import connect as connect_ours
from ..postgres import migrate
from .default_database import address


def connect(url: str | None = None, *, autocommit: bool = False) -> Connection[Any]:
    """An ordinary connection: `with tenure.connect() as conn: receipt.enqueue(conn, order_id=1)` commits at its end.

    It goes to `url`, or where the settings say (TENURE_DATABASE_URL, DATABASE_URL, PG*), or to the embedded Postgres of
    the project in the working folder, as `tenure dev` does. SchemaMismatch if that database is not migrated.
    """
    return Connection.connect(_migrated(url), autocommit=autocommit)


async def connect_async(url: str | None = None, *, autocommit: bool = False) -> AsyncConnection[Any]:
    """The same, for `async with await tenure.connect_async() as conn:`."""
    return await AsyncConnection.connect(await asyncio.to_thread(_migrated, url), autocommit=autocommit)


def _migrated(url: str | None) -> str:
    found = address(url)
    with connect_ours(found, application_name="tenure script") as conn:
        migrate.require(conn, settings.load().schema)
    return found
