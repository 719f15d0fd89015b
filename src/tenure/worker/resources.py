"""The resources of a worker's process: lifespans of its inbox, open from before its first claim to after its drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..app.lifespan import Host, Lifespan
from ..errors import LifespanFailed
from ..events import ChoreFailed
from ..postgres.handler_pool import HandlerPool
from ..postgres.runner import run
from ..verbs.statement import Statement
from .shared import Shared

T = TypeVar("T")
OPEN_SECONDS_MAX = 30.0  # for all of them
CLOSE_SECONDS_MAX = 2.0  # below the last words of a worker: it must not be killed for a slow close


class Resources:
    """Opened and closed on the worker's loop, by one task: some libraries insist on that."""

    def __init__(
        self, lifespans: Sequence[Lifespan], shared: Shared, connections: HandlerPool, told_news: Callable[[], None]
    ) -> None:
        self._lifespans, self._shared, self._connections = lifespans, shared, connections
        self._told_news = told_news
        self.told: dict[str, Any] = {}  # facts for the heartbeat
        self._opened, self._over = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, given_up: Callable[[], bool]) -> None:
        """Open them in order; LifespanFailed if one cannot be. Returns early if the worker is asked to stop."""
        if not self._lifespans:
            return
        self._task = asyncio.get_running_loop().create_task(self._live())
        until = asyncio.get_running_loop().time() + OPEN_SECONDS_MAX
        opened = asyncio.get_running_loop().create_task(self._opened.wait())
        while not (opened.done() or self._task.done() or given_up()):
            await asyncio.wait({opened, self._task}, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
            if asyncio.get_running_loop().time() > until:
                await self.close()
                raise LifespanFailed(self._lifespans[0].name, f"not within {OPEN_SECONDS_MAX:g} s")
        opened.cancel()
        if self._task.done():
            self._task.result()

    async def _live(self) -> None:
        failed: LifespanFailed | None = None
        async with contextlib.AsyncExitStack() as stack:
            for lifespan in self._lifespans:
                try:
                    await stack.enter_async_context(lifespan.enter(self._host()))
                except Exception as error:
                    failed = LifespanFailed(lifespan.name, f"{type(error).__name__}: {error}")
                    break  # what is open is closed as ever, without an error thrown into it
            else:
                self._opened.set()
                await self._over.wait()
        if failed is not None:
            raise failed

    async def close(self) -> None:
        """Close them, the last one first. What takes too long is left; what fails is told, the rows are settled."""
        self._over.set()
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=CLOSE_SECONDS_MAX)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=0.5)
        elif not self._task.cancelled() and (error := self._task.exception()) and self._opened.is_set():
            self._shared.bus.emit(ChoreFailed(self._shared.worker_id, "lifespan", f"{type(error).__name__}: {error}"))

    def _host(self) -> Host:
        return Host(lambda: self._shared.worker_id, self._shared.terms.schema, self._run, self._tell)

    async def _run(self, statement: Statement[T]) -> T:
        async with self._connections.awaiting() as conn:
            return await run(conn, statement, self._shared.terms.schema)

    def _tell(self, name: str, fact: Any) -> None:
        self.told = {**self.told, name: fact}  # a new one: another thread reads it
        self._told_news()
