"""What a claimer remembers of its ordered keys: from where to search arrivals and heads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model.rows import Offer

MARGIN_SECONDS = 1.0  # arrivals of a transaction up to this long are found at once, those of a longer one by a poll
DUE_MARGIN_SECONDS = 5.0  # a key is due again from the start of the claim that found it free, and that may have waited

TOLD_MAX = 100  # boards remembered


class Floors(NamedTuple):
    """Where a search may begin: arrivals before the one, and keys due before the other, are gone or not committed."""

    from_arrival: int = 0
    from_due: float = float("-inf")


NO_FLOORS = Floors()


@dataclass(slots=True)
class KeyMemory:
    """Floors are what the database has told: the first that there was, or the last that was given a while before."""

    queues: tuple[str, ...] = ()  # known to have ordered keys
    _floors: Floors = NO_FLOORS
    _told: list[tuple[float, int]] = field(default_factory=list)  # when, and the highest number by then
    _noted: bool = False

    def known(self, *, poll: bool) -> tuple[tuple[str, ...], Floors]:
        """Queues and floors for the next board; none in a poll, nor after a note."""
        return ((), NO_FLOORS) if poll or self._noted else (self.queues, self._floors)

    def floors(self) -> Floors:
        """Where the next claim may begin."""
        return NO_FLOORS if self._noted else self._floors

    def note(self) -> None:
        """A producer says that there is a row, whose transaction may have been long, or somebody looks everywhere."""
        self._noted = True

    def board_was_read(self, offers: Iterable[Offer]) -> None:
        """What is first among arrivals and heads is known now."""
        self._noted = False
        seen = [offer for offer in offers if offer.ordered and offer.at_seconds is not None]
        self.queues = tuple(offer.queue for offer in seen)
        self._floors = NO_FLOORS
        if not seen:
            return
        at = max(offer.at_seconds or 0.0 for offer in seen)
        last = max(offer.last_arrival or 0 for offer in seen)
        # What is ahead of this board was told by another server, or before its clock was set back.
        self._told = [told for told in self._told[-TOLD_MAX:] if told[0] <= at and told[1] <= last]
        before = [number for when, number in self._told if when <= at - MARGIN_SECONDS]
        self._told.append((at, last))
        if not before:
            return
        first = [offer.first_arrival for offer in seen if offer.first_arrival is not None]
        due = [offer.first_due for offer in seen if offer.first_due is not None]
        self._floors = Floors(min([before[-1] + 1, *first]), min([at, *due]) - DUE_MARGIN_SECONDS)
