"""A process resource of an application: opened by each worker before its first claim, closed after its drain."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..errors import BadSettings
from ..verbs.statement import Statement

T = TypeVar("T")
Opening = Callable[..., AsyncIterator[Any]]


class Runs(Protocol):
    """Runs a verb or a question on a connection that is lent for it."""

    def __call__(self, statement: Statement[T]) -> Awaitable[T]:
        """Its answer."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a lifespan may know of the worker that opens it."""

    worker: Callable[[], str]  # its id; it changes if the worker was declared dead
    schema: str
    run: Runs
    tell: Callable[[str, Any], None]  # a fact for `tenure workers`, by name; None takes it back


@dataclass(frozen=True, slots=True)
class Lifespan:
    """An async generator that yields once: what stands before the yield opens, what stands after it closes."""

    name: str
    function: Opening

    def enter(self, host: Host) -> AbstractAsyncContextManager[Any]:
        """The same as a context manager; the function is given the host if it takes an argument."""
        takes = inspect.signature(self.function).parameters
        return asynccontextmanager(self.function)(*([host] if takes else []))


def check_lifespan(function: Any) -> Opening:
    """The function itself, or BadSettings if it cannot be a lifespan."""
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.isasyncgenfunction(function):
        raise BadSettings(f"lifespan {name} must be an async function with one yield: open before it, close after it")
    if len(inspect.signature(function).parameters) > 1:
        raise BadSettings(f"lifespan {name} must take no argument, or one: the host that opens it")
    return function  # type: ignore[no-any-return]
