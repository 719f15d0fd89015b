"""Writes down what was read and who tried in vain: lines of the audit, a bounded number of them, linked soon after."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import operate, postgres
from ..events import Bus, Event, LoginFailed
from ..verbs import witness
from ..verbs.witness import Reading

if TYPE_CHECKING:
    from .store import Store

SEAL_SECONDS = 1.0  # lines of so long are linked together
SEAL_TRIES = 5
FAILED_MAX, FAILED_SECONDS = 30, 3600.0  # lines about failed logins, however many addresses they come from
_LOG = logging.getLogger("tenure.web")
_now = time.monotonic


class Witness:
    """The audit of a server: exports, reveals and failed logins; its lines are linked once a second at most."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._sealing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: deque[float] = deque(maxlen=FAILED_MAX)
        self._left_out = 0
        bus.subscribe(self._on)

    async def begin(self, actor: str, verb: Reading, target: str, reason: str = "") -> int:
        """Begin a line, before anything is shown."""
        statement = witness.note_reading(actor, "http", verb, target, reason)
        return await self._store.blocking(lambda conn: postgres.run(conn, statement, self._store.schema))

    async def end(self, line: int, rows: int) -> None:
        """It is done, and so many rows were read."""
        await self._store.blocking(lambda conn: postgres.run(conn, witness.end_reading(line, rows), self._store.schema))
        self.seal_soon()

    async def broken_off(self, line: int, rows: int) -> None:
        """It was broken off after so many rows; also while the server stops."""
        ended = witness.end_reading(line, rows)
        for n in range(SEAL_TRIES):
            try:
                await self._store.blocking(lambda conn: postgres.run(conn, ended, self._store.schema), at_last=True)
            except Exception as error:
                if n == 0:
                    _LOG.warning("line %d of the audit lacks its %d rows so far: %s", line, rows, _short(error))
                await asyncio.sleep(SEAL_SECONDS)
            else:
                self.seal_soon()
                return

    async def note(self, actor: str, verb: Reading, target: str, reason: str = "", *, rows: int = 0) -> None:
        """A whole line."""
        await self.end(await self.begin(actor, verb, target, reason), rows)

    def seal_soon(self) -> None:
        """Link what is new, in a second; who asks again until then need not."""
        if self._sealing is None or self._sealing.done():
            self._sealing = asyncio.get_running_loop().create_task(self._seal())

    async def _seal(self) -> None:
        for _ in range(SEAL_TRIES):  # another session may link now, and not have seen the latest lines
            done = False
            await asyncio.sleep(SEAL_SECONDS)
            with suppress(Exception):  # whoever comes next links them
                done = await self._store.blocking(lambda conn: operate.sealed(conn, self._store.schema))
            if done or self._store.closed:
                return

    def _on(self, event: Event) -> None:
        """A failed login: a line, unless there were many within the hour. The next line then says how many."""
        if not isinstance(event, LoginFailed):
            return
        now = _now()
        if len(self._failed) == FAILED_MAX and now - self._failed[0] < FAILED_SECONDS:
            self._left_out += 1
            return
        self._failed.append(now)
        more, self._left_out = self._left_out, 0
        with suppress(RuntimeError):  # no loop runs: nobody serves
            task = asyncio.get_running_loop().create_task(self._failed_login(event, more))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _failed_login(self, event: LoginFailed, more: int) -> None:
        times = "a wrong login" if event.n == 1 else f"{event.n} wrong logins"
        also = f"; {more} more such events were left out" if more else ""
        who = f" as {event.user!a}" if event.user else ""
        try:
            await self.note("nobody", "login_failed", f"{event.address or 'here'}{who}", f"{times}{also}")
        except Exception as error:
            _LOG.warning("a failed login could not be written to the audit: %s", _short(error))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
