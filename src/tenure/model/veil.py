"""A veil over what an encrypted payload contained: errors are written down without it."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from typing import Any

STARS = "***"
WORD_MIN = 3  # shorter values stand in every text by chance


class Veil:
    """Knows the values of one decrypted payload."""

    __slots__ = ("_plain",)
    why = "more is not told, because the payload is encrypted"

    def __init__(self, plain: str) -> None:
        self._plain = plain

    def __repr__(self) -> str:
        return "<Veil>"

    def over(self, text: str) -> str:
        """A text that a handler chose to tell, with the values of the payload replaced."""
        for word in sorted(set(_words(json.loads(self._plain))), key=len, reverse=True):
            text = text.replace(word, STARS)
        return text

    def traceback(self, error: BaseException) -> str:
        """Where an exception came from and of which type it is, without its text or that of those before it."""
        told: list[str] = []
        chain: list[BaseException] = []
        while error not in chain:
            chain.append(error)
            before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            if before is None:
                break
            error = before
        for each in reversed(chain):
            told += ["Traceback (most recent call last):\n", *traceback.format_tb(each.__traceback__)]
            told += [f"{type(each).__qualname__}: {self.why}\n"]
        return "".join(told)[-8000:]

    def over_error(self, error: BaseException) -> BaseException:
        """An exception of the same name that says nothing."""
        named: type[Exception] = type(type(error).__qualname__, (Exception,), {})
        return named(self.why)


def _words(value: Any) -> Iterator[str]:
    """Every value in a payload, as it may be written."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            stack += each.values()
        elif isinstance(each, list):
            stack += each
        elif not isinstance(each, bool | None) and len(str(each)) >= WORD_MIN:
            yield from (str(each), repr(str(each))[1:-1], json.dumps(str(each))[1:-1])
