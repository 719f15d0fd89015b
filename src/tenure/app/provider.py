"""What handlers are given beside their payload, by annotation: the application makes it for each attempt."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from ..errors import BadSettings
from .function_kind import is_async

_YIELDING = (Iterator, Generator, AsyncIterator, AsyncGenerator)


class Injected:
    """The default of a parameter that is not in the payload: `session: Session = injected`."""

    def __repr__(self) -> str:
        return "injected"


injected: Any = Injected()  # for a type checker a default: who enqueues need not give it


@dataclass(frozen=True, slots=True)
class Provider:
    """A function that returns a value, or yields it and then closes it."""

    function: Callable[..., Any]
    takes_job: bool

    @property
    def awaits(self) -> bool:
        """True if it is async."""
        return inspect.isasyncgenfunction(self.function) or is_async(self.function)

    def enter(self, stack: ExitStack | AsyncExitStack, job: Any) -> Any:
        """The value; what follows the yield runs when the stack is left."""
        given = [job] if self.takes_job else []
        if inspect.isgeneratorfunction(self.function):
            return stack.enter_context(contextmanager(self.function)(*given))
        return self.function(*given)

    async def enter_async(self, stack: AsyncExitStack, job: Any) -> Any:
        """The same, awaiting."""
        given = [job] if self.takes_job else []
        if inspect.isasyncgenfunction(self.function):
            return await stack.enter_async_context(asynccontextmanager(self.function)(*given))
        value = self.enter(stack, job)
        return await value if is_async(self.function) else value


def check_provider(function: Any, known: Mapping[Any, Provider]) -> tuple[Any, Provider]:
    """The type that it provides, and the provider; or BadSettings."""
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise BadSettings(f"provides {function!r} must be a function: it makes a value for each attempt")
    signature = inspect.signature(function, eval_str=True)
    made = signature.return_annotation
    if get_origin(made) in _YIELDING and get_args(made):
        made = get_args(made)[0]
    if made in (inspect.Parameter.empty, None, Any):
        raise BadSettings(f"provides {name} must say what it makes: def {name}() -> Session")
    if made in known:
        raise BadSettings(f"{made!r} is provided already, by {known[made].function.__qualname__}: one function a type")
    if len(signature.parameters) > 1:
        raise BadSettings(f"provides {name} must take nothing, or the job")
    return made, Provider(function, bool(signature.parameters))
