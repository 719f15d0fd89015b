"""Where the database is, found in one way by all that take a `url` and can do without."""

from __future__ import annotations

import asyncio
import threading

from .. import settings
from .server import Server, attach

_attached: list[Server] = []  # the embedded server stays for as long as this process
_one_at_a_time = threading.Lock()


def address(url: str | None = None, flag: str = "url") -> str:
    """`url`, or what the settings say (TENURE_DATABASE_URL, DATABASE_URL, PG*), or the project's embedded Postgres.

    It may be empty: libpq then reads its own variables.
    """
    found = settings.load(database_url=url, flag=flag).database_url
    if found is not None:
        return found
    with _one_at_a_time:
        if not _attached:
            _attached.append(attach())
    return _attached[0].url


async def address_async(url: str | None = None) -> str:
    """The same on a loop, which goes on while a server starts."""
    return await asyncio.to_thread(address, url)
