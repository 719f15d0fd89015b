"""The driver of plain workflows: it does what the core asks for in the thread that asks."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg

from ...app.job import Job
from ...events import Bus, FlowWoken
from ...postgres.runner import run
from ...postgres.transactions import blocking
from ...verbs.lifecycle import enter
from ...verbs.steps import Recorded, Saying, Step
from .core import Core
from .effects import Ask, Doing, Fenced, Hold, Main, Nap, Recall, Run, Stop, Sub, Tell, Write
from .frontier import behind_in_threads
from .lines import BRANCH
from .recorder import Done, Recorder, settle
from .sleepers import Sleepers
from .step_context import RUNNING, StepContext
from .step_values import nothing, returned
from .trouble import BodyCancelled, FlowStops
from .unended import unended
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


class Blocking:
    """Runs calls in the thread that asks."""

    blocking = True

    def __init__(self, job: Job, core: Core, recorder: Recorder, bus: Bus) -> None:
        self.job, self.core, self._recorder, self._bus = job, core, recorder, bus
        self.sleepers = Sleepers(job, core, recorder, self._future, bus)

    @staticmethod
    def _future() -> tuple[Any, Done]:
        future: Future[Any] = Future()
        return future, partial(settle, future)

    def me(self) -> object:
        """Who asks: the thread."""
        return threading.get_ident()

    def go(self, doing: Doing) -> Any:
        """Carry a call to its end."""
        branch = BRANCH.get()
        self.sleepers.begin(branch)
        try:
            effect = next(doing)
            while True:
                try:
                    answer = behind_in_threads(self, branch, effect, self._do) if self.core.unseen else self._do(effect)
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
            self.sleepers.end(branch)

    def live(self, life: Doing) -> Any:
        """Carry the attempt to its outcome."""
        try:
            effect = next(life)
            while True:
                try:
                    answer = self._outer(effect)
                except BaseException as error:
                    effect = life.throw(error)
                else:
                    effect = life.send(answer)
        except StopIteration as end:
            return end.value

    def _outer(self, effect: Any) -> Any:
        if isinstance(effect, Main):
            try:
                return _own(effect.function, effect.args, effect.fields)
            finally:
                self.sleepers.settle()
        if isinstance(effect, Sub):
            return self.go(effect.doing)
        if isinstance(effect, Recall):
            return self._woken(self.recall(effect.run))
        if isinstance(effect, Tell):
            return self._bus.emit(effect.event)
        assert isinstance(effect, Stop)
        with self.job.lender.blocking() as conn:
            run(conn, stopping(self.job, effect), self.job.schema)
        return stopped(self.job, effect)

    def _do(self, effect: Any) -> Any:
        if isinstance(effect, Write):
            return self.record(effect.steps)
        if isinstance(effect, Run):
            call = effect.call
            token = RUNNING.set(StepContext(self.core.instance, call.path, call.n, call.undoes))
            try:
                held(self.job)
                return _own(call.function, call.args, call.kwargs)
            finally:
                RUNNING.reset(token)
        if isinstance(effect, Fenced):
            return self._fenced(effect)
        if isinstance(effect, Recall):
            return self.recall(effect.run)
        if isinstance(effect, Ask):
            with self.job.lender.blocking() as conn:
                return run(conn, effect.statement, self.job.schema)
        if isinstance(effect, Nap):
            return time.sleep(effect.seconds)
        assert isinstance(effect, Hold)
        future = self.sleepers.hold(effect.wait)
        try:
            return future.result()
        finally:
            self.sleepers.woken(effect.wait)

    def say(self, chunk: str) -> None:
        """Tell people, soon."""
        self._recorder.send(self.job, Saying(self.job.claimed, chunk), nothing)

    def record(self, steps: tuple[Step, ...]) -> Recorded:
        """Record these, with others of this worker."""
        future, done = self._future()
        self._recorder.send(self.job, recording(self.job, self.core, steps), done)
        answer = applied(self.job, future.result())
        told(self._bus, self.job, self.core, steps)
        return answer

    def recall(self, run_number: int) -> list[Step]:
        """The records of a run."""
        future, done = self._future()
        self._recorder.send(self.job, run_number, done)
        found: list[Step] = future.result()
        return found

    def _woken(self, found: list[Step]) -> list[Step]:
        if self._bus.each_job:
            self._bus.emit(FlowWoken(*named(self.job, self.core), len(found)))
        return found

    def _fenced(self, effect: Fenced) -> str:
        job, call = self.job, effect.call
        token = RUNNING.set(StepContext(self.core.instance, call.path, call.n, call.undoes))
        try:
            with job.lender.blocking() as conn:
                try:
                    with blocking(conn) as still_open:
                        mark = run(conn, enter(job.claimed), job.schema).mark
                        with unended(conn, still_open, mark):
                            value = _own(call.function, (conn, *call.args), call.kwargs)
                        text, _ = returned(call, value)
                        recording_now = fenced_recording(job, self.core, effect, text)
                        statement = fenced_record(recording_now)
                        for seconds in until_free():
                            (answer,) = run(conn, statement, job.schema)
                            if not locked(answer):
                                break
                            time.sleep(seconds)
                        fenced_learned(self.core, call, written_now(job, answer))
                except psycopg.OperationalError as error:
                    raise in_doubt(error) from error
        finally:
            RUNNING.reset(token)
        carried(self.core, recording_now)
        told(self._bus, job, self.core, (fenced_step(effect, text),))
        return text


def _own(function: Any, args: Any, kwargs: Any) -> Any:
    """Call what the author wrote: a CancelledError is a failure of it, for nobody cancels a thread."""
    try:
        return function(*args, **kwargs)
    except asyncio.CancelledError as error:
        raise BodyCancelled from error
