"""Numbers and ids on the command line."""

from __future__ import annotations

import math
import re
from typing import Any
from uuid import UUID

import click

NEXT = "`tenure rows` lists the rows with their ids."


class RowId(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """The id of a row, or of what else has one."""

    name = "id"

    def __init__(self, of: str = "a row", then: str = NEXT) -> None:
        self._of, self._then = of, then

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UUID:
        """The id, or a usage error with the next step."""
        try:
            return value if isinstance(value, UUID) else UUID(str(value).strip())
        except ValueError:
            self.fail(f"{str(value)[:60]!r} must be the id of {self._of}. {self._then}", param, ctx)


class Span(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """A span of time in one unit: 90s, 36h, 7d; as seconds."""

    name = "age"

    def __init__(self, most: str | None = None) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds, or a usage error."""
        text = str(value).strip()
        if isinstance(value, float):
            return value
        if not re.fullmatch(r"\d{1,9}[smhdw]", text):
            self.fail(f"{text[:60]!r} must be a span of time: write 36h, 7d or 4w", param, ctx)
        from ..model.filter_words import UNITS  # not above: a probe need not load what rows are made of

        seconds = float(text[:-1]) * UNITS[text[-1]]
        if self._most and seconds > float(self._most[:-1]) * UNITS[self._most[-1]]:
            self.fail(f"{text!r} must be {self._most} at most", param, ctx)
        return seconds


class Number(click.FloatRange):
    """A number in a range, and finite. A range alone accepts `nan`: it is neither below nor above anything."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} must be a finite number: write one such as 0.5 or 3", param, ctx)
        return number
