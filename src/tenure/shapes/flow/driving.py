"""The driver of async workflows: it does what the core asks for by awaiting, on the worker's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any
from weakref import ref

import psycopg

from ...app.job import Job
from ...events import Bus, FlowWoken
from ...postgres.runner import run
from ...postgres.transactions import awaiting
from ...verbs.lifecycle import enter
from ...verbs.statement import Statement
from ...verbs.steps import Recorded, Saying, Step, Wait
from .core import Core
from .effects import Ask, Call, Doing, Fenced, Hold, Main, Nap, Recall, Run, Stop, Sub, Tell, Write
from .frontier import behind
from .lines import BRANCH
from .made_late import made_late
from .recorder import Done, Recorder, settle
from .sleepers import Sleepers
from .step_context import RUNNING, StepContext
from .step_values import is_awaitable, nothing, returned
from .trouble import BodyCancelled, FlowStops
from .unended import unended_awaiting
from .writing import (
    applied,
    carried,
    fenced_learned,
    fenced_record,
    fenced_recording,
    fenced_step,
    held,
    in_doubt,
    locked,
    named,
    of_the_attempt,
    recording,
    stopped,
    stopping,
    told,
    until_free,
    written_now,
)


class Awaiting:
    """Runs calls as coroutines."""

    blocking = False
    _others = made_late[dict[Any, None]](dict)  # who else asks

    def __init__(self, job: Job, core: Core, recorder: Recorder, bus: Bus) -> None:
        self.job, self.core, self._recorder, self._bus = job, core, recorder, bus
        self._loop = asyncio.get_running_loop()
        self._mine = self.me()
        self.sleepers = Sleepers(job, core, recorder, _future, bus, self._loop)

    def me(self) -> Any:
        """Who asks: the task. Not itself, for its context holds who is asked: a circle would wait for the collector."""
        task = asyncio.current_task(self._loop)
        return ref(task) if task is not None else None

    async def go(self, doing: Doing) -> Any:
        """Carry a call to its end."""
        branch = BRANCH.get()
        if branch.walk is not None:
            return await branch.walk.through(doing, self._do)
        self.sleepers.begin(branch)
        if (me := self.me()) is not self._mine:
            self._others[me] = None
        try:
            effect = next(doing)
            while True:
                try:
                    answer = await (behind(self, branch, effect, self._do) if self.core.unseen else self._do(effect))
                except BaseException as error:
                    effect = doing.throw(of_the_attempt(effect, error))
                else:
                    effect = doing.send(answer)
        except StopIteration as end:
            return end.value
        except FlowStops as why:
            self.sleepers.stop(why)
            raise
        finally:
            if me is not self._mine:
                self._others.pop(me, None)
            self.sleepers.end(branch)

    async def live(self, life: Doing) -> Any:
        """Carry the attempt to its outcome."""
        try:
            effect = next(life)
            while True:
                try:
                    answer = await (self._main(effect) if isinstance(effect, Main) else self._outer(effect))
                except BaseException as error:
                    effect = life.throw(error)
                else:
                    effect = life.send(answer)
        except StopIteration as end:
            return end.value

    async def _main(self, effect: Main) -> Any:
        """Call the workflow's own function."""
        try:
            value = effect.function(*effect.args, **effect.fields)
            return await value if is_awaitable(value) else value
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise BodyCancelled from error
        finally:
            self.sleepers.over = True
            await self._stop_the_rest()
            if self.sleepers.asking:
                await self.sleepers.quiet()
            self.sleepers.settle()

    async def _outer(self, effect: Any) -> Any:
        if isinstance(effect, Sub):
            return await self.go(effect.doing)
        if isinstance(effect, Recall):
            return self._woken(await self.recall(effect.run))
        if isinstance(effect, Tell):
            return self._bus.emit(effect.event)
        assert isinstance(effect, Stop)
        async with self.job.lender.awaiting() as conn:
            await run(conn, stopping(self.job, effect), self.job.schema)
        return stopped(self.job, effect)

    async def _stop_the_rest(self) -> None:
        """The function has ended: no step of a task of its own goes on beside the undos."""
        if left := [task for each in self._others if (task := each()) is not None]:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _do(self, effect: Any) -> Awaitable[Any]:
        if isinstance(effect, Write):
            return self._record(effect.steps)
        if isinstance(effect, Run):
            return self._run(effect.call)
        if isinstance(effect, Hold):
            return self._hold(effect.wait)
        if isinstance(effect, Fenced):
            return self._fenced(effect)
        if isinstance(effect, Recall):
            return self.recall(effect.run)
        if isinstance(effect, Ask):
            return self._ask(effect.statement)
        assert isinstance(effect, Nap)
        return asyncio.sleep(effect.seconds)

    async def _run(self, call: Call) -> Any:
        token = RUNNING.set(StepContext(self.core.instance, call.path, call.n, call.undoes))
        try:
            held(self.job)
            value = call.function(*call.args, **call.kwargs)
            if is_awaitable(value):
                value = await (_within(value, call.timeout_seconds) if call.timeout_seconds else value)
            return value
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise BodyCancelled from error
        finally:
            RUNNING.reset(token)

    async def _hold(self, wait: Wait) -> Any:
        future = self.sleepers.hold(wait)
        try:
            return await future
        finally:
            self.sleepers.woken(wait)

    async def _ask(self, statement: Statement[Any]) -> Any:
        async with self.job.lender.awaiting() as conn:
            return await run(conn, statement, self.job.schema)

    def say(self, chunk: str) -> None:
        """Tell people, soon."""
        self._recorder.send(self.job, Saying(self.job.claimed, chunk), nothing)

    def _record(self, steps: tuple[Step, ...]) -> asyncio.Future[Recorded]:
        """Record these, with others of this worker."""
        future = self._loop.create_future()
        self._recorder.send(
            self.job, recording(self.job, self.core, steps), partial(_recorded, self, future, steps), self._loop
        )
        return future

    def recorded(self, steps: tuple[Step, ...], answer: Any) -> Recorded:
        """What the answer to a record means; told to subscribers."""
        found = applied(self.job, answer)
        told(self._bus, self.job, self.core, steps)
        return found

    async def recall(self, run_number: int) -> list[Step]:
        """The records of a run."""
        future, done = _future()
        self._recorder.send(self.job, run_number, done, self._loop)
        found: list[Step] = await future
        return found

    def _woken(self, found: list[Step]) -> list[Step]:
        if self._bus.each_job:
            self._bus.emit(FlowWoken(*named(self.job, self.core), len(found)))
        return found

    async def _fenced(self, effect: Fenced) -> str:
        job, call = self.job, effect.call
        token = RUNNING.set(StepContext(self.core.instance, call.path, call.n, call.undoes))
        try:
            async with job.lender.awaiting() as conn:
                try:
                    async with awaiting(conn) as still_open:
                        mark = (await run(conn, enter(job.claimed), job.schema)).mark
                        async with unended_awaiting(conn, still_open, mark):
                            value = await _own(call.function, (conn, *call.args), call.kwargs)
                        text, _ = returned(call, value)
                        recording_now = fenced_recording(job, self.core, effect, text)
                        statement = fenced_record(recording_now)
                        for seconds in until_free():
                            (answer,) = await run(conn, statement, job.schema)
                            if not locked(answer):
                                break
                            await asyncio.sleep(seconds)
                        fenced_learned(self.core, call, written_now(job, answer))
                except psycopg.OperationalError as error:
                    raise in_doubt(error) from error
        finally:
            RUNNING.reset(token)
        carried(self.core, recording_now)
        told(self._bus, job, self.core, (fenced_step(effect, text),))
        return text


def _recorded(driver: Awaiting, future: asyncio.Future[Recorded], steps: tuple[Step, ...], answer: Any) -> None:
    if future.done():  # whoever asked has gone
        return
    try:
        future.set_result(driver.recorded(steps, answer))
    except BaseException as error:  # what stops a flow is no Exception
        future.set_exception(error.with_traceback(None))  # its frames hold the attempt


def _future() -> tuple[Any, Done]:
    """A future of this loop, and what settles it."""
    future = asyncio.get_running_loop().create_future()
    return future, partial(settle, future)


async def _own(function: Any, args: Any, kwargs: Any) -> Any:
    """Call what the author wrote."""
    try:
        value = function(*args, **kwargs)
        return await value if is_awaitable(value) else value
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise BodyCancelled from error


def _is_cancelled() -> bool:
    """Whether somebody has cancelled this task; if not, a CancelledError is a failure of what the author wrote."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


async def _within(value: Any, seconds: float) -> Any:
    """In the task that asks: what a task of its own raises may end the loop."""
    async with asyncio.timeout(seconds):
        return await value
