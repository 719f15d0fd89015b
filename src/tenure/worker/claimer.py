"""The claimer: claims rows for free slots and settles attempts, on its own thread and connection.

    ┌──▶ rest: wait for news ──▶ round: read the board if it is due, settle and claim in one trip ──┐
    └───────────────────────────────────────────────────────────────────────────────────────────────┘

If many attempts have ended, it hands them to the completer, which settles them on another connection, and claims
meanwhile. What the completer gives back is settled here, like any other.
After a statement that was refused (a lock, a deadlock), what has ended is settled first and the claim is sent alone.

`settler` knows what is to be settled, `claims` what to claim, `sleep` how long to wait. Their statements are run here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..model.outcome import Release
from ..model.rows import Claimed, Settled
from ..postgres import Patience, QueueConnection
from ..postgres.runner import run, run_both
from ..verbs.fleet import set_waiting, tell
from ..verbs.questions import claimed
from .attempt import Attempt
from .chore_turns import ChoreTurns
from .claim_rule import SentClaim
from .claims import STATEMENT_SECONDS, Claims, announce, count
from .completer import Completer
from .db_thread import DbThread
from .gathering import Gathering
from .hearing import hear
from .held import HeldAttempts
from .news import GivenBack, News, Other
from .ready import Ready
from .settler import Batch, Settler
from .shared import Shared
from .sleep import Sleep
from .watchdog import Presence

BEGIN_SECONDS = 0.002  # how long it waits for what has just begun, before anything else


class Claimer(DbThread):
    """One round after another: settle the attempts that ended, and claim rows for free slots."""

    def __init__(
        self,
        shared: Shared,
        held: HeldAttempts,
        news: News,
        presence: Presence,
        claims: Claims,
        start: Callable[[list[Attempt]], None],
        turns: ChoreTurns,
    ) -> None:
        patience = Patience(statement_seconds=STATEMENT_SECONDS, lock_seconds=2, doubt_seconds=3)
        super().__init__("claimer", shared, shared.terms.url, patience)
        self._held, self._news, self._presence, self._start, self._turns = held, news, presence, start, turns
        self.claims, self.settler = claims, Settler(shared, held)
        self.completer, self._gathering = Completer(shared, held, news, patience), Gathering(held, self.settler)
        self.ready = Ready(shared.worker_id, held, claims)
        self.sleep = Sleep(shared.terms.poll_seconds)
        self.draining = False
        self._sending: list[Attempt] = []  # settled by the statement that runs now
        self._with_claim = False  # it shares its transaction with a claim
        self._to_others = False  # rows went back that another worker may start at once: it should know
        self._refused = False  # a statement was: what has ended goes first, and the claim goes alone

    # -- called from other threads

    def drain(self) -> None:
        """Claim nothing more."""
        self.draining = True
        self._news.wake()

    @property
    def unsettled(self) -> bool:
        """True if attempts are left to settle."""
        return bool(self.settler.unsettled) or self.completer.busy or not self._news.empty

    def end(self) -> None:
        """Ask the thread to return soon, and the completer with it."""
        super().end()
        self.completer.end()

    # -- the thread

    def work(self, conn: QueueConnection) -> None:
        """Round after round."""
        if self._refused:
            self._hear_all(0.0)
            self.claims.freed(self.settler.due(), time.monotonic())
            self.settler.skip_settled()
            self._settle(conn, self.settler.batches())
        self._recover(conn)
        while not self.ended.is_set():
            if self._rest(conn):
                continue
            while not self.draining and (seconds := self._gathering.seconds()) > 0:
                self._hear_all(seconds)
            self._round(conn)
            self.worked()

    def connection_lost(self) -> None:
        """A new session tells producers again whether this worker waits, and polls."""
        self._held.say_hungry(False)
        self.sleep.connection_lost()
        self.completer.connect_again()

    def statement_refused(self) -> None:
        """Perhaps a row is locked, perhaps something that a claim needs: neither may keep back the rest."""
        self.settler.turned_away(self._sending, alone=not self._with_claim)
        self._sending, self._refused = [], True
        self._turns.apart()

    def _recover(self, conn: QueueConnection) -> None:
        """A claim whose reply was lost may have claimed rows: we hold them since it was sent."""
        self.claims.reconnected()
        self._find_lost(conn)
        self.sleep.look_now()

    def _find_lost(self, conn: QueueConnection) -> None:
        for lost in self.claims.lost():
            rows = run(conn, claimed(self.shared.worker_id, lost[1].claim_id))
            self._begin(self.claims.found(lost, rows))

    # -- hearing

    def _hear_all(self, seconds: float) -> None:
        self._hear(self._news.take(seconds, self.settler.add))

    def _hear(self, found: Sequence[Other]) -> None:
        for news in found:
            if isinstance(news, GivenBack):
                self._take_back(news)
            else:
                hear(news, self.claims.rule, self.sleep, self.shared)

    def _take_back(self, batch: GivenBack) -> None:
        """Ours again, after what the completer saw."""
        self.settler.add(batch.attempts)
        if batch.answers is not None:
            self._settled(batch.attempts, batch.answers, batch.since)
        elif batch.refused:
            self.settler.turned_away(batch.attempts, alone=True)
            self._refused = True

    # -- a round

    def _round(self, conn: QueueConnection) -> None:
        at = time.monotonic()
        self.shared.garbage.look()
        if self.sleep.is_time_for_the_board(at) and not self.draining:
            self._read_board(conn, at)
        self._find_lost(conn)
        self._start(self._held.begin_ahead())
        if overdue := self._held.give_back_overdue(at):
            self.settler.add(overdue)
            self._to_others = True
        self.claims.freed(self.settler.due(), at)
        self.settler.skip_settled()
        if not self.draining:
            self.completer.relieve(self.settler)
        claim = self._next_claim(at)
        alone = self._refused or (claim is not None and claim.in_crowd)
        sent = self._settle(conn, self.settler.batches(), None if alone else claim)
        if claim is not None and not sent:
            self.claims.send(claim)
            self._received(claim, run(conn, claim.statement))
        self._settle(conn, self.settler.locked())
        if self._to_others:
            run(conn, tell("queues"))
        self._to_others = self._refused = False

    def _read_board(self, conn: QueueConnection, at: float) -> None:
        rule = self.claims.rule
        look = self.sleep.look(at, noted=rule.lanes.noted)
        asked = rule.asks(look, at)
        offers = self._turns.with_poll(conn, asked) if look.poll else run(conn, asked)
        if look.poll:
            self.claims.poll()
        self.sleep.board_was_read(at, rule.learn(offers), rule.chance() if look.poll else None)

    def _next_claim(self, at: float) -> SentClaim | None:
        if self.draining or not self._presence.trusted:
            return None
        return self.claims.next(self.settler.slots_ending, at)

    def _settle(self, conn: QueueConnection, batches: Sequence[Batch], claim: SentClaim | None = None) -> bool:
        """Settle these; the first completions and the claim share a round trip. True if the claim was sent."""
        sent = False
        for attempts, statement in batches:
            since = time.time_ns()
            self._sending, self._with_claim = attempts, False
            if claim is not None and not sent and statement.name == "complete":
                sent = self._with_claim = True
                self.claims.send(claim)
                answers, rows = run_both(conn, statement, claim.statement)
                self._received(claim, rows)
            else:
                answers = run(conn, statement)
                self.claims.freed(attempts, time.monotonic())  # no claim has seen it yet
            self._settled(attempts, answers, since)
        self._sending, self.settler.one_by_one = [], False
        return sent

    def _settled(self, attempts: list[Attempt], answers: Sequence[Settled], since: int) -> None:
        attempts, answers = self.settler.decided(attempts, answers)
        self.shared.tracing.settled(self.shared.worker_id, answers, [attempt.trace for attempt in attempts], since)
        if self.settler.answered(attempts, answers):
            self.sleep.look_soon()

    def _received(self, claim: SentClaim, rows: list[Claimed]) -> None:
        self.claims.answered(claim, rows)
        if rows or self.claims.rule.keys.more:
            self.sleep.look_soon()  # the board may show what is due next
            self._begin(self.claims.attempts(claim, rows))

    def _begin(self, attempts: list[Attempt]) -> None:
        """Start these; rows that come after a drain began are released unstarted."""
        if self.draining:
            for attempt in attempts:
                attempt.give_back(Release()) or attempt.handler_returns(Release())
            self.settler.add(attempts)
            return
        announce(self.shared, attempts)
        self._start(self._held.queue(attempts))
        count(self.shared, attempts)  # now, for the loop only wakes up meanwhile
        if self.draining:
            self.settler.add(self._held.give_back_ahead())  # a drain that began meanwhile has not seen them

    # -- between rounds

    def _rest(self, conn: QueueConnection) -> bool:
        """Wait for news, and hear it; True if all that came was a note, and its claim was sent at once."""
        if (seconds := self._rest_seconds(conn)) > 0 and self.sleep.told:
            self.ready.make()
        found = self._news.take(seconds, self.settler.add)
        claim = self.ready.take(found)
        if claim is None or self.draining or self.settler.unsettled or not self._presence.trusted:
            self._hear(found)
            return False
        self._claim_at_once(conn, claim, found)
        return True

    def _claim_at_once(self, conn: QueueConnection, claim: SentClaim, news: Sequence[Other]) -> None:
        """Who begins needs the interpreter first, and may end soon; who watches is told before."""
        self.claims.send(claim)
        try:
            rows, at = run(conn, claim.statement), time.monotonic()
        except BaseException:
            self._hear(news)  # what it says holds also if the claim was refused
            raise
        if watched := self.shared.bus.each_job or self.shared.tracing.on:
            self._learn(news, claim, rows, at)
        if rows:
            self._begin(self.claims.attempts(claim, rows))
        more = self._news.take(BEGIN_SECONDS if 0 < len(rows) < claim.n else 0.0, self.settler.add)
        if not watched:
            self._learn(news, claim, rows, at)
        self._hear(more)

    def _learn(self, news: Sequence[Other], claim: SentClaim, rows: list[Claimed], at: float) -> None:
        self._hear(news)
        self.claims.answered(claim, rows, at)

    def _rest_seconds(self, conn: QueueConnection) -> float:
        ears, at = self._presence.ears, time.monotonic()
        free, trusted, dry_until = self._held.slots_offered, self._presence.trusted, self.claims.rule.dry_until()
        self._held.say_hungry((dry_until <= at or len(self._held.ahead) > 0) and trusted and not self.draining)
        free, work = self.claims.may_claim(free, self._held.room_ahead, at) and trusted, bool(self.settler.due())
        rest = self.sleep.next(at, work=work, free=free, draining=self.draining, dry_until=dry_until, ears=ears)
        if rest.wake_us is not None:
            run(conn, set_waiting(self.shared.worker_id, waiting=rest.wake_us))
            if rest.wake_us:
                # One more board and one more poll find a row that was sent before they knew, also of a new lane.
                self.claims.rule.look_again()
                self.sleep.look_now()
            self.sleep.producers_told(rest.wake_us, ears)
        return max(0.0, min(rest.seconds, self.settler.next_at(at) - at, self._held.ahead.overdue_at() - at))
