"""Backoff: how long a row waits after a failed attempt; policies as values, or a function of your own.

Attempts count from 1: `delay_seconds(1, …)` is the wait between the first attempt and the second. `chance` is a random
number from 0 to 1 that the caller gives. Jitter only adds to the delay: a row never comes back sooner than its policy
says, and the rows of one outage do not come back together. `budget_seconds` adds the waits up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import BadSettings
from .limits import DELAY_SECONDS_MAX

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Exponential:
    """Each wait is `factor` times the last, up to `most_seconds`. The defaults are the database's own backoff.

    All waits together, without jitter: 17 minutes for the 10 attempts of the default, 30 s for 5, 9 hours for 20.
    """

    first_seconds: float = 2.0
    factor: float = 2.0
    most_seconds: float = HOUR_SECONDS
    jitter: float = 0.25

    def __post_init__(self) -> None:
        _check("factor", self.factor, 1.0, 1000.0, "1 waits the same each time, 2 doubles")
        _check_most("first_seconds", self.first_seconds, self.most_seconds)
        _check_jitter(self.jitter)

    def delay_seconds(self, attempt: int, *, chance: float) -> float:
        """The wait after this attempt."""
        try:
            seconds = self.first_seconds * self.factor ** (attempt - 1)
        except OverflowError:
            seconds = self.most_seconds
        return _with_jitter(min(seconds, self.most_seconds), self.jitter, chance)


@dataclass(frozen=True, slots=True)
class Linear:
    """Each wait is `step_seconds` longer than the last, up to `most_seconds`.

    All waits of n attempts together, without jitter: `step_seconds * n * (n - 1) / 2`. With a step of 10 s that is
    100 s for 5 attempts, 7.5 minutes for 10.
    """

    step_seconds: float
    most_seconds: float = HOUR_SECONDS
    jitter: float = 0.25

    def __post_init__(self) -> None:
        _check_most("step_seconds", self.step_seconds, self.most_seconds)
        _check_jitter(self.jitter)

    def delay_seconds(self, attempt: int, *, chance: float) -> float:
        """The wait after this attempt."""
        return _with_jitter(min(self.step_seconds * attempt, self.most_seconds), self.jitter, chance)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same wait each time, 0 for none. All waits of n attempts together, without jitter: `seconds * (n - 1)`."""

    seconds: float
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check("seconds", self.seconds, 0.0, DELAY_SECONDS_MAX, "0 tries again at once")
        _check_jitter(self.jitter)

    def delay_seconds(self, attempt: int, *, chance: float) -> float:  # noqa: ARG002
        """The wait after any attempt."""
        return _with_jitter(self.seconds, self.jitter, chance)


Policy = Exponential | Linear | Fixed
Backoff = Policy | Callable[[int], float]


def delay_for(backoff: Backoff | None, attempt: int, chance: float) -> float | None:
    """The wait after this attempt, at most ten years; None leaves it to the database's own backoff.

    A function's answer is used as it is, without jitter; BadSettings if it is not a number of seconds.
    """
    if backoff is None:
        return None
    if isinstance(backoff, Policy):
        seconds = backoff.delay_seconds(attempt, chance=chance)
    else:
        seconds = _answer(backoff, attempt)
    return float(min(seconds, DELAY_SECONDS_MAX))


def budget_seconds(backoff: Policy, max_attempts: int) -> float:
    """All waits of one row together, at most: how long an outage may last before its attempts are used up."""
    return sum(backoff.delay_seconds(attempt, chance=1.0) for attempt in range(1, max_attempts))


def check_backoff(backoff: Backoff | None) -> None:
    """BadSettings unless it is a policy or a function; a class without parentheses is neither."""
    known = backoff is None or isinstance(backoff, Policy)
    if not known and (isinstance(backoff, type) or not callable(backoff)):
        raise BadSettings(
            f"backoff={backoff!r} must be a policy: write Exponential(), Fixed(5) or a function of attempt"
        )


def _answer(function: Callable[[int], float], attempt: int) -> float:
    check_backoff(function)
    seconds = function(attempt)
    if isinstance(seconds, int | float) and seconds >= 0:  # NaN is not >= 0 either
        return seconds
    name = getattr(function, "__qualname__", repr(function))
    raise BadSettings(f"backoff {name} returned {seconds!r} for attempt {attempt}: it must return seconds, 0 or more")


def _with_jitter(seconds: float, jitter: float, chance: float) -> float:
    return seconds * (1.0 + jitter * chance)


def _check_most(name: str, seconds: float, most_seconds: float) -> None:
    _check("most_seconds", most_seconds, 0.0, DELAY_SECONDS_MAX, "no row waits longer than ten years")
    _check(name, seconds, 0.0, most_seconds, f"at most most_seconds={most_seconds!r}; write Fixed(0) for no wait")
    if seconds == 0:
        raise BadSettings(f"{name}={seconds!r} would never grow: write Fixed(0) to try again at once")


def _check_jitter(jitter: float) -> None:
    _check("jitter", jitter, 0.0, 1.0, "0.25 adds up to a quarter of the delay")


def _check(name: str, value: float, least: float, most: float, remedy: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise BadSettings(f"{name}={value!r} must be a number between {least:g} and {most:g}: {remedy}")
