"""The claim that a note would bring on, made before a rest: when the note comes, it need only be sent.

A processor that has rested is slow for a while: to decide about a claim takes it about as long as the way to the
server and back. What a rest begins with is known, and little of it can change meanwhile.

                before a rest                     one note, of an unordered row, and slots are as before
    none ─────────────────────────▶ a claim ──────────────────────────────────────────────────────────────▶ sent at once
      ▲                                │
      └────────────────────────────────┘
        anything else: a round decides
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from .claim_rule import SentClaim
from .claims import Claims
from .held import HeldAttempts
from .news import Note, Other


class Ready:
    """Knows the claim, and whether it is the one to send."""

    def __init__(self, worker_id: str, held: HeldAttempts, claims: Claims) -> None:
        self._worker_id, self._held, self._claims = worker_id, held, claims
        self._claim: SentClaim | None = None

    def make(self) -> None:
        """Before a rest, when nothing is to be settled."""
        more = self._claims.in_doubt or len(self._held.ahead)
        self._claim = None if more else self._claims.rule.after_note(self._worker_id, self._room)

    def take(self, news: Sequence[Other]) -> SentClaim | None:
        """After the rest: the claim to send now, if this is all that came. It is made for this rest only."""
        claim, self._claim = self._claim, None
        if claim is None or len(news) != 1 or not isinstance(news[0], Note):
            return None
        note = news[0]
        fits = note.ordered is False and note.queue in [lane.queue for lane in claim.lanes] and self._room == claim.n
        return claim.sent_at(time.monotonic()) if fits and self._claims.rule.hears(note) else None

    @property
    def _room(self) -> int:
        """For how many rows there is a slot, or a place ahead."""
        return self._held.slots_offered + self._held.room_ahead
