"""What an application puts around sending a row and around an attempt: functions with one yield."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import BadSettings


@dataclass(frozen=True, slots=True)
class Around:
    """A function with one yield, for all kinds or for some."""

    function: Callable[..., Any]
    kinds: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        return str(getattr(self.function, "__qualname__", self.function))

    @property
    def awaits(self) -> bool:
        """True if it is async."""
        return inspect.isasyncgenfunction(self.function)

    def covers(self, kind: str) -> bool:
        """True if it is for this kind."""
        return self.kinds is None or kind in self.kinds


def check_around(function: Any, kinds: Iterable[str] | None, where: str) -> Around:
    """The function as an Around, or BadSettings."""
    name = getattr(function, "__qualname__", repr(function))
    if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        raise BadSettings(f"{where} {name} must have one yield: before it and after it is your code, at it is theirs")
    if isinstance(kinds, str):
        raise BadSettings(f"{where} {name} has kinds={kinds!r}: give a list, kinds=[{kinds!r}]")
    if len(inspect.signature(function).parameters) != 1:
        raise BadSettings(f"{where} {name} must take one argument: {'the job' if 'attempt' in where else 'the row'}")
    return Around(function, None if kinds is None else tuple(kinds))


class Step:
    """One plain generator on its way through: begun, and then told how the inner part ended."""

    def __init__(self, around: Around, about: Any) -> None:
        self._around, self._generator = around, around.function(about)
        self.skipped, self.value = False, None

    def begin(self) -> Any:
        """Up to the yield: what it yields. If it returns before, the inner part is skipped, and `value` is the end."""
        try:
            return next(self._generator)
        except StopIteration as stop:
            if stop.value is None:
                raise RuntimeError(
                    f"{self._around.name} returned before its yield: yield, or return an outcome such as Snooze(60)"
                ) from None
            self.skipped, self.value = True, stop.value
            return None

    def returned(self, value: Any) -> Any:
        """The inner part returned this: the end, which is what the function returns, if it does."""
        try:
            self._generator.send(value)
        except StopIteration as stop:
            return value if stop.value is None else stop.value
        raise self._twice()

    def raised(self, error: BaseException) -> Any:
        """The inner part raised this: raises again, unless the function catches it; then the end is what it returns."""
        try:
            self._generator.throw(error)
        except StopIteration as stop:
            return stop.value
        raise self._twice()

    def _twice(self) -> RuntimeError:
        return RuntimeError(f"{self._around.name} has more than one yield: the inner part runs once")


def within(arounds: Sequence[Around], about: Any, call: Callable[[Any], Any]) -> Any:
    """Call within these, the first outermost; each may yield another `about` for what is inside."""
    if not arounds:
        return call(about)
    step = Step(arounds[0], about)
    changed = step.begin()
    if step.skipped:
        return step.value
    try:
        value = within(arounds[1:], about if changed is None else changed, call)
    except BaseException as error:
        return step.raised(error)
    return step.returned(value)


async def within_async(arounds: Sequence[Around], about: Any, call: Callable[[Any], Awaitable[Any]]) -> Any:
    """The same, awaiting; async functions among them cannot change what they are about, nor the end."""
    if not arounds:
        return await call(about)
    if arounds[0].awaits:
        async with asynccontextmanager(arounds[0].function)(about):
            return await within_async(arounds[1:], about, call)
    step = Step(arounds[0], about)
    changed = step.begin()
    if step.skipped:
        return step.value
    try:
        value = await within_async(arounds[1:], about if changed is None else changed, call)
    except BaseException as error:
        return step.raised(error)
    return step.returned(value)
