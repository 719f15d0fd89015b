"""The course of the failover drill: load, a stuck standby, a killed primary, a promotion, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..stage.actor import DrillFailed
from ..stage.said import Said
from ..stage.scene import TROUBLE, in_a_line
from ..stage.verdict import Verdict
from .judge import WITHIN_SECONDS, Failover, checks, checks_of_control, epoch_at_work, judge, settled, watch
from .load import Load, furnish
from .pair import Pair

SCHEMA = "tenure"
BEFORE = (60, 5)  # rows acknowledged and rows claimed in each round before anything happens
STUCK = (30, 12)  # and without a synchronous standby, while the other server no longer follows
STUCK_SECONDS = 0.5
ON_ITS_WAY_SECONDS = 0.1  # what was sent so shortly after the standby was cut off may have reached it
WAIT_SECONDS_MAX = 60.0
SHOWN = "nothing acknowledged was lost"
SHOWN_CONTROL = "acknowledged rows are lost"


def perform(
    tell: Callable[[Said], None], *, times: int = 1, synchronous: bool = True, within: float = WITHIN_SECONDS
) -> Verdict:
    """Play it on two servers of its own, so many promotions in a row, and leave nothing behind."""
    began, seen, twice, trouble = time.monotonic(), list[Failover](), 0, None
    try:
        with Pair(synchronous=synchronous) as pair:
            pair.start()
            furnish(pair.url, SCHEMA)
            with Load(pair.url, SCHEMA, tell) as load:
                for n in range(1, times + 1):
                    load.say("drill", "step", step=n, of=times, caption=_caption(n, times, synchronous=synchronous))
                    seen.append(_round(pair, load, synchronous=synchronous))
                load.hush()
                twice = settled(load)
    except TROUBLE as error:
        trouble = in_a_line(error)
    shown = SHOWN if synchronous else SHOWN_CONTROL
    found = () if trouble else checks(seen, twice, within) if synchronous else checks_of_control(seen, twice)
    return Verdict("failover", shown, found, time.monotonic() - began, trouble)


def _caption(n: int, times: int, *, synchronous: bool) -> str:
    which = f"Promotion {n} of {times}: t" if times > 1 else "T"
    how = "waits for" if synchronous else "does not wait for"
    return f"{which}he primary {how} its standby, is cut off from it, and dies."


def _round(pair: Pair, load: Load, *, synchronous: bool) -> Failover:
    """One promotion, from a standby that follows to workers that work again."""
    pair.join()
    load.stock()
    load.say("drill", "standby_joined", how="synchronous" if synchronous else "asynchronous")
    before = epoch_at_work(load)
    wait(load, *BEFORE)
    pair.stall()
    stalled = time.monotonic()
    load.say("drill", "standby_stalled")
    wait(load, *(STUCK if not synchronous else (0, 0)))
    time.sleep(STUCK_SECONDS if synchronous else 0.0)
    load.say("drill", "primary_killed", pid=pair.kill())
    failover = Failover(time.monotonic(), before)
    pair.promote()
    load.say("drill", "standby_promoted", seconds=time.monotonic() - failover.at)
    watch(load, failover)
    failover.silent_acks = sum(stalled + ON_ITS_WAY_SECONDS < ack.sent < failover.at for ack in list(load.acks))
    judge(load, failover)
    load.say(
        "drill", "failover_judged", lost=failover.lost, acknowledged=failover.acknowledged,
        gap_seconds=failover.gap_seconds, back_seconds=max(failover.back_seconds.values()), epoch=failover.epoch,
    )  # fmt: skip
    return failover


def wait(load: Load, rows: int, claims: int) -> None:
    """Until so many more rows were acknowledged and claimed."""
    acks, leases, by = len(load.acks) + rows, len(load.leases) + claims, time.monotonic() + WAIT_SECONDS_MAX
    while len(load.acks) < acks or len(load.leases) < leases:
        load.check_workers()
        if time.monotonic() > by:
            raise DrillFailed(f"the load came to a halt: {len(load.acks)} of {acks} rows were acknowledged")
        time.sleep(0.02)
