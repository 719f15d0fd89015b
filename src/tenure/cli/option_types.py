"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A number in a range, and finite. A range alone accepts `nan`: it is neither below nor above anything."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} must be a finite number: write one such as 0.5 or 3", param, ctx)
        return number
