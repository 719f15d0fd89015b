"""When the claimer sleeps, and what wakes it: decided from times and facts, without a connection.

                  nothing to claim, slots free            polled once more, found nothing
    awake ─────────────────────────────────────▶ told ─────────────────────────────────────▶ asleep
      ▲        tell producers: wake this worker                                                  │
      └──────────────────────────────────────────────────────────────────────────────────────────┘
                     a note, a row that falls due, the next poll

After AWAKE_SECONDS of work without sleep, producers are told that nobody need wake this worker.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from ..model.jitter import jittered

BOARD_SECONDS = 1.0  # how old the board may be while there is work
BOARD_SHARE = 50  # a board that is slow to read (many queues) is read less often
DEEP_SHARE = 10  # so is one without floors, which passes every row that is gone and that a snapshot still sees
DEEP_SECONDS_MAX = 30.0  # but no less often than that: perhaps the server was away for a while
SOON_SECONDS = 0.05  # how soon it is read after something that it may not show yet
AWAKE_SECONDS = 1.0  # how long a worker works before it asks producers not to wake it
DRAIN_SECONDS = 0.1  # its longest sleep while it drains
FULL_SECONDS = 1.0  # its longest sleep while every slot is taken


class Rest(NamedTuple):
    """What to do before the next round: wait so long for news, and perhaps tell producers something first."""

    seconds: float
    wake_us: bool | None = None  # tell producers to wake this worker (True) or not to (False); None: tell nothing


class Look(NamedTuple):
    """How to read the board: as a poll, for rows that may lie below the floors, and without any floor."""

    poll: bool
    late: bool
    deep: bool


class Sleep:
    """Knows when to read the board, when to poll, when the next row is due, and what producers were told."""

    def __init__(self, poll_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self.board_at = 0.0  # when to read the board again
        self._poll_at = 0.0  # when to poll beyond our own buckets
        self._deep_at = 0.0  # when a board without floors may be read again
        self._deep = False  # the board that was asked last had none
        self._owed = False  # there was reason for one, and it was too early
        self._due_at = 0.0  # when the next row is due, as far as the board knew
        self._noted_at = 0.0  # when a note said where there is a row
        self.told = ""  # the ears under which producers were told to wake us
        self._awake_since = 0.0

    def next(self, at: float, *, work: bool, free: bool, draining: bool, dry_until: float, ears: str) -> Rest:
        """How long to wait for news, and what to tell producers before it.

        work: something is to be settled · free: a slot is free · ears: under what name this worker can be woken.
        """
        if work or (free and not draining and dry_until <= at):
            return Rest(0.0, self._awake(at))
        if draining:
            return Rest(DRAIN_SECONDS)
        if not free:
            return Rest(min(FULL_SECONDS, self._poll_seconds), self._awake(at))
        if ears and self.told != ears:
            return Rest(0.0, True)
        self._awake_since = float("inf")
        self.board_at = min(self._poll_at, self._due_at, self._debt_due_at())
        return Rest(max(0.0, min(self._board_due_at(), dry_until) - at))

    def _awake(self, at: float) -> bool | None:
        self._awake_since = min(self._awake_since, at)
        return False if self.told and at - self._awake_since > AWAKE_SECONDS else None

    def producers_told(self, wake_us: bool, ears: str) -> None:
        """Producers know it now. The poll that follows is not work: it must not clear `waiting` again."""
        self.told = ears if wake_us else ""
        if wake_us:
            self._awake_since = float("inf")

    def is_time_for_the_board(self, at: float) -> bool:
        """True if the board is read before the next claim. After a note the claim goes first: it says where to look."""
        return at >= self._board_due_at()

    def _board_due_at(self) -> float:
        """Notes put it off a little, also if they do not end."""
        return min(self.board_at + SOON_SECONDS, max(self.board_at, self._noted_at + SOON_SECONDS))

    def is_time_to_poll(self, at: float) -> bool:
        """True if the board that is read now begins a poll."""
        return at >= self._poll_at

    def look(self, at: float, *, noted: bool) -> Look:
        """How to read the board now. If it should look deep, and that would be too dear, it does so later."""
        poll = self.is_time_to_poll(at)
        late = poll or noted or self._owed
        self._deep = late and at >= self._deep_at
        self._owed = late and not self._deep
        if self._deep:
            self._deep_at = at + DEEP_SECONDS_MAX  # should it be refused, because it takes too long: not again at once
        return Look(poll, late, self._deep)

    def board_was_read(self, at: float, due_seconds: float | None, poll_chance: float | None) -> None:
        """The board was read at this time; it knows when the next row is due. With a chance, it began a poll."""
        took = time.monotonic() - at
        if self._deep:
            self._deep_at = at + min(DEEP_SECONDS_MAX, DEEP_SHARE * took)
        if poll_chance is not None:
            self._poll_at = at + jittered(self._poll_seconds, poll_chance)
        self.board_at = min(at + max(BOARD_SECONDS, BOARD_SHARE * took), self._poll_at, self._debt_due_at())
        if due_seconds is not None and due_seconds < BOARD_SECONDS:
            self.board_at = at + max(0.0, due_seconds)
        self._due_at = at + (due_seconds if due_seconds is not None else self._poll_seconds)

    def _debt_due_at(self) -> float:
        return self._deep_at if self._owed else float("inf")

    def look_now(self) -> None:
        """Read the board in the next round."""
        self.board_at = 0.0

    def look_soon(self) -> None:
        """There may be a row that is due soon: the board knows when."""
        self._due_at = min(self._due_at, time.monotonic() + SOON_SECONDS)

    def note(self) -> None:
        """A producer says where there is a row."""
        self._noted_at = time.monotonic()
        self.look_soon()

    def connection_lost(self) -> None:
        """Anything may have happened meanwhile: tell producers again, and poll without floors."""
        self.told, self._poll_at, self._deep_at = "", 0.0, 0.0
