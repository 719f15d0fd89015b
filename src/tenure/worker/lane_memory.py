"""What a claimer remembers of its unordered lanes: from where to search each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..model.rows import Claimed, Lane, Offer

FLOOR_SLACK_SECONDS = 0.001  # times come and go as floats
COMMIT_SECONDS = 1.0  # a row whose transaction took no longer than this stands above every floor
LATE_SECONDS = 5.0  # a row of a producer's transaction up to this long is found at once by its note
LANES_MAX = 256  # told to a board: to tell more takes longer than it saves; and remembered when it shows no more


@dataclass(slots=True)
class LaneMemory:
    """Floors are times of the database that it has just told: a clock that is set back, or another server, has others.

    A row may commit later than one that is due after it, but then both are young. So a claim begins at the last row
    that was seen, however many are due at nearly its time, and never within the last second before it was seen.
    A board, which comes once in a while, begins a second before: it finds a row that was locked, or put first in line.
    What lies below all the same (committed late, sent with a past time) is found by a board without floors: after a
    note, in a poll, or as soon as it can be afforded.
    """

    _firsts: dict[Lane, float] = field(default_factory=dict)  # where the board saw the first row that waits
    _at: float = 0.0  # the database's time when it was read
    _taken: dict[Lane, float] = field(default_factory=dict)  # where claims have ended since
    _noted: bool = False  # NOTIFY arrives at commit: the row may be as old as its transaction, or as its producer says

    @property
    def noted(self) -> bool:
        """True if there may be a row below the floors."""
        return self._noted

    def known(self, *, late: bool = False, deep: bool = False) -> dict[Lane, float]:
        """The lanes and floors for the next board; none if there are many.

        Deep: each from its beginning, so that one that is empty is shown. Late: as far back as a claim after a note.
        """
        if len(self._firsts) > LANES_MAX:
            return {}
        if deep:
            return dict.fromkeys(self._firsts, float("-inf"))
        back = COMMIT_SECONDS + LATE_SECONDS if late else COMMIT_SECONDS
        return {lane: first - back for lane, first in self._firsts.items()}

    def board_was_read(self, offers: Iterable[Offer]) -> None:
        """The first row that waits in each lane is known, by the database's own clock."""
        self._noted = False
        self._taken.clear()
        # A lane that is paused, or empty: its rows may still fill the index. The next board asks for it by name.
        firsts = dict.fromkeys(self._firsts if len(self._firsts) < LANES_MAX else (), float("-inf"))
        for offer in offers:
            at = offer.at_seconds
            if at is not None and not offer.ordered:
                self._at = at
                firsts[Lane(offer.queue, offer.priority)] = at + min(0.0, offer.due_seconds or 0.0)
        self._firsts = firsts

    def note(self) -> None:
        """A producer says that there is a row."""
        self._noted = True

    def floors(self, lanes: Sequence[Lane], *, noted: bool = False) -> list[float]:
        """Where to begin in each lane; or where a claim would that is sent after a note."""
        late = LATE_SECONDS if noted or self._noted else 0.0
        return [self._floor(lane) - late for lane in lanes]

    def _floor(self, lane: Lane) -> float:
        taken = self._taken.get(lane)
        return _floor(self._firsts.get(lane, float("-inf")), self._at) if taken is None else taken

    def taken(self, lanes: Sequence[Lane], rows: Sequence[Claimed], at_seconds: float) -> None:
        """These were the oldest rows of their lanes at that time, in order, but for those that were locked."""
        of_queue: dict[str, list[Lane]] = {}
        for lane in lanes:
            of_queue.setdefault(lane.queue, []).append(lane)
        newest = {row.queue: row.available_seconds for row in rows}  # the last of each queue
        for queue, at in newest.items():
            if len(found := of_queue.get(queue, [])) == 1:  # rows do not say their priority
                self._taken[found[0]] = max(self._floor(found[0]), _floor(at, at_seconds))


def _floor(seen: float, at: float) -> float:
    return min(seen - FLOOR_SLACK_SECONDS, at - COMMIT_SECONDS)
