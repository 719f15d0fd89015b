"""A limit over several inboxes as shares: whole numbers that add up to it, one for each inbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Share(NamedTuple):
    """What one inbox may run at once and start in a second; None: that is not limited."""

    max_running: int | None
    rate_per_second: float | None
    burst: int | None


class Deal(NamedTuple):
    """What was said for all inboxes together, and among which it is dealt; the greater deal is the later one.

    `dealt` is 0 until it is known that all of them have taken it.
    """

    said: int
    dealt: int
    inboxes: tuple[str, ...]
    max_running: int | None = None
    rate_per_second: float | None = None
    burst: int | None = None

    def share_of(self, inbox: str) -> Share:
        """The share of one inbox. Where the rate has no burst left for it, nothing may run."""
        rate, burst = self.rate_per_second, self._part(self.burst, inbox)
        running = self._part(self.max_running, inbox)
        if rate is None:
            return Share(running, None, None)
        return Share(running if burst else 0, rate / len(self.inboxes), burst or 1)

    def among(self, inboxes: Iterable[str]) -> Deal:
        """The same limit, dealt anew."""
        return self._replace(dealt=self.dealt + 1, inboxes=tuple(sorted(inboxes)))

    def _part(self, whole: int | None, inbox: str) -> int | None:
        if whole is None:
            return None
        part, rest = divmod(whole, len(self.inboxes))
        return part + (sorted(self.inboxes).index(inbox) < rest)
