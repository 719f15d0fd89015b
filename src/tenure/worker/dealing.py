"""Deals out the limits over several inboxes: lowered before raised, so that together they never run more than was said.

dealt among others ──▶ every inbox takes its share: down at once ──▶ all run no more than that ──▶ those below go up

An inbox goes up only if all inboxes of the same deal were seen within their shares. Nobody goes above its share, so two
who deal at once do no harm; and whoever does not answer keeps the others down.

A limit that was said and did not come to all inboxes that it names is not dealt among others: its command failed in the
middle, and whoever said it says it again. Only who serves all of those inboxes brings it to the rest of them: another
one could lower them, and never raise them. `dealt` is 0 until it is known that all have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from psycopg import Connection

from ..model.shares import Deal
from ..postgres.runner import run
from ..verbs.questions import workers
from ..verbs.shares import Held, raise_share, shares, take_share
from .places import Places

CHORE, SECONDS = "inboxes:limits", 5.0
Conns = Mapping[str, Connection[Any]]
Seen = dict[str, dict[str, Held]]  # by inbox and queue


class Dealer:
    """Knows all inboxes of a worker or a command."""

    def __init__(self, places: Places) -> None:
        self._places, self._urls = places, places.urls  # which may grow

    def join(self, conn: Connection[Any], here: str, others: Conns) -> None:
        """Before an inbox is served: take its share of what was dealt meanwhile, and nothing of what is new here."""
        if not others:
            return
        seen = _seen({here: conn, **others})
        for queue, latest in _latest(seen).items():
            is_ours = here in latest.inboxes and self._serves_all(latest)
            if not is_ours and not _taken_by_all(seen, queue, latest):
                continue
            deal = latest if here in latest.inboxes else latest.among({*latest.inboxes, *self._urls})
            mine = _deal_of(seen, here, queue)
            if mine is None or mine[:2] < deal[:2]:
                run(conn, take_share(queue, deal, here, joins=mine is None))

    def tend(self, conn: Connection[Any], here: str) -> str:
        """One round, if something is left to do for the limits of this inbox; what was done."""
        mine = {each.queue: each for each in run(conn, shares())}
        if all(each.raised and self._is_settled(each.deal) for each in mine.values()):
            return ""
        with self._places.others(here) as others:
            conns = {here: conn, **others}
            dealt = [self._deal(queue, conns, lambda: self._agreed(conn)) for queue in mine]
        return ", ".join(filter(None, dealt))

    def _deal(self, queue: str, conns: Conns, agreed: Callable[[], bool]) -> str:
        """Lower, then raise; what was done to this queue."""
        seen = _seen(conns)
        latest = _latest(seen)[queue]
        wanted = latest
        if _taken_by_all(seen, queue, latest):
            wanted = self._among_present(latest, _two_lists(seen, queue, latest), agreed)
        elif not self._serves_all(latest):
            return ""
        behind = [inbox for inbox in wanted.inboxes if inbox in conns and _deal_of(seen, inbox, queue) != wanted]
        for inbox in behind:
            run(conns[inbox], take_share(queue, wanted, inbox, joins=queue not in seen[inbox]))
        held = {inbox: _seen({inbox: conns[inbox]})[inbox].get(queue) for inbox in wanted.inboxes if inbox in conns}
        if not may_raise(wanted, held):
            return f"{queue}: lowered in {', '.join(behind)}" if behind else ""
        up = [inbox for inbox, each in held.items() if each and not each.raised]
        raised = [inbox for inbox in up if run(conns[inbox], raise_share(queue, wanted))]
        return f"{queue}: raised in {', '.join(raised)}" if raised else ""

    def _among_present(self, latest: Deal, two_lists: bool, agreed: Callable[[], bool]) -> Deal:
        """Dealt anew if there are others; without one that is gone only if no worker serves that any more."""
        if self._is_settled(latest) and not two_lists:
            return latest
        gone = set(latest.inboxes) - set(self._urls)
        if not gone or agreed():
            return latest.among(self._urls)
        return latest

    def _serves_all(self, deal: Deal) -> bool:
        """Do we have all inboxes that it names?"""
        return set(deal.inboxes) <= set(self._urls)

    def _is_settled(self, deal: Deal) -> bool:
        """Do all know that it has come to all, and is it dealt among those that we have?"""
        return deal.dealt > 0 and set(deal.inboxes) == set(self._urls)

    def _agreed(self, conn: Connection[Any]) -> bool:
        """Do all workers of this inbox have the same inboxes?"""
        alive = [each for each in run(conn, workers()) if each.status != "dead"]
        return all(set(each.metadata.get("inboxes", ())) == set(self._urls) for each in alive)


def may_raise(wanted: Deal, held: Mapping[str, Held | None]) -> bool:
    """Has every inbox taken its share of this deal, and does none run more than that?"""
    return all((each := held.get(inbox)) and each.deal == wanted and each.within for inbox in wanted.inboxes)


def _seen(conns: Conns) -> Seen:
    return {inbox: {each.queue: each for each in run(conn, shares())} for inbox, conn in conns.items()}


def _latest(seen: Seen) -> dict[str, Deal]:
    """The latest deal of each queue."""
    found: dict[str, Deal] = {}
    for each in (held for some in seen.values() for held in some.values()):
        if each.queue not in found or each.deal[:2] > found[each.queue][:2]:
            found[each.queue] = each.deal
    return found


def _taken_by_all(seen: Seen, queue: str, latest: Deal) -> bool:
    """Did what was said come to all inboxes that it names?"""
    deals = [_deal_of(seen, inbox, queue) for inbox in latest.inboxes if inbox in seen]
    return latest.dealt > 0 or [each.said for each in deals if each] == [latest.said] * len(latest.inboxes)


def _two_lists(seen: Seen, queue: str, latest: Deal) -> bool:
    """Did two dealers deal at once, among different inboxes?"""
    deals = [each for inbox in seen if (each := _deal_of(seen, inbox, queue))]
    return any(each[:2] == latest[:2] and each != latest for each in deals)


def _deal_of(seen: Seen, inbox: str, queue: str) -> Deal | None:
    held = seen[inbox].get(queue)
    return held.deal if held else None
