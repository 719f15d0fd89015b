"""Schedules of the code, each planned in one of several inboxes: its home, on which all workers of these agree.

One that another inbox still has, from when there were fewer inboxes or more, rests there and goes on at its home.

             a worker starts with a list without this inbox     one of the old list, which serves both, moves them
fires here ───────────────────────────────────────────▶ leaving ─────────────────────────────────▶ fires at its new home
                                                                                                          ▲
         awaited by the workers of the new list, who do not know what the old home has fired ─────────────┘
                                              no living worker serves the old home, and so it fires nothing
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from psycopg import Connection, Error

from ..model.rows import Worker
from ..postgres.citus_door import homes
from ..postgres.connection import soon_given_up
from ..postgres.runner import run
from ..verbs.questions import clock, live_workers
from ..verbs.schedules import Planned, Schedule, plan, rest, schedules
from .config import Terms
from .lists import Lists
from .places import Places

Conns = Mapping[str, Connection[Any]]  # by inbox
WAITING_MAX = 20  # schedules that are told of with a heartbeat
NAMES_MAX = 300  # who has more tells none, and counts as having any
TRIES = 3  # of a move: who fires in between has another next tick
CHORE, SECONDS = "inboxes:schedules", 2.0


def home_of(name: str, inboxes: Iterable[str]) -> str:
    """The inbox with the greatest weight for this name: the same for every worker, and few names move with a change."""
    return max(inboxes, key=lambda inbox: blake2b(f"{inbox}\0{name}".encode(), digest_size=8).digest())


class Homes:
    """Where each schedule is planned."""

    def __init__(self, planned: Mapping[str, Schedule], terms: Terms, places: Places) -> None:
        self._schedules, self._terms, self._places = planned, terms, places
        self._urls = places.urls  # which may grow
        self._lists = Lists()
        self.known: dict[str, str] = {}  # as it was when somebody last asked
        self._awaited: dict[str, datetime] = {}  # fired in an inbox that is not on our list; until when at least
        # Paused in another inbox: no round looks for them, but the next worker that starts does.
        self._paused: set[str] = set()
        self._unsure: set[str] = set()  # inboxes whose schedules may have moved: there were other lists

    def rehearse(self, conn: Connection[Any]) -> None:
        """Plan one, in a transaction that is rolled back: a role that may not is found before anything is changed."""
        for schedule in list(self._schedules.values())[:1]:
            run(conn, plan(schedule))

    def plan_in(self, conn: Connection[Any], here: str, others: Conns) -> None:
        """Plan those whose home this inbox is; those that it has from before go to their homes."""
        if not self._terms.shards:  # one database, without a name and so without a list
            self.known = dict.fromkeys(self._schedules, here)
            for schedule in self._schedules.values():
                run(conn, plan(schedule))
        elif self._schedules:
            self.known = self._asked(self._urls)
            for inbox, each in {here: conn, **others}.items():
                alive = run(each, live_workers(ttl_seconds=self._terms.ttl_seconds))
                self.saw(inbox, alive)
            self._plan_among_others(conn, here, others)

    def _plan_among_others(self, conn: Connection[Any], here: str, others: Conns) -> None:
        firing, elsewhere = _firing(conn), {name for each in others.values() for name in _firing(each)}
        for name, schedule in self._schedules.items():
            home = self.known[name]
            if home == here and name in firing and name not in elsewhere:
                run(conn, plan(schedule))
            elif home == here:
                self._go_on(conn, schedule, list(others.values()))
            elif home in others and name in firing:
                self._go_on(others[home], schedule, [conn])

    def _go_on(self, home: Connection[Any], schedule: Schedule, others: Sequence[Connection[Any]]) -> bool:
        """Plan it in its home, and let it rest in the others; one that is paused in another stays there.

        It goes on with the latest tick that any of them has next: what another inbox has fired since is not fired
        again. While it changes hands it rests everywhere: whoever is stopped in between has no tick fired twice. If it
        fires in this very moment it is looked at again. False if it is not planned there.
        """
        taken: list[Planned] = []
        for _ in range(TRIES):
            found = _firing(home).get(schedule.name)
            elsewhere = [(conn, each) for conn in others if (each := _firing(conn).get(schedule.name))]
            if not found and not taken and any(each.paused for _, each in elsewhere):
                self._paused.add(schedule.name)
                return False
            moving = [(conn, each) for conn, each in elsewhere if not each.paused]
            if found and (elsewhere or taken):
                moving = [(home, found), *moving]
            rested = [each for conn, each in moving if run(conn, rest(each))]
            taken += rested
            if len(rested) == len(moving):
                return self._plan_after(home, schedule, [*taken, *([found] if found else [])])
        self._unsure.update(self._urls)  # the next round looks again
        return False

    def _plan_after(self, home: Connection[Any], schedule: Schedule, had: Sequence[Planned]) -> bool:
        """Plan it as it was in these inboxes; False if it is awaited."""
        before = max(had, key=lambda each: each.next_at, default=None)
        if before is None and self._may_fire_beyond(schedule.name):
            self._awaited[schedule.name] = run(home, clock())
            return False
        run(home, plan(schedule, before, self._fired_until(home, schedule.name)))
        return True

    def _fired_until(self, home: Connection[Any], name: str) -> datetime | None:
        """Until when others may have fired what we awaited: they are gone, but only since they did not count as alive.

        Who is killed counts as alive for some time, in which another worker may have had every turn of this chore.
        """
        awaited = self._awaited.pop(name, None)
        return awaited and max(awaited, run(home, clock()) - timedelta(seconds=self._terms.grace_seconds))

    # -- while there are workers with other lists

    def saw(self, inbox: str, alive: Sequence[Worker]) -> None:
        """These workers are alive in this inbox."""
        self._lists.saw(inbox, alive)
        if self._lists.beyond(self._urls, self._schedules):
            self._unsure.update(self._urls)

    def tend(self, conn: Connection[Any], here: str) -> str:
        """One round: what has a newest list without this inbox leaves it; what was awaited begins."""
        by_list: dict[frozenset[str], set[str]] = {}
        for name in self._schedules:
            by_list.setdefault(self._lists.newest(self._urls, name), set()).add(name)
        said = [self._give_up(conn, here, told, names) for told, names in by_list.items() if here not in told]
        if here in self._unsure:
            said.append(self._begin_awaited(conn, here, by_list.get(frozenset(self._urls), set())))
        return "; ".join(filter(None, said))

    def _give_up(self, conn: Connection[Any], here: str, newest: Collection[str], names: Container[str]) -> str:
        """What fires here goes to its home by the newest list; if we do not serve that, to one that those workers do.

        They take it from there.
        """
        leaving = [name for name, each in _firing(conn).items() if name in names and not each.paused]
        if not leaving:
            return ""
        wanted = self._asked(newest)
        with self._places.others(here) as others:
            near = [inbox for inbox in sorted(others) if inbox in newest]
            for name in leaving if near else ():
                home = wanted[name] if wanted[name] in near else near[0]
                self._go_on(others[home], self._schedules[name], [conn])
        return f"{', '.join(leaving)}: given to {', '.join(near)}" if near else ""

    def _begin_awaited(self, conn: Connection[Any], here: str, names: Container[str]) -> str:
        """Fetch what was given to another inbox of ours; begin with what no living worker can fire elsewhere."""
        there = _firing(conn)
        ours = [each for name, each in self._schedules.items() if name in names and self.known.get(name) == here]
        for schedule in ours:  # a worker of the old list has planned it as its own code says
            if schedule.name in there and schedule.name in self._awaited:
                del self._awaited[schedule.name]
                run(conn, plan(schedule))
        missing = [each for each in ours if each.name not in there and each.name not in self._paused]
        begun = []
        if missing:
            with self._places.others(here) as others:
                begun = [each.name for each in missing if self._go_on(conn, each, list(others.values()))]
        elif not self._lists.beyond(self._urls, self._schedules):
            self._unsure.discard(here)
        return ", ".join(begun)

    def _may_fire_beyond(self, name: str) -> bool:
        """Does a living worker that has it serve an inbox that we do not, where it may be planned?"""
        beyond = self._lists.beyond(self._urls, [name])
        if self._terms.citus:
            return bool(beyond)
        return any(home_of(f"schedule:{name}", told) not in self._urls for told in beyond)

    # -- which home it is

    def told(self, here: Container[str]) -> dict[str, object]:
        """For the registry: the schedules we have, and which wait, because their home is none of these inboxes.

        That none waits is told too: what a heartbeat does not name stays as it was.
        """
        if not self._terms.shards:
            return {}
        waiting = sorted((name, home) for name, home in self.known.items() if home not in here)
        told = sorted(self._schedules) if len(self._schedules) <= NAMES_MAX else None
        return {"schedules_waiting": dict(waiting[:WAITING_MAX]), "schedules": told}

    def _asked(self, inboxes: Collection[str]) -> dict[str, str]:
        """The home of each: on Citus the inbox of its key, else the one of these with the greatest weight."""
        keys = {name: f"schedule:{name}" for name in self._schedules}
        if not self._terms.citus:
            return {name: home_of(key, inboxes) for name, key in keys.items()}
        for url in (self._terms.citus, *self._urls.values()):
            try:
                found = homes(soon_given_up(url), self._terms.schema, keys.values())
                return {name: found[key] for name, key in keys.items()}
            except Error as error:
                away = error
        raise away


def _firing(conn: Connection[Any]) -> dict[str, Planned]:
    """The schedules that this inbox has and that do not rest there."""
    return {each.name: each for each in run(conn, schedules()) if not each.rests}
