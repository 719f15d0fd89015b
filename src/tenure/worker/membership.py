"""This worker as the fleet sees it: its row in the registry, its presence, its place on the ring.

             register            appear                    leave
    unknown ──────────▶ known ──────────▶ present ─────────────────▶ gone
                          ▲                  │
                          │ a new id         │ declared dead: the session was away for too long
                          └──────────────────┘

Behind a pooler no session can be kept: such a worker stays `known`, and its heartbeat alone shows that it is alive.
A draining worker is still present; it has left the ring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..errors import WorkerEvicted
from ..events import RingChanged
from ..model.ring import Ring, moved, rings_of
from ..model.rows import Worker
from ..postgres.connection import QueueConnection
from ..postgres.runner import run, run_both
from ..postgres.sqlstates import trouble_of
from ..verbs.fleet import appear, drain, heartbeat, leave, register, tell
from ..verbs.questions import live_workers, ping
from ..verbs.statement import Statement
from .config import new_worker_id
from .held import HeldAttempts
from .news import News
from .shared import Shared


class Membership:
    """Used by the lease keeper's thread alone; other threads only read `ring`, `trusted` and `trusted_until`."""

    def __init__(
        self,
        shared: Shared,
        held: HeldAttempts,
        news: News,
        metadata: Callable[[], Mapping[str, Any]],
        saw: Callable[[list[Worker]], None],
    ) -> None:
        self._shared, self._held, self._news, self._metadata, self._saw = shared, held, news, metadata, saw
        self.ring = Ring(())
        self.trusted_until = float("inf")  # until then nobody can have ended our leases because we seemed gone
        self.present = False
        self._entered = False
        self._registered = ""

    @property
    def trusted(self) -> bool:
        """True while our leases can be relied on: nobody can be about to end them because we seem gone."""
        return self._entered and time.monotonic() < self.trusted_until

    def enter(self, conn: QueueConnection) -> None:
        """Be in the registry, and be present if this connection keeps a session."""
        if self._registered != self._shared.worker_id:
            self._register(conn)
            run(conn, tell("ring"))
        if not conn.pooled:
            self._appear(conn)
        # From now on we may claim. A row claimed earlier would wait for the end of its lease if we were killed.
        self._entered = True

    def _register(self, conn: QueueConnection) -> None:
        # Remembered before it is sent: an id is used once. If the reply is lost, `appear` shows whether it worked.
        self._registered = self._shared.worker_id
        run(conn, register(self._shared.worker_id, self._metadata()))

    def _appear(self, conn: QueueConnection) -> None:
        sent = time.monotonic()
        self._or_anew(conn, lambda: run(conn, appear(self._shared.worker_id)))
        self.present = True
        self.answered(sent)

    def _or_anew(self, conn: QueueConnection, say: Callable[[], str]) -> None:
        """Run it. If we were declared dead, register under a new id; what the old id held is lost."""
        try:
            if say() == "draining":
                self._shared.drain()
        except WorkerEvicted:
            for attempt in self._held.leased():
                self._held.lose(attempt, "presence_lost", self._shared.worker_id)
            self._shared.worker_id = new_worker_id(self._shared.terms)
            self._register(conn)
            if self.present or not conn.pooled:
                run(conn, appear(self._shared.worker_id))
            run(conn, tell("ring"))

    # -- whether our leases can be relied on

    def answered(self, sent: float) -> None:
        """The session answered a statement sent at this time: until then nobody can have missed us."""
        if self.present:
            self.trusted_until = sent + self._shared.terms.grace_seconds / 2

    def holding_since(self, at: float) -> None:
        """Rows are held: from now on the session must answer within half the grace."""
        if self.present:
            self.trusted_until = min(self.trusted_until, at + self._shared.terms.grace_seconds / 2)

    def holding_nothing(self) -> None:
        """No row is held: nothing can be lost."""
        if self.present:
            self.trusted_until = float("inf")

    # -- what is said regularly

    def beat(self, conn: QueueConnection, at: float) -> None:
        """Say that we are alive, and read who is. If our row is locked, that is an answer too: the session works."""
        try:
            self._or_anew(conn, lambda: self._beat_and_look(conn))
        except Exception as error:
            if trouble_of(error) != "again":
                raise
            self.look_round(conn)
        self.answered(at)

    def _beat_and_look(self, conn: QueueConnection) -> str:
        beat = heartbeat(self._shared.worker_id, self._metadata())
        status, alive = run_both(conn, beat, live_workers(ttl_seconds=self._shared.terms.ttl_seconds))
        self._seen(alive)
        return status

    def ping(self, conn: QueueConnection, at: float) -> None:
        """Ask for any answer, to learn that the session works."""
        run(conn, ping())
        self.answered(at)

    def look_round(self, conn: QueueConnection) -> None:
        """Read who is alive."""
        self._seen(run(conn, live_workers(ttl_seconds=self._shared.terms.ttl_seconds)))

    def _seen(self, alive: list[Worker]) -> None:
        """Tell the claimer if the ring has changed."""
        self._saw(alive)
        terms, us = self._shared.terms, self._shared.worker_id
        ring = rings_of(alive).get(tuple(sorted(terms.queues)), Ring(()))
        if ring != self.ring:
            before, self.ring = self.ring, ring
            ours = ring.buckets_of(us)
            self._shared.bus.emit(RingChanged(us, len(ring.workers), len(ours), moved(before, ring)))
            self._news.own(ours if len(ring.workers) > 1 else None)

    # -- the end

    def drain(self, conn: QueueConnection) -> None:
        """Leave the ring: the others take over our buckets."""
        self._say(conn, drain(self._shared.worker_id))

    def leave(self, conn: QueueConnection) -> None:
        """Leave the registry. No heartbeat may follow: it would bring us back under another id."""
        self._say(conn, leave(self._shared.worker_id))

    def _say(self, conn: QueueConnection, statement: Statement[Any]) -> None:
        with suppress(WorkerEvicted):  # out of the registry already
            run(conn, statement)
            run(conn, tell("ring"))
