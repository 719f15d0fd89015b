"""What a claimer remembers of its ordered keys: from where to search arrivals and heads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model.rows import Offer

DUE_MARGIN_SECONDS = 5.0  # a key is due again from the start of the claim that found it free, and that may have waited
TOLD_MAX = 100  # boards remembered


class Floors(NamedTuple):
    """Where a search may begin: arrivals before the one, and keys due before the other, are gone or not committed."""

    from_arrival: int = 0
    from_due: float = float("-inf")


NO_FLOORS = Floors()


@dataclass(slots=True)
class KeyMemory:
    """Floors are what the database has told, and exact: an arrival below them is looked at, or was never committed.

    A transaction that has drawn a number may commit late. So a number is a floor once every transaction is over that
    had begun by the time of the next board.
    """

    queues: tuple[str, ...] = ()  # known to have ordered keys
    _floors: Floors = NO_FLOORS
    _last: int | None = None  # the highest number by the last board
    _begun: int = 0  # no transaction from this one on had begun by then
    _told: list[tuple[int, int]] = field(
        default_factory=list
    )  # when those before the one are over, the other is a floor
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
        begun, over = seen[0].next_begun, seen[0].oldest_open
        if self._last is not None and last >= self._last and begun >= self._begun:
            self._told.append((begun, self._last))
        else:
            self._told = []  # the first board, or the first one of another server
        self._last, self._begun = last, begun
        before = [number for begun, number in self._told if begun <= over]
        self._told = self._told[max(0, len(before) - 1) :][-TOLD_MAX:]
        if not before:
            return
        first = [offer.first_arrival for offer in seen if offer.first_arrival is not None]
        due = [offer.first_due for offer in seen if offer.first_due is not None]
        self._floors = Floors(min([before[-1] + 1, *first]), min([at, *due]) - DUE_MARGIN_SECONDS)
