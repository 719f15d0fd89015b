"""Where handlers run: coroutines on the loop, plain functions in threads, CPU-bound ones in processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..app.handler import Handler
from ..events import ExecutionStarted, RaisedAfterCompletion
from ..model.outcome import Completed, Outcome
from ..model.rows import NO_HANDLER
from ..postgres.handler_pool import HandlerPool
from ..telemetry.tracing import Span
from .attempt import Attempt, State, given_back
from .held import HeldAttempts
from .loop_turns import LoopTurns
from .news import News
from .outcomes import after_completion, arguments, outcome_for, place, veiled
from .overruns import Overruns
from .processes import Processes
from .raised import outcome_of
from .shared import Shared
from .threads import Threads


class Pools:
    """Starts attempts; each ends with exactly one outcome, whatever its handler does."""

    def __init__(self, shared: Shared, held: HeldAttempts, news: News, connections: HandlerPool) -> None:
        self._shared, self._held, self._news, self._bus = shared, held, news, shared.bus
        self._overruns = Overruns(shared, self.let_go)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = shared.threads or Threads(shared.terms.slots)
        self._processes = Processes(shared, held, connections, self)
        held.take_back = self._processes.take_back
        self._closing = False
        self._turns = LoopTurns(held, news, self._on_loop, self.start, self._call_on_loop)

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Coroutines run on this loop, and so do the timers of all attempts."""
        self._loop = loop

    def start(self, attempts: list[Attempt]) -> None:
        """Start these, each where it belongs; from any thread."""
        on_loop, left = [], attempts
        while left:
            turned_away: list[Attempt] = []  # each passes its slot on
            for attempt in left:
                if attempt.handler is None:
                    turned_away += self._turn_away(attempt, f"{NO_HANDLER} {attempt.job.kind!r} in this worker")
                elif attempt.handler.handling.pool == "loop":
                    on_loop.append(attempt)
                else:
                    turned_away += self._elsewhere(attempt, attempt.handler)
            left = turned_away
        if on_loop and not self._call_on_loop(self._on_loop, on_loop):
            for attempt in on_loop:
                self._turn_away(attempt, "its worker was stopped")

    def _elsewhere(self, attempt: Attempt, handler: Handler[..., ..., Any]) -> list[Attempt]:
        try:
            if handler.handling.pool == "process":
                self._processes.start_job(attempt)
            else:
                self._threads.run(partial(self._run_plain, attempt))
        except Exception as error:  # a child process could not find the handler, or no thread can be started
            return self._turn_away(attempt, str(error))
        return []

    def _turn_away(self, attempt: Attempt, why: str) -> list[Attempt]:
        attempt.lose("drained")  # in case it starts after all
        return self._end(attempt, self._shared.turned_away.later(attempt.job.id, why))  # its run ends with it

    # -- on the loop

    def _call_on_loop(self, function: Callable[..., object], *args: Any) -> bool:
        """From any thread; False if the loop is closed because this worker ends."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    def _on_loop(self, attempts: list[Attempt]) -> None:
        run = self._run_traced if self._shared.tracing.on else self._run_async
        for attempt in attempts:
            assert attempt.handler is not None
            self._turns.begin(attempt, run(attempt, attempt.handler))

    async def _run_async(self, attempt: Attempt, handler: Handler[..., ..., Any]) -> None:
        """Run one coroutine to its end; a CancelledError is ours if the job is lost, else the handler's own."""
        try:
            value = await self._called(attempt)
            outcome: Outcome | None = outcome_for(handler, attempt.job, value)
        except BaseException as error:  # also SystemExit: it ends the attempt, not the worker
            outcome = outcome_of(attempt, error, self._shared)
        self._ended_on_loop(attempt, outcome)

    async def _run_traced(self, attempt: Attempt, handler: Handler[..., ..., Any]) -> None:
        """The same, within its span."""
        with self.span_of(attempt) as span:
            try:
                value = await self._called(attempt)
                outcome: Outcome | None = outcome_for(handler, attempt.job, value)
            except BaseException as error:
                outcome = outcome_of(attempt, error, self._shared)
                span.ended(attempt.told(outcome), veiled(error, attempt.job))
            else:
                span.ended(attempt.told(outcome))
        self._ended_on_loop(attempt, outcome)

    def _called(self, attempt: Attempt) -> Any:
        """Call the handler of an attempt that begins now."""
        handler, job = self._begin(attempt), attempt.job
        if handler.handling.timeout_seconds:
            self._set_timer(attempt)
        args, fields = arguments(handler, job)
        # Asked here: to cancel a task before it begins would skip its end, and its slot would stay taken.
        job.check()  # a slow start may have cost the lease
        return handler.run(job, args, fields)

    def _ended_on_loop(self, attempt: Attempt, outcome: Outcome | None) -> None:
        if begun := self._end(attempt, outcome, on_loop=True):
            self._turns.follow(begun)

    # -- in threads

    def _run_plain(self, attempt: Attempt) -> None:
        """Run it, and then what has its slot: a thread that goes on costs less than to wake another."""
        going: Attempt | None = attempt
        while going is not None:
            assert going.handler is not None
            begun, going = self._run_one(going, going.handler), None
            for each in begun:
                if going is None and each.handler is not None and each.handler.handling.pool == "thread":
                    going = each
                else:
                    self.start([each])

    def _run_one(self, attempt: Attempt, handler: Handler[..., ..., Any]) -> list[Attempt]:
        with self.span_of(attempt) as span:
            try:
                outcome: Outcome | None = outcome_for(handler, attempt.job, self._called(attempt))
            except BaseException as error:
                outcome = outcome_of(attempt, error, self._shared)
                span.ended(attempt.told(outcome), veiled(error, attempt.job))
            else:
                span.ended(attempt.told(outcome))
        return self._end(attempt, outcome)

    # -- in processes

    def begins(self, attempt: Attempt) -> None:
        """It is the turn of this one in its process."""
        self._begin(attempt)

    def called(self, attempt: Attempt, at: float) -> None:
        """Its handler was called at this time."""
        attempt.started = at
        self._set_timer(attempt)

    def returned(
        self,
        attempt: Attempt,
        span: Span,
        ended: Outcome | Exception,
        seconds: float,
        next_after: Callable[[Attempt], list[Attempt]],
    ) -> None:
        """Its handler has returned, or its process died, after so long."""
        error = ended if isinstance(ended, Exception) else None
        outcome = outcome_of(attempt, ended, self._shared) if isinstance(ended, Exception) else ended
        span.ended(attempt.told(outcome), error and veiled(error, attempt.job))
        span.end()
        self.start(self._end(attempt, outcome, seconds, next_after))

    # -- before it returns

    def let_go(self, attempt: Attempt, outcome: Outcome) -> bool:
        """Settle a row before its handler has returned; False if the handler was faster."""
        if not attempt.let_go(outcome):
            return False
        self.end_run(attempt.following)
        self._news.ended(attempt)
        return True

    def drain(self) -> None:
        """Rows ahead go back, and runs end with the row that has its turn now."""
        self._closing = True
        for attempt in self._held.all():
            attempt.tell_of_drain()
        in_runs = (attempt for attempt in self._held.all() if attempt.state is State.WAITING)
        for attempt in [*self._held.give_up_ahead(), *in_runs]:
            self.end_run(attempt)

    # -- the same for all

    def span_of(self, attempt: Attempt) -> Span:
        """The span of an attempt: current in the handler, and the parent of its settlement."""
        span = self._shared.tracing.processing(self._shared.worker_id, attempt.claimed)
        attempt.trace = span.context
        return span

    def _begin(self, attempt: Attempt) -> Handler[..., ..., Any]:
        attempt.started, attempt.job.draining, job = time.monotonic(), self._closing, attempt.job
        if self._bus.each_job:
            self._bus.emit(ExecutionStarted(self._shared.worker_id, job.id, job.token, job.kind, job.queue))
        assert attempt.handler is not None
        return attempt.handler

    def _end(
        self,
        attempt: Attempt,
        outcome: Outcome | None,
        seconds: float | None = None,
        next_after: Callable[[Attempt], list[Attempt]] | None = None,
        *,
        on_loop: bool = False,
    ) -> list[Attempt]:
        """The handler has returned. Returns what begins now: the next row of its run, or rows that waited ahead.

        On the loop, slots are passed on when its turn is over.
        If its row was settled before it returned, only its slot is left to free.
        """
        self._held.ahead.ran(time.monotonic() - attempt.started if seconds is None else seconds)
        before, job = attempt.handler_returns(outcome), attempt.job
        if job.completion == "committed" and (error := after_completion(outcome)):
            told = (self._shared.worker_id, job.id, job.token, job.kind, job.queue, error, place(error))
            self._bus.emit(RaisedAfterCompletion(*told))
        if attempt.handler is not None and attempt.handler.handling.timeout_seconds:
            self._call_on_loop(attempt.disarm)
        following = None
        if before is State.RUNNING:
            if attempt.following is not None:
                following = self._next_of_run(attempt, completed=isinstance(outcome, Completed))
        elif before is State.ABANDONED:
            self._held.free([attempt])
            self._news.wake()
        if on_loop and before is State.RUNNING and following is None:
            self._turns.ended(attempt)
            return []
        # Before the claimer hears of it: it would free the slot.
        begun = [following] if following is not None else (next_after or self._held.next_after)(attempt)
        if before is State.RUNNING:
            self._news.ended(attempt, goes_on=following is not None)  # rows of a run are settled in order
        return begun

    def _next_of_run(self, attempt: Attempt, *, completed: bool) -> Attempt | None:
        """The next row of the run, in the same slot; or the run ends here, and what is behind goes back unstarted."""
        if (following := attempt.following) is None:
            return None
        kept = not (self._closing or attempt.job.lost or following.job.lost)
        if completed and kept and following.take_turn():
            self._held.pass_on(attempt, following)
            return following
        self.end_run(following)
        return None

    def end_run(self, attempt: Attempt | None) -> None:
        """Give back this row of a run and those behind it, unstarted."""
        for each in given_back(attempt):
            self._news.ended(each)

    def _set_timer(self, attempt: Attempt) -> None:
        if attempt.timeout_seconds:
            self._call_on_loop(self._overruns.arm, attempt)

    def close(self) -> None:
        """Start no more. Threads that still run are not waited for; child processes are killed."""
        self._threads.close()
        self._processes.close()
