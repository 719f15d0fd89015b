"""Where an author's function runs, by what it is: async, plain, or nothing that a call would run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

from ..errors import BadSettings

Pool = Literal["loop", "thread", "process"]
_LOOP = "running event loop"  # what asyncio says to who would run another one


def is_async(function: Any) -> bool:
    """True if what it returns is awaited: of an async function, also below plain decorators, or an async `__call__`."""
    while function is not None:
        if _awaits(function):
            return True
        function = getattr(_bare(function), "__wrapped__", None)
    return False


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """An async function that is the same: of a plain decorator around one, what it returns is awaited."""
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def call(*args: Any, **fields: Any) -> Any:
        try:
            value = function(*args, **fields)
        except RuntimeError as error:
            if _LOOP in str(error):
                error.add_note("a decorator runs this async function itself: give its handler pool='thread'")
            raise
        return await value if inspect.isawaitable(value) else value

    return call


def unrun(value: Any) -> str:
    """What an author's code returned that has not run, in words, and is closed; empty for any other value."""
    if inspect.iscoroutine(value):
        value.close()  # no warning beside the error that says it
        return "a coroutine"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "a generator"
    return f"the awaitable {type(value).__name__}" if inspect.isawaitable(value) else ""


def check_runs(what: str, function: Any) -> None:
    """BadSettings if a call of this function would run nothing of it."""
    for each in (_bare(function), _method(function)):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise BadSettings(f"{what} is a generator, of which nothing would run: leave its yield out")


def default_pool(function: Callable[..., Any]) -> Pool:
    """Where a function runs by default: a coroutine on the loop, any other in a thread."""
    return "loop" if is_async(function) else "thread"


def check_pool(kind: str, function: Callable[..., Any], pool: Pool) -> Callable[..., Any]:
    """The function as it runs in this pool, or BadSettings: a plain decorator may run its async function by itself."""
    check_runs(f"handler {kind!r}", function)
    if not (is_async(function) if pool == "loop" else not _awaits(function)):
        raise BadSettings(
            f"handler {kind!r} has pool={pool!r}: async functions run on the loop, others in thread or process"
        )
    name = getattr(function, "__qualname__", "<no name>")
    if pool == "process" and "<" in name:
        raise BadSettings(
            f"handler {kind!r} has pool='process' and is {name!r}, which another process cannot import: "
            "define it with def at the top of a module"
        )
    return awaited(function) if pool == "loop" else function


def _awaits(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_method(function))


def _bare(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _method(function: Any) -> Any:
    """What a call of an object calls."""
    return getattr(type(_bare(function)), "__call__", None)  # noqa: B004
