"""Who has a stream open is asked again while it lasts: a revoked token, one that has expired and a logout end it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from .access import Access
from .http_errors import refusal
from .route import Ask, require, require_all_queues

AGAIN_SECONDS = 15.0
LATER = (429, 503)  # nobody could say now, as while the database is away: the stream stays open, and we ask again
_now = time.monotonic


def refused_since(ask: Ask[Any, Any]) -> Callable[[], Awaitable[bool]]:
    """A question for every turn of a stream: would this request be refused now? Asked every 15 s, else it is no."""
    at = _now() + AGAIN_SECONDS

    async def refused() -> bool:
        nonlocal at
        if _now() < at:
            return False
        try:
            _check(await ask.site.admit(ask.request))
        except Exception as error:
            if refusal(error).status not in LATER:
                return True
        at = _now() + AGAIN_SECONDS
        return False

    return refused


def _check(access: Access) -> None:
    """As at the start: a stream needs the role read, and is about every queue."""
    require(access, "read")
    require_all_queues(access)
