"""How often a step is tried, and how long it waits in between."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ...errors import BadSettings
from ...model.backoff import Backoff, Exponential, check_backoff, delay_for

TRIES_MAX = 1000
KEPT = ("wait:", "group:", "patch:", "undo:")  # how names begin of what a flow records by itself


_WAIT = Exponential()


@dataclass(frozen=True, slots=True)
class Tries:
    """So many tries in all, with this wait between them: Tries(5), Tries(3, Fixed(10)); Tries(1) tries once."""

    most: int = 5
    wait: Backoff = _WAIT

    def __post_init__(self) -> None:
        if not isinstance(self.most, int) or not 1 <= self.most <= TRIES_MAX:
            raise BadSettings(f"Tries({self.most!r}): give a number from 1 to {TRIES_MAX}")
        check_backoff(self.wait)

    def wait_seconds(self, tries: int) -> float:
        """How long to wait after so many tries."""
        return delay_for(self.wait, tries, random.random()) or 0.0  # noqa: S311


DEFAULT = Tries()


def check_step(name: object, tries: object) -> None:
    """BadSettings if a step cannot be named so, or tried so."""
    if isinstance(name, str) and name.startswith(KEPT):
        raise BadSettings(f"step {name!r} begins like what a flow records by itself ({', '.join(KEPT)}): rename it")
    if not isinstance(tries, Tries):
        raise BadSettings(f"step {name!r} has retry={tries!r}: write Tries(5), or Tries(5, Fixed(10))")
