"""A post: the parts of a worker that serve one inbox, with leases, claims, chores and connections of their own.

A worker has one post, or one for each of several inboxes. They share its loop, its slots and its threads. Trouble of
one inbox stays in its post.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from psycopg.errors import InsufficientPrivilege

from ..app.chore import Chore
from ..app.inbox import Inbox
from ..errors import BadSettings, SchemaMismatch, same_place
from ..events import ChoreFailed, DatabaseUnreachable, WorkerStarted
from ..model.jitter import Pace
from ..model.outcome import Release
from ..model.rows import Worker
from ..postgres import handoff, migrate
from ..postgres.connection import QueueConnection, connect, soon_given_up
from ..postgres.handler_pool import HandlerPool
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..postgres.sqlstates import trouble_of
from ..verbs.citus_ranges import waiting_ranges
from ..verbs.fleet import add_chore
from ..verbs.kinds import declare
from ..verbs.questions import place
from ..verbs.schedules import schedules
from ..verbs.shares import shares
from ..verbs.statement import Statement
from . import dealing, homes
from .attempt import State
from .chore_turns import ChoreTurns
from .claimer import Claimer
from .claims import Claims
from .dealing import Dealer
from .held import HeldAttempts
from .homes import Homes
from .housekeeping import Housekeeper
from .lease_keeper import LeaseKeeper
from .news import News
from .places import Places
from .pools import Pools
from .shared import Shared
from .slots import Slots
from .watchdog import Watchdog

LOOK_SECONDS = 4.0  # an inbox that has said nothing by then is away, and the others begin
# What is done is more than these questions.
ADOPTING = Chore(handoff.CHORE, handoff.SECONDS, waiting_ranges)
DEALING = Chore(dealing.CHORE, dealing.SECONDS, shares)
MOVING = Chore(homes.CHORE, homes.SECONDS, schedules)


class Among(NamedTuple):
    """What a post knows of the others."""

    places: Places
    homes: Homes
    dealer: Dealer


class Post:
    """Wired here, once; `begin` prepares the inbox, `start` starts the threads."""

    def __init__(
        self, inbox: Inbox, shared: Shared, slots: Slots, metadata: Callable[[Post], Mapping[str, Any]], among: Among
    ) -> None:
        self.inbox, self.shared, self.terms, self._among = inbox, shared, shared.terms, among
        self.begun = False  # its inbox is prepared
        self.held, self.news = HeldAttempts(shared.bus, slots), News()
        self.held.nudge = self.news.nudge
        self.connections = HandlerPool(self.terms.url, slots.most)
        self.pools = Pools(shared, self.held, self.news, self.connections)
        self.lease_keeper = LeaseKeeper(shared, self.held, self.news, lambda: metadata(self), self._seen)
        claims = Claims(shared, self.held, inbox.handlers, self.connections)
        self._chores, own = {**inbox.chores}, {}
        if self.terms.citus:
            self._chores[handoff.CHORE] = ADOPTING
        if self.terms.inbox:
            self._chores[dealing.CHORE] = DEALING
            own[dealing.CHORE] = partial(among.dealer.tend, here=self.terms.inbox)
        if self.terms.inbox and inbox.schedules:
            self._chores[homes.CHORE] = MOVING
            own[homes.CHORE] = partial(among.homes.tend, here=self.terms.inbox)
        turns = ChoreTurns(shared, lambda: len(self.lease_keeper.ring.workers), self._chores)
        parts = (shared, self.held, self.news, self.lease_keeper, claims, self.pools.start, turns)
        self.claimer = Claimer(*parts)
        self.housekeeper = Housekeeper(shared, self.news, turns, self._declaration, self._chores, own)
        self.watchdog = Watchdog(shared, self.held, self.lease_keeper)
        self._ended = threading.Event()

    # -- the beginning

    def look(self) -> str:
        """Which database it is, if its schema is right, and we may write there; nothing is changed."""
        with self._connected(soon_given_up(self.terms.url), LOOK_SECONDS) as conn:
            migrate.require(conn, self.terms.schema)
            with conn.transaction(force_rollback=True):
                self._among.homes.rehearse(conn)
                self._prepare(conn)
            return run(conn, place())

    def begin(self, statement_seconds: float = 30) -> None:
        """Prepare the inbox: its schedules, its chores, what producers should know."""
        with self._connected(self.terms.url, statement_seconds) as conn:
            migrate.require(conn, self.terms.schema)
            self._among.places.check(self.terms.inbox, run(conn, place()))
            with self._among.places.others(self.terms.inbox) as others:
                self._among.dealer.join(conn, self.terms.inbox, others)
                self._among.homes.plan_in(conn, self.terms.inbox, others)
            self._prepare(conn)
            self._declare(conn)
        self.begun = True

    def _connected(self, url: str, statement_seconds: float) -> QueueConnection:
        patience = Patience(statement_seconds=statement_seconds)
        return connect(url, patience=patience, schema=self.terms.schema, writes=True)

    def _prepare(self, conn: QueueConnection) -> None:
        for chore in self._chores.values():
            run(conn, add_chore(chore.name, chore.seconds))
        for statement in self.inbox.at_start:
            run(conn, statement)

    def _seen(self, alive: list[Worker]) -> None:
        self._among.homes.saw(self.terms.inbox, alive)

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handlers run on this loop."""
        self.pools.open(loop)

    def start(self) -> None:
        """Start the threads."""
        self.shared.bus.emit(WorkerStarted(self.shared.worker_id, ",".join(self.terms.queues), self.terms.slots))
        for thread in (self.watchdog, self.lease_keeper, self.claimer, self.housekeeper):
            thread.start()

    def start_later(self, error: Exception) -> None:
        """Its database is away: begin when it is there, and let the others work meanwhile."""
        self.tell_away(error)
        threading.Thread(target=self._begin_in_time, name="tenure-post", daemon=True).start()

    def _begin_in_time(self) -> None:
        pace, told = Pace(), False
        while not self._ended.wait(pace.next(random.random())):  # noqa: S311
            try:
                self.begin()
            except (SchemaMismatch, BadSettings, InsufficientPrivilege) as error:
                # Somebody mends it: the others need not stop for that.
                told = told or self.tell_away(error)
            except Exception as error:
                if trouble_of(error) == "bug":
                    self.shared.failed(error)
                    return
            else:
                self.start()
                return

    def tell_away(self, error: Exception) -> bool:
        """Say why it is not served; True."""
        said = " ".join(str(error).split())[:300]
        self.shared.bus.emit(DatabaseUnreachable(self.shared.worker_id, "post", said, type(error).__name__))
        return True

    # -- the end

    def drain(self) -> None:
        """Claim no more, and let others have our buckets."""
        self._ended.set()
        self.claimer.drain()
        self.pools.drain()
        self.lease_keeper.drain()
        self.housekeeper.end()

    @property
    def connected(self) -> bool:
        """True while it can claim and keep leases."""
        return self.claimer.connected and self.lease_keeper.connected

    @property
    def away(self) -> bool:
        """True while its database does not answer."""
        return not self.begun or self.lease_keeper.away

    @property
    def idle(self) -> bool:
        """True if nothing runs and nothing is left to settle; nobody waits for an inbox that has nothing of ours."""
        return not self.held.slots_used and (not self.claimer.unsettled or self._empty_handed)

    @property
    def _empty_handed(self) -> bool:
        """True if it holds no row, not by a lost reply either, and comes to hold none: its database does not answer."""
        return not self.held.all() and not self.claimer.connected and not self.claimer.claims.in_doubt

    @property
    def left(self) -> int:
        """How many rows are neither settled nor released."""
        return sum(1 for attempt in self.held.all() if not attempt.settled)

    def ask_to_stop(self) -> None:
        """Stop handlers that still run."""
        for attempt in self.held.all():
            if attempt.state is State.RUNNING:
                attempt.lose("drained")
                attempt.ask_to_stop()

    def give_back(self) -> None:
        """Release what is still held, even if its handler does not stop; no attempt counts."""
        for attempt in self.held.all():
            self.pools.let_go(attempt, Release("its worker was stopped"))

    def leave(self) -> None:
        """Leave the registry if nothing is left."""
        if not self.left:
            self.lease_keeper.leave()

    @property
    def leaving(self) -> bool:
        """True while the last words are being said."""
        speakers = (self.lease_keeper, self.housekeeper) if self.terms.inbox else (self.lease_keeper,)
        return not self.left and any(not each.away and each.is_alive() for each in speakers)

    def end(self) -> None:
        """Stop all threads."""
        self._ended.set()
        self.pools.close()
        for thread in (self.housekeeper, self.claimer, self.lease_keeper, self.watchdog):
            thread.end()
        self.news.wake()

    # -- what producers should know

    def _declare(self, conn: QueueConnection) -> None:
        """Without the right to it, of roles from before, it works all the same."""
        try:
            run(conn, self._declaration())
        except InsufficientPrivilege as error:
            step = f"the owner runs `{same_place('tenure migrate --roles', self.terms.schema)}`"
            why = "until then psql and other languages do not know how its kinds are sent"
            told = f"{error.diag.message_primary}: {step}; {why}"
            self.shared.bus.emit(ChoreFailed(self.shared.worker_id, "declare", told))

    def _declaration(self) -> Statement[int]:
        """What producers that cannot import the handlers should know of them."""
        return declare(self.shared.worker_id, self.inbox.declarations)
