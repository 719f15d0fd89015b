"""What a claimer remembers of its ordered keys: from where to search arrivals and heads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model.rows import Offer

DUE_MARGIN_SECONDS = 5.0  # a key is due again from the start of the claim that found it free, and that may have waited
TOLD_MAX = 100  # boards remembered
ASKING_SECONDS = 0.5
LOOKS_MAX = 3


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
    _first: int | None = None  # the first one by the last board
    _looks: int = 0  # boards since then that had it
    _last: int | None = None  # the highest number by then
    _over: int = 0  # every transaction before this one was over by then
    _asked_at: float = float("-inf")
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

    @property
    def more(self) -> bool:
        """True if arrivals were left: more than one claim looks at, or another claim had them just then."""
        return self._first is not None and self._looks < LOOKS_MAX

    def asks(self, at: float) -> bool:
        """Is it time to ask the next board which transactions had begun? That costs a look at all locks."""
        due = at >= self._asked_at + ASKING_SECONDS
        self._asked_at = at if due else self._asked_at
        return due

    def board_was_read(self, offers: Iterable[Offer]) -> None:
        """What is first among arrivals and heads is known now, but of a queue that is back: it was read from floors."""
        known, floors = self.known(poll=False)
        seen = [offer for offer in offers if offer.ordered and offer.at_seconds is not None]
        self.queues = tuple(offer.queue for offer in seen)
        self._noted = floors != NO_FLOORS and not set(self.queues).issubset(known)
        self._floors = NO_FLOORS
        first = min((offer.first_arrival for offer in seen if offer.first_arrival is not None), default=None)
        last = max((offer.last_arrival or 0 for offer in seen), default=0)
        self._looks = self._looks + 1 if first == self._first else 0
        self._first = first
        before = self._told_by(seen[0], last) if seen else []
        if before:
            due = [offer.first_due for offer in seen if offer.first_due is not None]
            at = max(offer.at_seconds or 0.0 for offer in seen)
            arrival = before[-1] + 1
            self._floors = Floors(
                arrival if first is None else min(arrival, first), min([at, *due]) - DUE_MARGIN_SECONDS
            )

    def _told_by(self, offer: Offer, last: int) -> list[int]:
        """The numbers of earlier boards that no transaction can commit any more."""
        if self._last is None or last < self._last or offer.oldest_open < self._over:
            self._told = []  # the first board, or the first one of another server
        elif offer.next_begun is not None:
            self._told.append((offer.next_begun, self._last))
        self._last, self._over = last, offer.oldest_open
        before = [number for begun, number in self._told if begun <= self._over]
        self._told = self._told[max(0, len(before) - 1) :][-TOLD_MAX:]
        return before
