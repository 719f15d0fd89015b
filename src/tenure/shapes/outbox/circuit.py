"""The circuit of one relay: while the broker is away nothing is sent, and one probe goes first.

          the broker is away
closed ───────────────────────▶ open ──── its pause is over ──▶ probing
  ▲                              ▲                                 │
  │                              └──────── away still ─────────────┤
  └─────────────────────────────── it answers ─────────────────────┘
"""

from __future__ import annotations

import asyncio
import random
import time

from ...model.jitter import jittered

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 1.0, 60.0
PROBE_SECONDS_MAX = 15.0  # how long others wait for the probe


class Circuit:
    """Used on one loop. `pause` doubles with each failure in a row."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = self._since = 0.0
        self._probe: asyncio.Event | None = None

    @property
    def is_open(self) -> bool:
        """The broker was away when it was last asked."""
        return self._failures > 0

    @property
    def seconds_left(self) -> float:
        """Until the next probe."""
        return max(0.0, self._until - time.monotonic())

    @property
    def overdue_seconds(self) -> float:
        """For how long a probe could have gone; 0 while none is due or one is under way."""
        return 0.0 if not self.is_open or self._probe is not None else max(0.0, time.monotonic() - self._until)

    async def enter(self) -> bool:
        """Whether to send now. While a probe is under way, wait for its answer."""
        if not self.is_open:
            return True
        if self._probe is not None:
            try:
                await asyncio.wait_for(self._probe.wait(), PROBE_SECONDS_MAX)
            except TimeoutError:
                return False
            return not self.is_open
        if self.seconds_left > 0:
            return False
        self._probe = asyncio.Event()
        return True

    def fail(self) -> float | None:
        """It is away: how long to pause now; None if another message has said so just before."""
        probing, self._probe = self._probe, None
        if probing is None and self.seconds_left > 0:
            return None
        if not self.is_open:
            self._since = time.monotonic()
        self._failures += 1
        pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2.0 ** min(self._failures - 1, 10))
        pause = jittered(pause, random.random())  # noqa: S311
        self._until = time.monotonic() + pause
        if probing is not None:
            probing.set()
        return pause

    def leave(self) -> None:
        """The probe ended without asking the broker: the next one probes."""
        probing, self._probe = self._probe, None
        if probing is not None:
            probing.set()

    def succeed(self) -> float | None:
        """It answers: for how long it was away; None if it was not."""
        probing, self._probe = self._probe, None
        was_open, self._failures = self.is_open, 0
        if probing is not None:
            probing.set()
        return time.monotonic() - self._since if was_open else None
