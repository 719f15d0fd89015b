"""How long completions wait for more of them while several inboxes share the slots of a worker.

Of what ends in one turn of the loop each inbox has a part: settled at once, that would be many small statements.
"""

from __future__ import annotations

import time

from .completer import LARGE
from .held import HeldAttempts
from .settler import Settler

GATHER_SECONDS = 0.05
MANY = 2 * LARGE  # rows: so many wait for no more


class Gathering:
    """Lets them wait only while no slot is idle for it: enough rows wait ahead, and none is to be claimed."""

    def __init__(self, held: HeldAttempts, settler: Settler) -> None:
        self._held, self._settler = held, settler
        self._until = 0.0  # 0: nothing waits

    def seconds(self) -> float:
        """How long to listen for more before the next round; asked again after all news."""
        at = time.monotonic()
        if not (self._held.shares_slots and self._slots_are_fed and self._settler.may_wait(MANY)):
            self._until = 0.0
            return 0.0
        if not self._until:
            self._until = at + GATHER_SECONDS
        if at >= self._until:
            self._until = 0.0
            return 0.0
        return self._until - at

    @property
    def _slots_are_fed(self) -> bool:
        return len(self._held.ahead) > 0 and self._held.room_ahead == 0
