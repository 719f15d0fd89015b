"""Branches of a flow that run at once: tasks in an async workflow, threads in a plain one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ...errors import BadSettings
from ...verbs.steps import Step
from .core import Core
from .effects import Ask, Doing, Effect, Nap
from .lines import BRANCH, Branch
from .losers import closed_waits, given_back, orphaned, unseen
from .trouble import BranchClosed, ComeAgain, FlowBroken, FlowCancelled, FlowStops, RecordsEnd
from .undoing import Root, is_of


class Walk:
    """The way of a branch that lost in an attempt before: through its records, so that what it did can be undone.

    Nothing is done for the first time. Where the records end, or the last of them was asked for, it is cancelled, as it
    was then.
    """

    def __init__(self, core: Core, branch: Branch) -> None:
        self._core = core
        self.task: asyncio.Task[Any] | None = None
        self.left = sorted((place for place in core.records if is_of(branch.roots, *place)), reverse=True)

    @property
    def over(self) -> bool:
        """Whether none of its records is left."""
        while self.left and self.left[-1] in self._core.asked:
            self.left.pop()
        return not self.left

    async def through(self, doing: Doing, do: Callable[[Effect], Awaitable[Any]]) -> Any:
        """Carry a call to its end from its records."""
        try:
            riders, effect = list(self._core.riders), next(doing)
            while isinstance(effect, Nap | Ask):  # a map asks how its children ended
                answer = None if isinstance(effect, Nap) else await self._asked(effect, do)
                riders, effect = list(self._core.riders), doing.send(answer)
            self._core.riders[:] = riders  # what it does not write is left for those that do
            doing.close()
            raise asyncio.CancelledError
        except StopIteration as end:
            return end.value
        except (BranchClosed, FlowCancelled):  # a step in doubt of a flow that undoes: not run again
            raise asyncio.CancelledError from None
        finally:
            if self.over and self.task is not None:
                self.task.cancel()

    async def _asked(self, effect: Effect, do: Callable[[Effect], Awaitable[Any]]) -> Any:
        try:
            return await do(effect)
        except Exception as error:
            raise FlowBroken(error) from error


class Fork:
    """Branches as tasks: of `parallel` all are waited for; of `first` the one that ends first stops the others."""

    def __init__(
        self, driver: Any, core: Core, here: Branch, paths: list[Branch], *, races: bool, winner: int | None
    ) -> None:
        self._driver, self._core, self._here, self._paths = driver, core, here, paths
        self._races, self.won = races, winner
        self._decided = winner is not None or here.walk is not None
        self._join = driver.sleepers.join(here, 1 if races else len(paths))
        self._tasks: list[asyncio.Task[Any] | None] = []
        self._inside: set[Branch] = set()
        self._id = object()  # not itself: what an attempt knows would hold all that was given to it

    async def run(self, given: Sequence[Any]) -> list[Any]:
        """What each returned or raised."""
        try:
            for i, (coroutine, branch) in enumerate(zip(given, self._paths, strict=True)):
                self._tasks.append(self._begun(i, branch, coroutine))
            return await self._all()
        except BaseException:
            self._decided = True
            self._cancel(self._tasks)
            await self._all()
            raise
        finally:
            for branch in list(self._inside):
                self._leave(branch)
            self._driver.sleepers.joined(self._join)
            for each in given:
                getattr(each, "close", nothing_to_close)()  # those that never began

    async def _all(self) -> list[Any]:
        ended = iter(await asyncio.gather(*(task for task in self._tasks if task), return_exceptions=True))
        return [next(ended) if task else None for task in self._tasks]

    def _begun(self, i: int, branch: Branch, coroutine: Any) -> asyncio.Task[Any] | None:
        branch.walk = self._here.walk
        branch.beside = roots_of(self._core, coroutine)
        for path, n in branch.beside:
            if n is not None:
                self._core.lines.setdefault((path, n), {})[self._id] = i
        if self._races and self.won is not None and i != self.won:
            self._core.closed += tuple(branch.roots)
            branch.walk = branch.walk or Walk(self._core, branch)
            if branch.walk.over:
                return None
        context = contextvars.copy_context()
        context.run(BRANCH.set, branch)
        task = asyncio.create_task(self._in_branch(i, branch, coroutine), context=context)
        if branch.walk is None:
            self._inside.add(branch)
            self._driver.sleepers.enter(branch)
        elif branch.walk.task is None:
            branch.walk.task = task
        return task

    async def _in_branch(self, i: int, branch: Branch, coroutine: Any) -> Any:
        branch.owner = self._driver.me()
        ends = True
        try:
            return await coroutine
        except (RecordsEnd, FlowStops):
            ends = False
            raise
        finally:
            if ends and self._races and not self._decided and not self._core.cleaning:
                self._win(i)
            self._leave(branch)

    def _leave(self, branch: Branch) -> None:
        """Once for each that has entered: a task that is cancelled before it begins does nothing by itself."""
        if branch in self._inside:
            self._inside.discard(branch)
            self._driver.sleepers.leave(branch, self._join)

    def judge(self, values: Sequence[Any]) -> None:
        """After a race: raise what stops the flow, also a branch that lost and did not ask for all of its records."""
        for branch, value in zip(self._paths, values, strict=True):
            if isinstance(value, FlowStops) or (self.won is None and isinstance(value, RecordsEnd)):
                raise value
            walk = None if branch.walk is self._here.walk else branch.walk
            if walk is not None and not isinstance(value, RecordsEnd) and not walk.over:
                path, n = walk.left[-1]
                raise self._core.differs(path, n, repr(self._core.records[path, n].name), "the end of its branch")

    def _win(self, i: int) -> None:
        """It has ended first. The others are stopped before they see anything more: no signal is lost to them."""
        self.won, self._decided = i, True
        self._cancel([task for j, task in enumerate(self._tasks) if j != i])

    def _cancel(self, tasks: Sequence[asyncio.Task[Any] | None]) -> None:
        for task in tasks:
            if task is not None:
                task.cancel()


def roots_of(core: Core, call: Any) -> Sequence[Root]:
    """Where the steps of a call are that is given to parallel or first as it is: not on the path of that branch."""
    return next((roots for each, roots in core.unbegun.values() if each is call), ())


async def as_tasks(
    driver: Any, core: Core, here: Branch, n: int, how: str, winner: int | None, given: Any, paths: list[Branch]
) -> Any:
    """Branches of an async workflow: their values in order, or that of the first."""
    core.unbegun.pop((here.path, n), None)
    fork = Fork(driver, core, BRANCH.get(), paths, races=how == "first", winner=winner)
    values = await fork.run(given)
    if how == "parallel":
        core.moments.join(here.path, [each.path for each in paths])
        return _values(values)
    try:
        fork.judge(values)
    except FlowStops as why:
        raise driver.sleepers.stop(why) from None
    if fork.won is None and core.cleaning:  # nobody wins any more
        raise driver.sleepers.stop(FlowCancelled(core.reason_to_stop() or "on request"))
    if fork.won is None:  # its own branch had lost before this race was decided
        raise asyncio.CancelledError
    if winner is None:
        await driver.sleepers.quiet()
        await driver.go(_won(driver, core, here, n, fork.won, paths))
        if unseen(core, [branch for i, branch in enumerate(paths) if i != fork.won]):
            raise driver.sleepers.stop(ComeAgain("a branch that lost was stopped before its records"))
    else:
        core.moments.passed(here.path, core.records[here.path, n].recorded_at)
    if BRANCH.get().walk is None:
        await driver.go(orphaned(core, [branch for i, branch in enumerate(paths) if i != fork.won]))
    return _value(values[fork.won])


def _won(driver: Any, core: Core, here: Branch, n: int, won: int, paths: list[Branch]) -> Doing:
    """Record who won; the waits of the losers are closed in the same statement."""
    losers = [branch for i, branch in enumerate(paths) if i != won]
    core.closed += tuple(root for branch in losers for root in branch.roots)
    closed = closed_waits(core, losers)
    race = Step(here.path, n, "first", "done", len(paths), result=str(won))
    back = given_back(core, race, losers, driver.job.schema)
    if back is None:
        yield from core.end(race, *closed)
    else:
        core.riders += closed
        yield back


def _values(values: list[Any]) -> list[Any]:
    """The values, or the first error; that the flow sleeps or stops goes before errors."""
    errors = [each for each in values if isinstance(each, BaseException)]
    for error in sorted(errors, key=lambda each: isinstance(each, Exception)):
        raise error
    return values


def _value(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


def nothing_to_close() -> None:
    """A branch that is no coroutine."""


def in_threads(driver: Any, here: Branch, how: str, given: tuple[Any, ...], paths: list[Branch]) -> list[Any]:
    """Branches of a plain workflow, each in a thread: their values in order."""
    if how == "first":
        raise BadSettings("flow.first closes branches that lose, and nothing ends a thread: make the workflow async")
    values: list[Any] = [None] * len(given)
    join = driver.sleepers.join(here, len(paths))
    try:
        threads = []
        for i, (function, branch) in enumerate(zip(given, paths, strict=True)):
            driver.sleepers.enter(branch)
            context = contextvars.copy_context()
            context.run(BRANCH.set, branch)
            work = partial(context.run, _in_thread, driver, branch, join, function, values, i)
            threads.append(threading.Thread(target=work, name="tenure-branch", daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        driver.sleepers.joined(join)
    driver.core.moments.join(here.path, [each.path for each in paths])
    return _values(values)


def _in_thread(driver: Any, branch: Branch, join: Any, function: Any, values: list[Any], i: int) -> None:
    branch.owner = driver.me()
    try:
        values[i] = function()
    except BaseException as error:
        values[i] = error
    finally:
        driver.sleepers.leave(branch, join)
