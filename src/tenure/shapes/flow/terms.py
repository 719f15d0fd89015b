"""What a workflow says of itself, as a row can carry it in its headers: its version and its deadline."""

from __future__ import annotations

from typing import Any

from ...errors import BadSettings

VERSION_MAX = 2_099_999_999  # on either side of 0: the database refuses a larger one
DEADLINE_SECONDS_MIN = 0.001  # an id knows when its flow began to a millisecond
DEADLINE_SECONDS_MAX = 999_999_999  # over 31 years: the database refuses a larger one


def check_version(workflow: str, version: Any) -> None:
    """BadSettings for one that no row can carry."""
    if type(version) is not int or abs(version) > VERSION_MAX:
        raise BadSettings(
            f"workflow {workflow!r} has version={version!r}: it must be a whole number up to {VERSION_MAX:,}"
        )


def check_deadline(workflow: str, seconds: Any) -> None:
    """The same; None is no deadline."""
    if seconds is None:
        return
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not DEADLINE_SECONDS_MIN <= seconds <= DEADLINE_SECONDS_MAX:
        raise BadSettings(
            f"workflow {workflow!r} has deadline_seconds={seconds!r}: it must be a number of seconds from "
            f"{DEADLINE_SECONDS_MIN} to {DEADLINE_SECONDS_MAX:,}, or None for no deadline"
        )


def headers_of(workflow: str, version: int, deadline_seconds: float | None) -> dict[str, str]:
    """With what a new instance comes in."""
    headers = {"tenure-flow": workflow, "tenure-version": str(version)}
    if deadline_seconds is not None:
        headers["tenure-deadline"] = f"+{deadline_seconds:.3f}"  # never with an exponent: it would round to six digits
    return headers
