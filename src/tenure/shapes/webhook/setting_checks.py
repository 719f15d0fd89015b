"""Settings of webhooks that are checked when a thing is made; a sentence never holds what may be a secret."""

from __future__ import annotations

import math
import re
from typing import Any

from ...errors import BadSettings

SECONDS_MAX = 36_525 * 86_400.0  # a hundred years
_HEADER = re.compile(r"[0-9A-Za-z!#$%&'*+.^_`|~-]{1,200}")


def check_seconds(name: str, value: Any, least: float, most: float) -> float:
    """The seconds themselves, or BadSettings."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not least <= value <= most:
        said = f"{name}={value!r}" if is_number else f"{name} is {type(value).__name__}, it"
        raise BadSettings(f"{said} must be a number of seconds from {least:.0f} to {most:.0f}")
    return float(value)


def check_header(name: str, value: Any) -> str:
    """The name of a header itself, or BadSettings."""
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise BadSettings(f"{name} must be the name of a header, such as X-Signature")
    return value
