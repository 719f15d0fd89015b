"""The keeper: keeps leases, presence and membership alive, and hears what the database has to tell.

On a thread and a session of its own, so that neither a handler that blocks the loop nor a slow claim can cost a lease.
What needs a session lives here and nowhere else: the advisory lock that shows this worker is there, and LISTEN.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..app.job import Job
from ..errors import WorkerEvicted
from ..events import LeasesRenewed, RingChanged, WakeupChanged
from ..model.jitter import jittered
from ..model.ring import Ring, moved, rings_of
from ..postgres.connection import Patience, QueueConnection
from ..postgres.runner import run
from ..postgres.sqlstates import trouble_of
from ..telemetry.tail import NOTE, Tailer, channel_of
from ..verbs.fleet import appear, drain, echo, heartbeat, leave, register, tell
from ..verbs.lifecycle import renew
from ..verbs.questions import channel, live_workers, ping
from .config import new_worker_id
from .db_thread import Crew, Line
from .held import Holds

TICK_SECONDS = 0.2  # the longest this thread listens before it looks at its clock
ECHO_SECONDS = 2.0  # how long a note to ourselves may take before we call the channel deaf
ECHO_EVERY_SECONDS = 30.0
PASSED_OVER_SECONDS = 0.5  # when to try again to renew a row that somebody had locked


class Keeper(Line):
    """Everything this worker must say regularly, each at its own time."""

    def __init__(self, crew: Crew, holds: Holds, metadata: Callable[[], Mapping[str, Any]]) -> None:
        silence = min(10.0, max(1.0, crew.terms.lease_seconds / 6))
        patience = Patience(silence_seconds=silence, statement_seconds=silence, lock_seconds=min(1.0, silence / 2))
        super().__init__("keeper", crew, crew.terms.session_url or crew.terms.url, patience)
        self._holds, self._metadata = holds, metadata
        self._tailer = Tailer(self._tail)
        self.on_note: Callable[[str], None] = lambda _note: None
        self.on_ring: Callable[[Ring], None] = lambda _ring: None
        self.on_drain: Callable[[], None] = lambda: None
        self.ring = Ring(())
        self.listening = False
        self.ticked_at = time.monotonic()  # for liveness: this thread goes round, whatever the database does
        self.trusted_until = float("inf")  # until when nobody can have ended our leases for want of presence
        self._present = self._entered = False
        self._registered = ""
        self._asked: list[Callable[[QueueConnection], None]] = []
        self._channel = self._private = self._echo = ""
        self._due: dict[str, float] = {}

    # -- called from other threads

    @property
    def ears(self) -> str:
        """Under which id and on which session this worker can be woken; empty while it cannot."""
        return f"{self.crew.worker} {self._private}" if self.listening else ""

    @property
    def trusted(self) -> bool:
        """Can our leases be relied on, or might somebody be about to end them for want of presence?"""
        return self._entered and time.monotonic() < self.trusted_until

    def drain(self) -> None:
        """Leave the ring: the others take over our buckets."""
        self._asked.append(lambda conn: self._say(conn, drain(self.crew.worker)))

    def leave(self) -> None:
        """Leave the registry: nothing is left to do."""
        self._asked.append(self._leave)

    # -- the thread

    def work(self, conn: QueueConnection) -> None:
        """Enter, then keep."""
        self.ticked_at = time.monotonic()
        self._enter(conn)
        while not self.ended.is_set():
            self._listen(conn)
            self._keep(conn, time.monotonic())
            self.answered()

    def cut_off(self) -> None:
        """Without a session there is no presence: it must come back within half the grace."""
        if self._present:
            self.trusted_until = min(self.trusted_until, time.monotonic() + self.crew.terms.grace_seconds / 2)
        self._hear_from("poll", "the database is away")

    def _stretch(self) -> None:
        self.ticked_at = time.monotonic()
        super()._stretch()

    def _enter(self, conn: QueueConnection) -> None:
        """Be in the registry, be present, and listen, as far as this connection allows."""
        schema = self.crew.terms.schema
        if self._registered != self.crew.worker:
            self._register(conn)
            run(conn, tell("ring"), schema)
        if not conn.pooled:
            self._appear(conn)
        self._entered = True  # a row claimed before would wait for its lease to end, should we be killed
        if conn.pooled:
            self._hear_from("poll", "a pooler stands in between: sessions cannot be kept")
        elif self.crew.terms.listen:
            self._open_ears(conn)
        self._due = dict.fromkeys(("heartbeat", "ring"), 0.0)
        self._due |= {"ping": 0.0, "echo": time.monotonic() + ECHO_EVERY_SECONDS, "renew": float("inf")}

    def _register(self, conn: QueueConnection) -> None:
        # Noted before it is sent: an id is used once, and whether a lost reply meant yes shows when we appear.
        self._registered = self.crew.worker
        run(conn, register(self.crew.worker, self._metadata()), self.crew.terms.schema)

    def _appear(self, conn: QueueConnection) -> None:
        sent = time.monotonic()
        self._or_anew(conn, lambda: run(conn, appear(self.crew.worker), self.crew.terms.schema))
        self._present = True
        self._heard(sent)

    def _heard(self, sent: float) -> None:
        """The session answered: from when we asked, nobody can have missed us for longer than since then."""
        if self._present:
            self.trusted_until = sent + self.crew.terms.grace_seconds / 2

    def _or_anew(self, conn: QueueConnection, say: Callable[[], Any]) -> None:
        """Say it; if the registry holds us for dead, register under a new id, which loses what the old one held."""
        try:
            if say() == "draining":
                self.on_drain()
        except WorkerEvicted:
            for job in self._holds.held():
                self._holds.lose(job, "presence_lost", self.crew.worker)
            self.crew.worker = new_worker_id(self.crew.terms.name)
            self._register(conn)
            if self._present or not conn.pooled:
                run(conn, appear(self.crew.worker), self.crew.terms.schema)
            run(conn, tell("ring"), self.crew.terms.schema)

    def _leave(self, conn: QueueConnection) -> None:
        """The last word: a heartbeat after it would bring us back under another id."""
        self.crew.tally.write(conn, self.crew.terms.schema, everything=True)  # nothing is held: no lease waits for it
        self._say(conn, leave(self.crew.worker))
        self.end()

    def _say(self, conn: QueueConnection, statement: Any) -> None:
        with suppress(WorkerEvicted):  # out of the registry already
            run(conn, statement, self.crew.terms.schema)
            run(conn, tell("ring"), self.crew.terms.schema)

    # -- listening

    def _open_ears(self, conn: QueueConnection) -> None:
        self._channel = run(conn, channel(), self.crew.terms.schema)
        self._private = f"{self._channel}_{secrets.token_hex(6)}"
        for name in (self._channel, self._private):
            conn.execute(f'LISTEN "{name}"'.encode())
        self._test_ears(conn)

    def _test_ears(self, conn: QueueConnection) -> None:
        """A note to ourselves that must come back: a listener that hears nothing looks just like a quiet night."""
        self._echo, sent = secrets.token_hex(4), time.monotonic()
        run(conn, echo(self._private, self._echo), self.crew.terms.schema)
        self._heard(sent)
        self._due["ping"] = 0.0  # a deaf channel must not cost the leases
        by = sent + min(ECHO_SECONDS, self.crew.terms.grace_seconds / 3)
        while self._echo and time.monotonic() < by:
            self._listen(conn, by - time.monotonic())
        if self._echo:
            self._hear_from("poll", f"a note to ourselves did not come back within {by - sent:g} s")
        else:
            self._hear_from("notify", "a note to ourselves came back")

    def _listen(self, conn: QueueConnection, seconds: float = TICK_SECONDS) -> None:
        self.ticked_at = time.monotonic()
        if not self._channel or conn.pooled:
            self.ended.wait(min(seconds, TICK_SECONDS))
            return
        bring_on = {"ring": "ring", f"cancel {self.crew.worker}": "renew", f"drain {self.crew.worker}": "heartbeat"}
        for heard in conn.notifies(timeout=min(seconds, TICK_SECONDS), stop_after=1):
            if heard.channel == self._private:
                self._echo = "" if heard.payload == self._echo else self._echo
            elif heard.payload in bring_on:
                self._due[bring_on[heard.payload]] = 0.0
            elif heard.payload == NOTE:
                self._tailer.hear(time.monotonic())
            else:
                self.on_note(heard.payload)

    def _hear_from(self, source: str, reason: str) -> None:
        if self.listening != (source == "notify"):
            self.listening = source == "notify"
            self.crew.bus.emit(WakeupChanged(self.crew.worker, source, reason))
            self.on_note("")

    def _tail(self, watched: bool) -> None:
        """Send our events to those who watch, from now on or no more."""
        (self.crew.bus.subscribe if watched else self.crew.bus.unsubscribe)(self._tailer)

    # -- keeping

    def _keep(self, conn: QueueConnection, at: float) -> None:
        """Whatever is due."""
        terms = self.crew.terms
        while self._asked:
            self._asked[0](conn)
            self._asked.pop(0)
        self._holds.drop([job for job in self._holds.held() if job.settled])
        held = self._holds.held()
        if held and self._present:
            self.trusted_until = min(self.trusted_until, at + terms.grace_seconds / 2)
        if self._due["renew"] <= at or any(job.renew_at <= at for job in held):
            self._renew(conn, at)
        elif held and self._present and self._is_due("ping", at, terms.grace_seconds / 6):
            self._ping(conn, at)
        elif not held and self._present:
            self.trusted_until, self._due["ping"] = float("inf"), 0.0
        if not self.ended.is_set() and self._is_due("heartbeat", at, terms.heartbeat_seconds):
            self._beat(conn)
            self._heard(at)
        if self._is_due("ring", at, terms.heartbeat_seconds):
            self._look_round(conn)
        for lines in self._tailer.drain(at):
            run(conn, echo(channel_of(self._channel), lines), terms.schema)
        if self._channel and not conn.pooled and self._is_due("echo", at, ECHO_EVERY_SECONDS):
            self._test_ears(conn)

    def _beat(self, conn: QueueConnection) -> None:
        """Say that we live. That our row is locked right now is an answer too: the session stands."""
        try:
            beat = heartbeat(self.crew.worker, self._metadata())
            self._or_anew(conn, lambda: run(conn, beat, self.crew.terms.schema))
        except Exception as error:
            if trouble_of(error) != "again":
                raise

    def _is_due(self, what: str, at: float, every_seconds: float) -> bool:
        if self._due[what] > at:
            return False
        self._due[what] = at + jittered(every_seconds, random.random())  # noqa: S311
        return True

    def _ping(self, conn: QueueConnection, at: float) -> None:
        run(conn, ping(), self.crew.terms.schema)
        self._heard(at)

    def _renew(self, conn: QueueConnection, at: float) -> None:
        """Extend every lease we hold in one statement; what is not kept is lost."""
        self._due["renew"] = float("inf")
        jobs = {job.claimed.token: job for job in self._holds.held() if not job.settled}
        if not jobs:
            return
        seconds = [job.lease_seconds for job in jobs.values()]
        renewed = run(conn, renew([job.lease for job in jobs.values()], lease_seconds=seconds), self.crew.terms.schema)
        for lease in renewed.kept:
            self._kept(jobs[lease.token], at)
        for lease in renewed.passed_over:
            jobs[lease.token].renew_at = at + PASSED_OVER_SECONDS
        for lease in renewed.lost:
            self._lost_one(jobs[lease.token])
        for job in jobs.values():
            if job.id in renewed.cancel_asked and not job.cancel_asked:
                job.cancel_asked = True
                if job.stop is not None:
                    job.stop()
        self._heard(at)
        self.crew.tally.renewed(len(renewed.kept))
        self.crew.bus.emit(LeasesRenewed(self.crew.worker, len(renewed.kept)))

    def _lost_one(self, job: Job) -> None:
        """No longer ours; but one whose end was on its way meanwhile is not lost, it is over, or its end is refused."""
        if job.ended or job.settling:
            self._holds.drop([job])
        else:
            self._holds.lose(job, "lease_lost", self.crew.worker)

    def _kept(self, job: Job, sent: float) -> None:
        job.deadline = sent + job.lease_seconds - self.crew.terms.margin_of(job.lease_seconds)
        job.renew_at = sent + jittered(job.lease_seconds / 3, random.random())  # noqa: S311

    def _look_round(self, conn: QueueConnection) -> None:
        """Who is there, and which buckets are ours?"""
        terms = self.crew.terms
        alive = run(conn, live_workers(ttl_seconds=terms.ttl_seconds), terms.schema)
        ring = rings_of(alive).get(tuple(sorted(terms.queues)), Ring(()))
        if ring != self.ring:
            before, self.ring = self.ring, ring
            owned = len(ring.buckets_of(self.crew.worker))
            self.crew.bus.emit(RingChanged(self.crew.worker, len(ring.workers), owned, moved(before, ring)))
            self.on_ring(ring)
