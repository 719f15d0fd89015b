"""A coroutine that says so when somebody forgot its await and asks whether it is true: it always would be."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class Unawaited(Coroutine[Any, Any, T]):
    """A coroutine without a truth value; everything else is as before."""

    __slots__ = ("_call", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], call: str) -> None:
        self._coroutine, self._call = coroutine, call

    def __bool__(self) -> NoReturn:
        """Refuse: without await, `if job.once(tx, "mail"):` would be true for every caller."""
        self._coroutine.close()  # it will not run: no further warning
        raise TypeError(f"await is missing: on an async connection, write `await {self._call}`")

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As of the coroutine."""
        return self._coroutine.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        trace: TracebackType | None = None,
        /,
    ) -> Any:
        """As of the coroutine."""
        raised = error if isinstance(error, BaseException) else kind
        return self._coroutine.throw(raised() if isinstance(raised, type) else raised.with_traceback(trace))

    def close(self) -> None:
        """As of the coroutine."""
        self._coroutine.close()


def unawaited(answer: Any, call: str) -> Any:
    """The answer itself, or its coroutine without a truth value."""
    return Unawaited(answer, call) if isinstance(answer, Coroutine) else answer
