"""Claims and their replies: rows become attempts, and the rows of a lost reply are found again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..app.handler import Handler
from ..app.job import Job, JobTerms
from ..app.lent import Connections
from ..events import ClaimAnswered, LeaseAcquired, Woken
from ..model.rows import Claimed
from .attempt import Attempt, Common
from .claim_rule import ORDERED, UNORDERED, ClaimRule, SentClaim
from .held import HeldAttempts
from .shared import Shared

STATEMENT_SECONDS = 30.0  # how long a claim may run on the server after its reply was lost


class Claims:
    """Knows which claim was sent and which replies were lost; the rule decides what to claim next."""

    def __init__(
        self,
        shared: Shared,
        held: HeldAttempts,
        handlers: Mapping[str, Handler[..., ..., Any]],
        connections: Connections,
    ) -> None:
        self._shared, self._held, self._handlers, self._connections = shared, held, handlers, connections
        self.rule = ClaimRule(shared.terms.queues, shared.terms.lease_seconds)
        self._sent: SentClaim | None = None
        self._lost: list[tuple[float, SentClaim]] = []  # when to ask again for which
        self._everywhere: set[str] = set()  # sources to scan beyond our own buckets, once

    def poll(self) -> None:
        """Scan everything once: every source, and of ordered keys beyond our own buckets."""
        self._everywhere = {ORDERED}
        self.rule.look_again()
        woken(self._shared, "poll")

    def next(self, ending: int, at: float) -> SentClaim | None:
        """The claim to send for the slots that are free, and so many that will be, if there may be rows.

        Of unordered rows more, ahead. While rows wait ahead every slot goes to one of them: rows of ordered keys and of
        limited queues come before those.
        """
        room = self._held.room_ahead
        free = self._held.slots_offered + ending
        others = min(room, self._held.slots_at_most) if free <= 0 and len(self._held.ahead) else free
        claim = self.rule.next(self._shared.worker_id, free + room, at, everywhere=self._everywhere, others=others)
        if claim is None and free > 0:
            self._everywhere.clear()
        return claim

    def may_claim(self, free: int, ahead: int, at: float) -> bool:
        """True if a slot is free, or if there is room ahead and there may be rows for it."""
        return free > 0 or (free + ahead > 0 and self.rule.has_unordered(at))

    def send(self, claim: SentClaim) -> None:
        """Remember it: from now on we may hold its rows, even if the reply is lost."""
        self._sent = claim

    def answered(self, claim: SentClaim, rows: Sequence[Claimed], at: float | None = None) -> None:
        """The reply has come: now, or at this time."""
        self._sent = None
        at = time.monotonic() if at is None else at
        self.rule.answered(claim, rows, at - claim.sent)
        self._shared.tracing.claimed(self._shared.worker_id, rows, at - claim.sent)
        if self._shared.bus.each_job:
            self._shared.bus.emit(ClaimAnswered(self._shared.worker_id, len(rows), at - claim.sent))

    def reconnected(self) -> None:
        """A reply was lost with the connection: ask now, and again when the claim can no longer run on the server."""
        if self._sent is not None:
            self._lost += [(0.0, self._sent), (time.monotonic() + STATEMENT_SECONDS + 1.0, self._sent)]
            self._sent = None
        self.rule.crowd.is_thick = False  # a claim that was refused is sent as any other
        self.rule.look_again()

    @property
    def in_doubt(self) -> bool:
        """True if a claim was sent whose reply has not come: we may hold its rows."""
        return self._sent is not None or bool(self._lost)

    def lost(self) -> list[tuple[float, SentClaim]]:
        """The lost claims to ask about now."""
        at = time.monotonic()
        return [each for each in self._lost if each[0] <= at]

    def found(self, lost: tuple[float, SentClaim], rows: Sequence[Claimed]) -> list[Attempt]:
        """The attempts of a lost claim, without those we know already."""
        self._lost.remove(lost)
        known = {attempt.claimed.identity for attempt in self._held.all()}
        return self.attempts(lost[1], [row for row in rows if row.identity not in known])

    def freed(self, attempts: Sequence[Attempt], at: float) -> None:
        """The keys and permits of these are free, or will be with the statement that settles them."""
        for attempt in attempts:
            if attempt.common.source != UNORDERED:
                self.rule.ended(attempt.source, attempt.claimed.partition_bucket, at - attempt.started)

    def attempts(self, claim: SentClaim, rows: Sequence[Claimed]) -> list[Attempt]:
        """These rows as attempts, held from now on.

        Empty if their lease ended before the reply came: then no handler may start.
        """
        terms = self._shared.terms
        deadline = claim.sent + terms.lease_seconds - terms.margin_of(terms.lease_seconds)
        at = time.monotonic()
        if deadline <= at:
            return []
        self._shared.garbage.rows(len(rows))
        made = self._made(claim, rows, deadline, at)
        if claim.source == ORDERED:
            _as_runs(made)
        self._held.take(made)
        return made

    def _made(self, claim: SentClaim, rows: Sequence[Claimed], deadline: float, at: float) -> list[Attempt]:
        """What rows of one kind share is made once."""
        made = []
        kinds: dict[str, tuple[Handler[..., ..., Any] | None, JobTerms, Common]] = {}
        for row in rows:
            kind = kinds.get(row.kind)
            if kind is None:
                kind = kinds[row.kind] = self._kind(claim, row.kind, at)
            handler, terms, common = kind
            made.append(Attempt(Job(row, deadline=deadline, terms=terms), handler, common))
        return made

    def _kind(self, claim: SentClaim, kind: str, at: float) -> tuple[Handler[..., ..., Any] | None, JobTerms, Common]:
        ours, handler = self._shared.terms, self._handlers.get(kind)
        lease = {"lease_seconds": ours.lease_seconds, "renew_at": claim.sent + ours.renew_seconds}
        if handler is None:
            return None, JobTerms(self._connections, ours.schema), Common(claim.source, received=at, **lease)
        handling = handler.handling
        if handling.lease_seconds is not None:
            lease = {"lease_seconds": handling.lease_seconds, "renew_at": claim.sent}
        late = handling.late_completion == "accept"
        terms = JobTerms(self._connections, ours.schema, late, handler.tracing, handling.keep_payload, handler.seal)
        return handler, terms, Common(claim.source, received=at, **lease)


def _as_runs(attempts: Sequence[Attempt]) -> None:
    """Rows of one key stand together and in order: each begins when the one before it is completed."""
    for before, attempt in pairwise(attempts):
        row, earlier = attempt.claimed, before.claimed
        if (earlier.queue, earlier.partition_key) == (row.queue, row.partition_key):
            attempt.queue_behind(before)


def woken(shared: Shared, source: str) -> None:
    """Tell subscribers what woke this worker."""
    if shared.bus.each_job:
        shared.bus.emit(Woken(shared.worker_id, source))


def count(shared: Shared, attempts: Sequence[Attempt]) -> None:
    """Count the claimed rows in the tally."""
    shared.tally.took([attempt.job.claimed for attempt in attempts], shared.terms.lease_seconds)


def announce(shared: Shared, attempts: Sequence[Attempt]) -> None:
    """Tell subscribers of each claimed row, with how long it had waited."""
    for attempt in attempts if shared.bus.each_job else ():
        row = attempt.claimed
        waited = row.waited_seconds(shared.terms.lease_seconds)
        shared.bus.emit(LeaseAcquired(shared.worker_id, row.id, row.generation, row.kind, row.queue, waited))
