"""Requests begin in turn, one in each round of the event loop: however many come at once, a probe goes before them."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

STARTS = 1  # in one round: what a request does before it first waits may take milliseconds
PROBE = "/health/live"


class Turns:
    """An ASGI app around another."""

    def __init__(self, app: ASGIApp, prefix: str = "") -> None:
        self._app, self._probe = app, f"{prefix}{PROBE}"
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started = 0  # in this round

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI calls it."""
        if scope["type"] == "http" and scope["path"] != self._probe:
            await self._turn()
        await self._app(scope, receive, send)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._started:
            loop.call_soon(self._next_round, loop)
        self._started += 1
        if self._started > STARTS:
            mine: asyncio.Future[None] = loop.create_future()
            self._waiting.append(mine)
            await mine

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next ones begin; those that gave up meanwhile are passed over."""
        self._started = 0
        while self._waiting and self._started < STARTS:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                self._started += 1
        if self._waiting:
            self._started = STARTS  # whoever comes now waits behind them
        if self._started:
            loop.call_soon(self._next_round, loop)
