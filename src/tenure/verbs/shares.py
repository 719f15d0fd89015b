"""Limits over several inboxes as each has them: a share, which goes down at once, and up when the others are down."""

from __future__ import annotations

from typing import NamedTuple

from ..model.payload import check_name
from ..model.shares import Deal, Share
from .statement import Statement


class Held(NamedTuple):
    """What one inbox has of a limit over several, which is in force there."""

    queue: str
    deal: Deal
    share: Share
    raised: bool  # it may use its whole share
    running: int

    @property
    def within(self) -> bool:
        """No more runs than its share."""
        return self.share.max_running is None or self.running <= self.share.max_running


def shares() -> Statement[list[Held]]:
    """The limits over several inboxes that are in force here."""
    return Statement(
        "shares",
        {},
        lambda rows: [
            Held(queue, Deal(said, dealt, tuple(inboxes), *whole), Share(*own), raised, running)
            for queue, said, dealt, inboxes, *whole_and_own, raised, running in rows
            for whole, own in [(whole_and_own[:3], whole_and_own[3:])]
        ],
    )


def last_said(queue: str) -> Statement[int]:
    """The number of the limit over several inboxes that came here last, in force or not; 0 if none did."""
    return Statement("last_said", {"queue": check_name(queue, "queue")}, lambda rows: int(rows[0][0]))


def take_share(queue: str, deal: Deal, inbox: str, *, joins: bool = False) -> Statement[bool]:
    """Go down to the share of this inbox, to nothing if it `joins`; False if a later deal or another limit is there."""
    share = deal.share_of(inbox)
    params = {
        "queue": check_name(queue, "queue"),
        "said": deal.said,
        "dealt": deal.dealt,
        "inboxes": list(deal.inboxes),
        "all_running": deal.max_running,
        "all_rate": deal.rate_per_second,
        "all_burst": deal.burst,
        "max_running": share.max_running,
        "rate_per_second": share.rate_per_second,
        "burst": share.burst,
        "joins": joins,
    }
    return Statement("take_share", params, lambda rows: bool(rows[0][0]))


def raise_share(queue: str, deal: Deal) -> Statement[bool]:
    """Let this inbox use its share, once all the others are within theirs; False if it was dealt anew since."""
    params = {"queue": queue, "said": deal.said, "dealt": deal.dealt}
    return Statement("raise_share", params, lambda rows: bool(rows[0][0]))
