"""Who drives a shard: does what its steps ask for, blocking in a thread or awaiting on the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection, Rollback

from ...app.job import Job
from ...errors import RolledBack
from ...model.outcome import Outcome
from ...postgres.entered import entered, entered_awaiting
from ...postgres.runner import run
from ...postgres.transactions import StillOpen, awaiting, blocking
from ...verbs.statement import Statement
from .projection import EndedTransaction, Projection
from .shard import Apply, Ask, Body, Call, Rest, Steps, WaitPast
from .tailing import TAIL_SECONDS, Tail

DRAIN_SECONDS = 0.1  # from one look at job.draining to the next, while it rests


class Driver:
    """Drives in a thread, for plain functions."""

    def __init__(self, projection: Projection, job: Job, tail: Tail) -> None:
        self.projection, self.job, self.tail = projection, job, tail

    def drive(self, steps: Steps) -> Outcome:
        """Until the steps end."""
        answer, error = None, None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer, error = None, None
            try:
                answer = self._do(step)
            except Exception as raised:
                error = raised

    def _do(self, step: Ask | Apply | WaitPast | Rest) -> Any:
        self.job.check()
        match step:
            case Ask(statement):
                with self.job.connection() as conn:
                    return run(conn, statement, self.job.schema)
            case Apply(body):
                with self.job.connection() as conn:
                    return self._apply(conn, body)
            case WaitPast(position):
                return self._wait(position)
            case Rest(seconds):
                until = time.monotonic() + seconds
                while not self.job.draining and (left := until - time.monotonic()) > 0:
                    time.sleep(min(left, DRAIN_SECONDS))
        return None

    def _apply(self, conn: Connection[Any], body: Body) -> Any:
        answer = None
        with blocking(conn) as still_open:
            while True:
                try:
                    what = body.send(answer)
                except StopIteration as end:
                    return end.value
                if isinstance(what, Call):
                    answer = None
                    self._call(conn, what, still_open)
                else:
                    answer = run(conn, what, self.job.schema)

    def _call(self, conn: Connection[Any], call: Call, still_open: StillOpen) -> None:
        for n, args in enumerate(self.projection.calls(call.events)):
            with (
                _within_ours(self.projection, self.job, still_open, n),
                entered(conn, call.mark, self.projection.ended),
            ):
                self.projection.check(self.projection.function(conn, args))

    def _wait(self, position: int) -> int:
        tail = self.tail
        if tail.past(position):
            return tail.horizon
        with tail.watching() as mine:
            if mine:
                with self.job.connection() as conn:
                    self._look(conn, position)
                return tail.horizon
        rung = threading.Event()
        with tail.rung_by(rung.set):
            if not tail.past(position):
                rung.wait(TAIL_SECONDS)
        return tail.horizon

    def _look(self, conn: Connection[Any], position: int) -> None:
        looking, answer = self.tail.look(position), None
        while True:
            try:
                what = looking.send(answer)
            except StopIteration:
                return
            if isinstance(what, Statement):
                answer = run(conn, what, self.job.schema)
            elif what.channel is None:
                conn.execute("UNLISTEN *")
            else:
                conn.execute(f'LISTEN "{what.channel}"'.encode())
                for _ in conn.notifies(timeout=TAIL_SECONDS, stop_after=1):
                    pass


class AsyncDriver:
    """Drives on the loop, for coroutines."""

    def __init__(self, projection: Projection, job: Job, tail: Tail) -> None:
        self.projection, self.job, self.tail = projection, job, tail

    async def drive(self, steps: Steps) -> Outcome:
        """Until the steps end."""
        answer, error = None, None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer, error = None, None
            try:
                answer = await self._do(step)
            except Exception as raised:
                error = raised

    async def _do(self, step: Ask | Apply | WaitPast | Rest) -> Any:
        self.job.check()
        match step:
            case Ask(statement):
                async with self.job.connection() as conn:
                    return await run(conn, statement, self.job.schema)
            case Apply(body):
                async with self.job.connection() as conn:
                    return await self._apply(conn, body)
            case WaitPast(position):
                return await self._wait(position)
            case Rest(seconds):
                until = time.monotonic() + seconds
                while not self.job.draining and (left := until - time.monotonic()) > 0:
                    await asyncio.sleep(min(left, DRAIN_SECONDS))
        return None

    async def _apply(self, conn: AsyncConnection[Any], body: Body) -> Any:
        answer = None
        async with awaiting(conn) as still_open:
            while True:
                try:
                    what = body.send(answer)
                except StopIteration as end:
                    return end.value
                if isinstance(what, Call):
                    answer = None
                    await self._call(conn, what, still_open)
                else:
                    answer = await run(conn, what, self.job.schema)

    async def _call(self, conn: AsyncConnection[Any], call: Call, still_open: StillOpen) -> None:
        for n, args in enumerate(self.projection.calls(call.events)):
            with _within_ours(self.projection, self.job, still_open, n):
                async with entered_awaiting(conn, call.mark, self.projection.ended):
                    self.projection.check(await self.projection.function(conn, args))

    async def _wait(self, position: int) -> int:
        tail = self.tail
        if tail.past(position):
            return tail.horizon
        with tail.watching() as mine:
            if mine:
                async with self.job.connection() as conn:
                    await self._look(conn, position)
                return tail.horizon
        rung, loop = asyncio.Event(), asyncio.get_running_loop()
        with tail.rung_by(lambda: loop.call_soon_threadsafe(rung.set)):
            if not tail.past(position):
                await _within(rung, TAIL_SECONDS)
        return tail.horizon

    async def _look(self, conn: AsyncConnection[Any], position: int) -> None:
        looking, answer = self.tail.look(position), None
        while True:
            try:
                what = looking.send(answer)
            except StopIteration:
                return
            if isinstance(what, Statement):
                answer = await run(conn, what, self.job.schema)
            elif what.channel is None:
                await conn.execute("UNLISTEN *")
            else:
                await conn.execute(f'LISTEN "{what.channel}"'.encode())
                async for _ in conn.notifies(timeout=TAIL_SECONDS, stop_after=1):
                    pass


@contextmanager
def _within_ours(projection: Projection, job: Job, still_open: StillOpen, n: int) -> Iterator[None]:
    """Around one call of the function, the one after n others: it must leave the transaction to its batch."""
    try:
        try:
            yield
        except Rollback as quiet:
            raise RolledBack(job.claimed) from quiet
        except SystemExit as left:
            raise RuntimeError(f"the function called sys.exit({left.code!r})") from left
    except Exception as error:
        if still_open():
            raise
        raise EndedTransaction(projection.name, n) from error
    if not still_open():
        raise EndedTransaction(projection.name, n)


async def _within(rung: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(rung.wait(), seconds)
    except TimeoutError:
        return
