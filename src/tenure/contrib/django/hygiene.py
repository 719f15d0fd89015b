"""Connections of Django in a worker: what is broken or too old is closed before a handler and after it.

A web server does that around each request. A worker has none, so a thread would keep a connection that the server or a
firewall has ended long ago, and its next handler would fail.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections


def close_old() -> None:
    """What Django does around a request; not in an open block, as TestCase has one: Django would close that, too."""
    for conn in connections.all(initialized_only=True):
        if not conn.in_atomic_block:
            conn.close_if_unusable_or_obsolete()


def clean(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with fresh connections around it."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaiting(*args: Any, **fields: Any) -> Any:
            await sync_to_async(close_old)()
            try:
                return await function(*args, **fields)
            finally:
                await sync_to_async(close_old)()

        return awaiting

    @functools.wraps(function)
    def plain(*args: Any, **fields: Any) -> Any:
        close_old()
        try:
            return function(*args, **fields)
        finally:
            close_old()

    return plain
