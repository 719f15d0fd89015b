"""How long completions wait for more of them while several inboxes share the slots of a worker.

Of what ends in one turn of the loop each inbox has a part: settled at once, that would be many small statements.
"""

from __future__ import annotations

from threading import Event

from .completer import LARGE
from .held import HeldAttempts
from .settler import Settler

GATHER_SECONDS = 0.02


class Gathering:
    """Waits only while no slot is idle for it: rows wait ahead, and more of them than begin in this time."""

    def __init__(self, held: HeldAttempts, settler: Settler) -> None:
        self._held, self._settler = held, settler

    def waited(self, ended: Event) -> bool:
        """Wait a moment if what has ended may, unless the thread is to end; True if it did."""
        if not self.may_wait:
            return False
        ended.wait(GATHER_SECONDS)
        return True

    @property
    def may_wait(self) -> bool:
        """True if what has ended may wait."""
        return self._held.shares_slots and self._held.ahead.enough and self._settler.may_wait(LARGE)
