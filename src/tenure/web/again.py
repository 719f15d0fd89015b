"""Who has a stream or an export open is asked again while it lasts: a revoked or expired token and a logout end it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from .access import Access
from .http_errors import refusal
from .route import Ask, require

AGAIN_SECONDS = 15.0
LATER = (429, 503)  # nobody could say now, as while the database is away: the stream stays open, and we ask again
_now = time.monotonic


def refused_since(ask: Ask[Any, Any], verb: str = "read") -> Callable[[], Awaitable[bool]]:
    """A question for every turn of a stream: would this request be refused now? Asked every 15 s, else it is no."""
    at = _now() + AGAIN_SECONDS

    async def refused() -> bool:
        nonlocal at
        if _now() < at:
            return False
        try:
            access = await ask.site.admit(ask.request)
            require(access, verb)
        except Exception as error:
            if refusal(error).status not in LATER:
                return True
        else:
            if _sees_less(access, ask.access):
                return True
        at = _now() + AGAIN_SECONDS
        return False

    return refused


def _sees_less(now: Access, before: Access) -> bool:
    """Is it closed to some of the queues that it was open to?"""
    return now.queues is not None and (before.queues is None or not before.queues <= now.queues)
