"""The lease keeper: renews leases, keeps this worker's membership alive, and hears notes.

It has its own thread and session, so that neither a handler that blocks the loop nor a slow claim can cost a lease.
Only this session has what needs one: the advisory lock that shows presence, and LISTEN.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..events import LeasesRenewed, WakeupChanged
from ..model.jitter import jittered
from ..model.ring import Ring
from ..model.rows import Worker
from ..postgres.connection import QueueConnection
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..telemetry.tail import NOTE, Tailer, channel_of
from ..verbs.fleet import echo
from ..verbs.lifecycle import renew
from .attempt import Attempt
from .db_thread import DbThread
from .ears import Ears
from .held import HeldAttempts
from .membership import Membership
from .news import News
from .shared import Shared

TICK_SECONDS = 0.2  # this thread listens at most so long, then looks at what is due
ECHO_SECONDS = 2.0  # a note to ourselves must come back within this, or we poll
ECHO_EVERY_SECONDS = 30.0
PASSED_OVER_SECONDS = 0.5  # when to renew a row again that was locked


class LeaseKeeper(DbThread):
    """Does everything that this worker must do regularly, each when it is due."""

    def __init__(
        self,
        shared: Shared,
        held: HeldAttempts,
        news: News,
        metadata: Callable[[], Mapping[str, Any]],
        saw: Callable[[list[Worker]], None] = lambda _alive: None,
    ) -> None:
        terms = shared.terms
        silence = min(10.0, max(1.0, terms.lease_seconds / 6))
        waits = {"statement_seconds": silence, "lock_seconds": min(1.0, silence / 2)}
        patience = Patience(silence_seconds=silence, doubt_seconds=min(1.0, terms.grace_seconds / 6), **waits)
        super().__init__("lease_keeper", shared, terms.session_url or terms.url, patience)
        self._held, self._news = held, news
        self._member = Membership(shared, held, news, metadata, saw)
        self._tailer = Tailer(self._tail)
        self.listening = False
        self.ticked_at = time.monotonic()  # for liveness: this loop runs, whatever the database does
        self._asked: list[Callable[[QueueConnection], None]] = []
        self._ears = Ears()
        self._due: dict[str, float] = {}

    # -- called from other threads

    @property
    def ears(self) -> str:
        """The id and session under which this worker can be woken; empty while it cannot."""
        return f"{self.shared.worker_id} {self._ears.session}" if self.listening else ""

    @property
    def ring(self) -> Ring:
        """The workers that serve the same queues, and which buckets each owns."""
        return self._member.ring

    @property
    def trusted(self) -> bool:
        """True while our leases can be relied on."""
        return self._member.trusted

    @property
    def trusted_until(self) -> float:
        """Until then nobody can have ended our leases because we seemed gone."""
        return self._member.trusted_until

    def drain(self) -> None:
        """Leave the ring: the others take over our buckets."""
        self._asked.append(self._member.drain)

    def beat_soon(self) -> None:
        """There is something to tell with a heartbeat."""
        self._due["heartbeat"] = 0.0

    def leave(self) -> None:
        """Leave the registry: nothing is left to do."""
        self._asked.append(self._leave)

    # -- the thread

    def work(self, conn: QueueConnection) -> None:
        """Become a member, then do what is due until ended."""
        self.ticked_at = time.monotonic()
        self._enter(conn)
        while not self.ended.is_set():
            self._listen(conn)
            self._keep(conn, time.monotonic())
            self.worked()

    def connection_lost(self) -> None:
        """Without a session there is no presence: it must come back within half the grace."""
        self._member.holding_since(time.monotonic())
        self._hear_from("poll", "the database is away")

    def _connect_and_work(self) -> None:
        self.ticked_at = time.monotonic()
        super()._connect_and_work()

    def _enter(self, conn: QueueConnection) -> None:
        """Be a member of the fleet, and listen, as far as this connection allows."""
        self._member.enter(conn)
        if conn.pooled:
            self._hear_from("poll", "a pooler stands in between: sessions cannot be kept")
        elif self.shared.terms.listen:
            self._open_ears(conn)
        self._due = {"heartbeat": 0.0, "ping": 0.0, "echo": time.monotonic() + ECHO_EVERY_SECONDS}
        self._due |= dict.fromkeys(("ring", "renew"), float("inf"))  # when a note says so

    def _leave(self, conn: QueueConnection) -> None:
        self.shared.tally.write(conn, everything=True)  # nothing is held: no lease waits for it
        self._member.leave(conn)
        self.end()

    # -- listening

    def _open_ears(self, conn: QueueConnection) -> None:
        self._ears.open(conn)
        self._test_ears(conn)

    def _test_ears(self, conn: QueueConnection) -> None:
        """Send a note to ourselves and wait for it; if it does not come back, rows are found by polling."""
        sent = time.monotonic()
        self._ears.send_echo(conn)
        self._member.answered(sent)
        self._due["ping"] = 0.0  # a channel that does not work must not cost leases
        by = sent + min(ECHO_SECONDS, self.shared.terms.grace_seconds / 3)
        while self._ears.echo_missing and time.monotonic() < by:
            self._listen(conn, by - time.monotonic())
        if self._ears.echo_missing:
            self._hear_from("poll", f"a note to ourselves did not come back within {by - sent:g} s")
        else:
            self._hear_from("notify", "a note to ourselves came back")

    def _listen(self, conn: QueueConnection, seconds: float = TICK_SECONDS) -> None:
        self.ticked_at = time.monotonic()
        if not self._ears.channel or conn.pooled:
            self.ended.wait(min(seconds, TICK_SECONDS))
            return
        until = self.ticked_at + min(seconds, TICK_SECONDS)
        while (left := until - time.monotonic()) > 0:
            for_claimer = [self._hear(note) for note in self._ears.notes(conn, left)]
            if not for_claimer or not all(for_claimer):  # silence, an echo, or something that is due now
                break
        if self._ears.echo_heard:
            self._hear_echo()

    def _hear_echo(self) -> None:
        """Our ears work, whoever sent it. If we thought that they do not, test them now."""
        self._ears.echo_heard = False
        every_seconds = jittered(ECHO_EVERY_SECONDS, random.random()) if self.listening else 0.0  # noqa: S311
        self._due["echo"] = time.monotonic() + every_seconds

    def _hear(self, note: str) -> bool:
        """True if it is for the claimer, who waits for the interpreter: nothing more is done here than to listen on."""
        us = self.shared.worker_id
        bring_on = {"ring": "ring", f"cancel {us}": "renew", f"drain {us}": "heartbeat"}
        if note in bring_on:
            self._due[bring_on[note]] = 0.0
        elif note == NOTE:
            self._tailer.hear(time.monotonic())
        else:
            self._news.wake(note)
            return True
        return False

    def _hear_from(self, source: str, reason: str) -> None:
        if self.listening != (source == "notify"):
            self.listening = source == "notify"
            self.shared.bus.emit(WakeupChanged(self.shared.worker_id, source, reason))
            self._news.wake("")

    def _tail(self, watched: bool) -> None:
        """Start or stop sending our events to those who watch."""
        (self.shared.bus.subscribe if watched else self.shared.bus.unsubscribe)(self._tailer)

    # -- keeping

    def _keep(self, conn: QueueConnection, at: float) -> None:
        """Do what is due."""
        terms = self.shared.terms
        while self._asked:
            self._asked[0](conn)
            self._asked.pop(0)
        self._held.drop([attempt for attempt in self._held.leased() if attempt.completed_itself])
        self._keep_leases(conn, at)
        if not self.ended.is_set() and self._is_due("heartbeat", at, terms.heartbeat_seconds):
            self._member.beat(conn, at)
        if self._is_due("ring", at, float("inf")):
            self._member.look_round(conn)
        for lines in self._tailer.drain(at):
            run(conn, echo(channel_of(self._ears.channel), lines))
        if self._ears.channel and not conn.pooled and self._is_due("echo", at, ECHO_EVERY_SECONDS):
            self._test_ears(conn)

    def _keep_leases(self, conn: QueueConnection, at: float) -> None:
        """Renew leases when they are due; between renewals, ping: the session must answer while rows are held."""
        leased = self._held.leased()
        if leased:
            self._member.holding_since(at)
        if self._due["renew"] <= at or any(attempt.renew_at <= at for attempt in leased):
            self._renew(conn, at)
        elif leased and self._member.present and self._is_due("ping", at, self.shared.terms.grace_seconds / 6):
            self._member.ping(conn, at)
        elif not leased and self._member.present:
            self._member.holding_nothing()
            self._due["ping"] = 0.0

    def _is_due(self, what: str, at: float, every_seconds: float) -> bool:
        if self._due[what] > at:
            return False
        self._due[what] = at + jittered(every_seconds, random.random())  # noqa: S311
        return True

    def _renew(self, conn: QueueConnection, at: float) -> None:
        """Extend every lease we hold in one statement; leases not kept are lost."""
        self._due["renew"] = float("inf")
        attempts = {each.claimed.identity: each for each in self._held.leased() if not each.completed_itself}
        if not attempts:
            return
        leases = [attempt.job.lease for attempt in attempts.values()]
        renewed = run(conn, renew(leases, lease_seconds=[attempt.lease_seconds for attempt in attempts.values()]))
        for lease in renewed.kept:
            self._kept(attempts[lease.identity], at)
        for lease in renewed.passed_over:
            attempts[lease.identity].renew_at = at + PASSED_OVER_SECONDS
        for lease in renewed.lost:
            self._lost_one(attempts[lease.identity])
        for attempt in attempts.values():
            if attempt.job.id in renewed.cancel_asked and not attempt.job.cancel_asked:
                attempt.job.cancel_asked = True
                attempt.ask_to_stop()
        self._member.answered(at)
        self.shared.tally.renewed(len(renewed.kept))
        self.shared.bus.emit(LeasesRenewed(self.shared.worker_id, len(renewed.kept)))

    def _lost_one(self, attempt: Attempt) -> None:
        """The lease is no longer ours. If the attempt already ended, stop tracking it: its settlement decides."""
        if attempt.ending:
            self._held.drop([attempt])
        else:
            self._held.lose(attempt, "lease_lost", self.shared.worker_id)

    def _kept(self, attempt: Attempt, sent: float) -> None:
        seconds = attempt.lease_seconds
        attempt.job.deadline = sent + seconds - self.shared.terms.margin_of(seconds)
        attempt.renew_at = sent + jittered(seconds / 3, random.random())  # noqa: S311
