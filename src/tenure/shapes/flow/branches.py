"""Branches of a flow that run at once: tasks in an async workflow, threads in a plain one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from functools import partial
from typing import Any

from ...errors import BadSettings
from ...verbs.steps import Step
from .core import Core
from .effects import Doing
from .sleepers import BRANCH, Branch, Join


async def as_tasks(
    driver: Any, core: Core, here: Branch, n: int, how: str, winner: int | None, given: Any, paths: list[Branch]
) -> Any:
    """Branches as tasks."""
    tasks = []
    join = driver.sleepers.join(here, 1 if how == "first" else len(paths))
    try:
        for i, (coroutine, branch) in enumerate(zip(given, paths, strict=True)):
            if winner is not None and i != winner:
                core.closed.append(branch.path)
                coroutine.close()
                continue
            driver.sleepers.enter(branch)
            context = contextvars.copy_context()
            context.run(BRANCH.set, branch)
            tasks.append(asyncio.create_task(_in_branch(driver, branch, join, coroutine), context=context))
        if how == "parallel" or winner is not None:
            values = await asyncio.gather(*tasks, return_exceptions=True)
        else:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            values, won = await _close_losers(driver, tasks, paths)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        driver.sleepers.joined(join)
    if how == "first" and winner is None:
        await driver.go(_won(core, here, n, won, paths))
        return _value(values[0])
    return _values(values) if how == "parallel" else _value(values[0])


async def _in_branch(driver: Any, branch: Branch, join: Join, coroutine: Any) -> Any:
    branch.owner = driver.me()
    try:
        return await coroutine
    finally:
        driver.sleepers.leave(branch, join)


async def _close_losers(driver: Any, tasks: list[Any], paths: list[Branch]) -> tuple[list[Any], int]:
    """The value of the branch that ended first, in a list, and which it was; the others are stopped."""
    won = next(i for i, task in enumerate(tasks) if task.done())
    sleepers = driver.sleepers
    if sleepers.ended is not None:
        raise sleepers.ended
    for i, task in enumerate(tasks):
        if i != won:
            paths[i].waits = sleepers.waits_under(paths[i].path)
            task.cancel()
    await asyncio.gather(*(task for i, task in enumerate(tasks) if i != won), return_exceptions=True)
    error = tasks[won].exception()
    return [error if error is not None else tasks[won].result()], won


def _won(core: Core, here: Branch, n: int, won: int, paths: list[Branch]) -> Doing:
    """Record who won; the waits of the losers are closed in the same statement."""
    for i, branch in enumerate(paths):
        if i != won:
            core.closed.append(branch.path)
    closed = [
        Step(wait.path, wait.n, wait.name, "cancelled", error="another branch was first")
        for i, branch in enumerate(paths)
        if i != won
        for wait in branch.waits
        if (wait.path, wait.n) in core.records
    ]
    yield from core.write(Step(here.path, n, "first", "done", len(paths), result=str(won)), *closed)


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
    return _values(values)


def _in_thread(driver: Any, branch: Branch, join: Join, function: Any, values: list[Any], i: int) -> None:
    branch.owner = driver.me()
    try:
        values[i] = function()
    except BaseException as error:
        values[i] = error
    finally:
        driver.sleepers.leave(branch, join)
