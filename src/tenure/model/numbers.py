"""Numbers as Postgres stores them: without an exponent, with every digit, so a short text can become a long one."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

DIGITS_MAX = 4000  # Python reads 4300, Postgres has 16383 after the point
ORDINARY = 300  # a number of this many characters without an exponent fits a float
FAR = 10**9


class Number(str):
    """A number in JSON text that must be checked, as it was written."""


def noted(text: str) -> Number | None:
    """The number if it is long or has an exponent; None for most, which need no check."""
    return Number(text) if len(text) > ORDINARY or "e" in text or "E" in text else None


def trouble(value: Any) -> str | None:
    """Why a value cannot be stored and read back, in words that follow "is"; None if it can, or is no number."""
    if isinstance(value, Number):
        return _trouble_written(value)
    if isinstance(value, int):
        long = value.bit_length() > DIGITS_MAX * 10 // 3
        return f"a number of more than {DIGITS_MAX} digits: send it as a string" if long else None
    if not is_finite(value):
        return f"{value}, which JSON does not have: send null or a string"
    return None


def _trouble_written(number: Number) -> str | None:
    shown = number if len(number) <= 24 else f"{number[:24]}…"
    if _length(number) > DIGITS_MAX:
        return f"{shown}, a number of more than {DIGITS_MAX} digits: send it as a string"
    if not number.lstrip("-").isdigit() and math.isinf(float(number)):
        return f"{shown}, which is larger than any float: send it as a string"
    return None


def is_finite(value: Any) -> bool:
    """True unless it is NaN or infinite; also for a value that is not a number."""
    return value.is_finite() if isinstance(value, Decimal) else not isinstance(value, float) or math.isfinite(value)


def growth(value: Any) -> int:
    """By how many characters a value gets longer in Postgres; 0 without an exponent."""
    if not isinstance(value, float | Number):
        return 0
    written = str(value)
    return max(0, _length(written) - len(written))


def _length(number: str) -> int:
    mantissa, _, exponent = number.lower().partition("e")
    if not exponent:
        return len(number)
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = int(max(-FAR, min(float(exponent), FAR)))  # an exponent may have more digits than int() reads
    before, after = max(1, len(whole) + shift), max(0, len(fraction) - shift)
    return number.startswith("-") + before + (after and 1 + after)
