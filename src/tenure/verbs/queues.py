"""What an operator sets for a queue: whether it is paused, how many rows run at once, how many start in a second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from ..errors import BadSettings
from ..model.payload import check_name
from ..model.rows import Claimed
from .lifecycle import LEASE_SECONDS, claim_params, claimed_by
from .statement import Statement, array

SLOTS_MAX = 10_000
RATE_MAX = 1_000_000
RETENTION_SECONDS_MIN, RETENTION_SECONDS_MAX = 3600.0, 315_576_000.0
RATE_MIN = 0.000_001  # one row in eleven days; far below, the arithmetic of the rate underflows


class Queue(NamedTuple):
    """The settings of a queue (None: no limit), and how much of each is used now."""

    queue: str
    paused: bool
    max_running: int | None
    max_per_key: int | None
    rate_per_second: float | None
    burst: int | None
    running: int  # rows that hold a permit
    tokens: float | None  # how many rows the rate allows to start now
    updated_at: datetime
    retention_seconds: float | None = None  # how long its ended rows are kept; None: as the workers say

    @property
    def limited(self) -> bool:
        """True if only claim_limited may claim from it."""
        return self.paused or (self.max_running, self.max_per_key, self.rate_per_second) != (None, None, None)

    @property
    def is_set(self) -> bool:
        """True if somebody has set something of it."""
        return self.limited or self.retention_seconds is not None


def claim_limited(
    worker: str,
    n: int,
    queue: str,
    *,
    floors: Mapping[int, float] | None = None,
    from_arrival: int = 0,
    from_due: float = float("-inf"),
    lease_seconds: float = LEASE_SECONDS,
    claim_id: int | None = None,
    seen_epoch: int = 0,
) -> Statement[list[Claimed]]:
    """Claim up to n runnable rows of one queue, ordered or not, within its limits; none while it is paused.

    Across all workers, at most max_running rows of the queue and max_per_key rows of one key are processing at once,
    and at most burst + rate_per_second * t rows start in t seconds. Rows without a key have no limit per key.
    Rows that ran before a limit was set count, too. A claimed row counts against the rate even if it is released before
    its handler starts. Floors name the priorities to look at and where
    each look may begin (epoch seconds): all unordered rows due before it are gone. `from_arrival` and `from_due` are
    where the search for ordered keys begins, as in `claim_ordered`.
    """
    params = {
        **claim_params(worker, n, lease_seconds, claim_id, seen_epoch),
        "queue": check_name(queue, "queue"),
        "priorities": None if floors is None else array(list(floors)),
        "floors": None if floors is None else array(list(floors.values())),
        "from_arrival": from_arrival,
        "from_due": from_due,
    }
    return Statement("claim_limited", params, claimed_by(worker))


def pause(queue: str) -> Statement[bool]:
    """Start no more rows of this queue; jobs that run go on. False if it was paused already."""
    return Statement("pause", {"queue": check_name(queue, "queue")}, bool)


def resume(queue: str) -> Statement[bool]:
    """Let a paused queue go on. False if it was not paused."""
    return Statement("resume", {"queue": check_name(queue, "queue")}, bool)


def limit(
    queue: str,
    *,
    max_running: int | None = None,
    max_per_key: int | None = None,
    rate_per_second: float | None = None,
    burst: int | None = None,
    clear: bool = False,
) -> Statement[None]:
    """Set these limits of a queue; limits not given stay as they are, or are removed with clear.

    A rate without a burst gets a burst of one second. A lower limit stops no job: jobs that run go on, and no row
    starts until there is room.
    """
    given = (max_running, max_per_key, rate_per_second, burst)
    if given == (None, None, None, None) and not clear:
        raise BadSettings("no limit is given: name one, or clear to remove all")
    params = {**_limits(queue, max_running, max_per_key, rate_per_second, burst), "clear": clear}
    return Statement("limit", params, lambda _rows: None)


def declare_limits(
    queue: str,
    *,
    max_running: int | None = None,
    max_per_key: int | None = None,
    rate_per_second: float | None = None,
    burst: int | None = None,
) -> Statement[str]:
    """Set the limits that code declares for a queue: set, same, or kept if an operator has set others."""
    if (max_running, max_per_key, rate_per_second, burst) == (None, None, None, None):
        raise BadSettings(f"the limits of queue {queue!r} are empty: name one, e.g. max_running=4")
    params = _limits(queue, max_running, max_per_key, rate_per_second, burst)
    return Statement("declare_limits", params, lambda rows: str(rows[0][0]) if rows else "")


def _limits(
    queue: str, max_running: int | None, max_per_key: int | None, rate: float | None, burst: int | None
) -> dict[str, object]:
    """The limits as parameters, checked. A rate without a burst gets a burst of one second."""
    if burst is not None and rate is None:
        raise BadSettings(f"burst={burst} needs rate_per_second: it says how far the rate may be exceeded at once")
    _check(max_running, "max_running", 1, SLOTS_MAX, int)
    _check(max_per_key, "max_per_key", 1, SLOTS_MAX, int)
    _check(rate, "rate_per_second", RATE_MIN, RATE_MAX, (int, float))
    _check(burst, "burst", 1, RATE_MAX, int)
    return {
        "queue": check_name(queue, "queue"),
        "max_running": max_running,
        "max_per_key": max_per_key,
        "rate_per_second": rate,
        "burst": math.ceil(rate) if rate and burst is None else burst,
    }


def retain(queue: str, retention_seconds: float | None) -> Statement[None]:
    """Keep the completed and cancelled rows of a queue for so long; None: as long as the workers' setting says."""
    number = isinstance(retention_seconds, int | float) and not isinstance(retention_seconds, bool)
    if retention_seconds is not None and not (
        number and RETENTION_SECONDS_MIN <= retention_seconds <= RETENTION_SECONDS_MAX
    ):
        raise BadSettings(
            f"retention_seconds={retention_seconds!r} must be between {RETENTION_SECONDS_MIN:.0f} (an hour) "
            f"and {RETENTION_SECONDS_MAX:.0f} (ten years)"
        )
    params = {"queue": check_name(queue, "queue"), "retention_seconds": retention_seconds}
    return Statement("retain", params, lambda _rows: None)


def queues() -> Statement[list[Queue]]:
    """Every queue with a setting; all others run without limits."""
    return Statement("queues", {}, lambda rows: [Queue(*row) for row in rows])


def _check(
    value: float | None, name: str, least: float, most: int, kind: type[int] | tuple[type[int], type[float]]
) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, kind) or not (value > 0 and least <= value <= most):
        wanted = "a whole number from 1 to" if kind is int else f"from {least:g} to"
        raise BadSettings(f"{name}={value!r} must be {wanted} {most}: to stop a queue, pause it")
