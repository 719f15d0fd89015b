"""Schedules of the code, each planned in one of several inboxes: its home, on which all workers of these agree.

One that another inbox still has, from when there were fewer inboxes or more, rests there and goes on at its home.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from hashlib import blake2b
from typing import Any

from psycopg import Connection, Error

from ..postgres.citus_door import homes
from ..postgres.connection import soon_given_up
from ..postgres.runner import run
from ..verbs.schedules import Planned, Schedule, plan, rest, schedules
from .config import Terms
from .places import Places

Conns = Mapping[str, Connection[Any]]  # by inbox
WAITING_MAX = 20  # schedules that are told of with a heartbeat


def home_of(name: str, inboxes: Iterable[str]) -> str:
    """The inbox with the greatest weight for this name: the same for every worker, and few names move with a change."""
    return max(inboxes, key=lambda inbox: blake2b(f"{inbox}\0{name}".encode(), digest_size=8).digest())


class Homes:
    """Where each schedule is planned."""

    def __init__(self, planned: Mapping[str, Schedule], terms: Terms, places: Places) -> None:
        self._schedules, self._terms, self._urls = planned, terms, places.urls  # which may grow
        self.known: dict[str, str] = {}  # as it was when somebody last asked

    def plan_in(self, conn: Connection[Any], here: str, others: Conns) -> None:
        """Plan those whose home this inbox is; those that it has from before go to their homes."""
        if len(self._urls) == 1:
            self.known = dict.fromkeys(self._schedules, here)
            for schedule in self._schedules.values():
                run(conn, plan(schedule))
        elif self._schedules:
            self.known = self._asked()
            self._plan_among_others(conn, here, others)

    def _plan_among_others(self, conn: Connection[Any], here: str, others: Conns) -> None:
        there = _planned(conn)
        for name, schedule in self._schedules.items():
            found = there.get(name)
            if self.known[name] == here:
                before = _fetched(name, others.values()) if found is None or found.rests else None
                if before is None or not before.paused:
                    run(conn, plan(schedule, before))
            elif found is not None and not found.rests:
                _send(conn, others.get(self.known[name]), schedule, found)

    def told(self, here: Container[str]) -> dict[str, dict[str, str]]:
        """For the registry: which schedules wait, because their home is none of these inboxes, and which it is.

        That there are none is told too: what a heartbeat does not name stays as it was.
        """
        waiting = sorted((name, home) for name, home in self.known.items() if home not in here)
        return {"schedules_waiting": dict(waiting[:WAITING_MAX])} if len(self._urls) > 1 else {}

    def _asked(self) -> dict[str, str]:
        """The home of each: on Citus the inbox of its key, else the one with the greatest weight."""
        keys = {name: f"schedule:{name}" for name in self._schedules}
        if not self._terms.citus:
            return {name: home_of(key, self._urls) for name, key in keys.items()}
        for url in (self._terms.citus, *self._urls.values()):
            try:
                found = homes(soon_given_up(url), self._terms.schema, keys.values())
                return {name: found[key] for name, key in keys.items()}
            except Error as error:
                away = error
        raise away


def _planned(conn: Connection[Any]) -> dict[str, Planned]:
    return {each.name: each for each in run(conn, schedules())}


def _fetched(name: str, others: Iterable[Connection[Any]]) -> Planned | None:
    """What another inbox has of it, and rests there from now on; a paused one stays there until it is resumed."""
    before = None
    for conn in others:
        found = _planned(conn).get(name)
        if found and not found.rests and (found.paused or run(conn, rest(found))):
            before = before or found
    return before


def _send(conn: Connection[Any], home: Connection[Any] | None, schedule: Schedule, found: Planned) -> None:
    """It rests here and goes on at its home; it stays while that is away, or while it is paused."""
    if home and not found.paused and run(conn, rest(found)):
        run(home, plan(schedule, found))
