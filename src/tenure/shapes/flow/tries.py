"""How often a step is tried, and how long it waits in between."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ...errors import BadSettings
from ...model.backoff import Backoff, Exponential, check_backoff, delay_for

TRIES_MAX = 1000


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
