"""How busy this process is: what the heartbeat tells, so that a full processor can be named."""

from __future__ import annotations

import time


class CpuShare:
    """The share of one core that this process used since it was asked last; its child processes are not counted."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.process_time()

    def __call__(self) -> float:
        """From 0 up; above 1 if C code runs on several cores."""
        at, used = time.monotonic(), time.process_time()
        share = (used - self._used) / max(at - self._at, 0.001)
        self._at, self._used = at, used
        return round(share, 3)
