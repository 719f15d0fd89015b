"""What to claim next: a rule over the board, the ring and the answers to the last claims, without a connection."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ..model.rows import Claimed, Lane, Offer
from ..verbs.lifecycle import claim, claim_ordered
from ..verbs.questions import board
from ..verbs.queues import claim_limited
from ..verbs.statement import Statement
from .crowding import Crowd
from .key_memory import NO_FLOORS, KeyMemory
from .lane_memory import LaneMemory
from .lane_turns import LaneTurns
from .news import Note
from .sleep import Look

UNORDERED, ORDERED = "\0unordered", "\0ordered"  # no queue has such a name: names contain no NUL
RUN_SECONDS = 0.5  # how long the rows of a key that are claimed together may take
RUN_MAX = 100  # how many they are at most
LIMITED_SECONDS = 0.5  # a limited queue that gave fewer rows than asked may give more after this long


@dataclass(frozen=True, slots=True)
class SentClaim:
    """One claim that was sent: enough to find its rows if the reply is lost."""

    source: str
    n: int
    claim_id: int
    sent: float
    statement: Statement[list[Claimed]]
    lanes: tuple[Lane, ...] = ()  # those it searches
    in_crowd: bool = False  # sent alone: who waits for a place must hold nothing

    def sent_at(self, at: float) -> SentClaim:
        """The same, made before and sent now."""
        return SentClaim(self.source, self.n, self.claim_id, at, self.statement, self.lanes)


@dataclass(slots=True)
class ClaimRule:
    """Sources of rows, each dry (nothing to claim) or not: unordered lanes, ordered keys, each limited queue."""

    queues: Mapping[str, float]
    lease_seconds: float
    chance: Callable[[], float] = random.random
    buckets: tuple[int, ...] | None = None  # ours on the ring; None: all of them
    seen_epoch: int = 0
    _offers: list[Offer] = field(default_factory=list)
    _sources: list[str] = field(default_factory=list)  # of these offers
    _dry: dict[str, float] = field(default_factory=dict)  # until when each source is dry
    _turn: int = 0
    _start: int = 0  # where the next scan of our buckets begins
    _freed: set[int] = field(default_factory=set)  # buckets of ordered keys that may go on
    _row_seconds: float = 1.0  # how long a row of an ordered key takes
    lanes: LaneMemory = field(default_factory=LaneMemory)
    keys: KeyMemory = field(default_factory=KeyMemory)
    crowd: Crowd = field(default_factory=Crowd)
    _turns: LaneTurns = field(init=False)

    def __post_init__(self) -> None:
        self._turns = LaneTurns(self.queues, lambda: self.chance())

    def learn(self, offers: Sequence[Offer]) -> float | None:
        """Read the board; returns the seconds until the next row is due, if the board knows one."""
        self._offers = [offer for offer in offers if offer.queue in self.queues]
        self._turns.offered(self._offers)
        self._know_sources()
        later = [o.due_seconds for o in self._offers if o.due_seconds is not None and o.due_seconds > 0]
        self.lanes.board_was_read(self._offers)
        self.keys.board_was_read(self._offers)
        for offer in self._offers:
            if offer.due_seconds is not None and offer.due_seconds <= 0:
                self._dry.pop(offer.queue if offer.limited else ORDERED if offer.ordered else UNORDERED, None)
        return min(later, default=None)

    def asks(self, look: Look, at: float) -> Statement[list[Offer]]:
        """The board to read."""
        ordered, floors = self.keys.known(poll=look.poll)
        lanes, begun = self.lanes.known(late=look.late, deep=look.deep), self.keys.asks(at)
        return board(list(self.queues), lanes, known_ordered=ordered, begun=begun, **floors._asdict())

    def look_again(self, queue: str | None = None, ordered: bool | None = None) -> None:
        """There may be rows again: no source is dry, or none of one queue, of either kind or of one."""
        if queue is None:
            self._dry.clear()
            self._turns.look_again()
            self.keys.note()
        elif queue in self.queues:
            if all(source in self._dry for source in self._sources):
                self._turn = -1  # after a rest, unordered rows first: to find no key takes longer than to find no row
            if ordered is not True:
                self.lanes.note()
                self._turns.look_again(queue)
                self._dry.pop(UNORDERED, None)
            if ordered is not False:
                self.keys.note()
                self._dry.pop(ORDERED, None)
            self._dry.pop(queue, None)
            known = [offer for offer in self._offers if offer.queue == queue]
            if not any(offer.limited or ordered in (None, offer.ordered) for offer in known):
                kinds = (False, True) if ordered is None else (ordered,)
                self._offers += [Offer(queue, 0, each, False, None) for each in kinds]
                if False in kinds:
                    self._turns.look_into(queue)
                self._know_sources()

    def ended(self, source: str, bucket: int, seconds: float = 1.0) -> None:
        """A row from this source has ended after so long: its key, or its permit, is free for the next one."""
        if source == ORDERED:
            self._freed.add(bucket)
            self._row_seconds += (seconds - self._row_seconds) / 8
        if source != UNORDERED:
            self._dry.pop(source, None)

    def own(self, buckets: tuple[int, ...] | None) -> None:
        """These buckets are ours from now on: we hear of rows in them, and claim their ordered keys first."""
        self.buckets = buckets

    def hears(self, note: Note) -> bool:
        """True if a row came to one of our buckets, or rows came to any."""
        bucket = note.bucket
        return bucket == "*" or (bucket.isdigit() and (self.buckets is None or int(bucket) in self.buckets))

    def dry_until(self) -> float:
        """Until when all sources are dry; zero if there may be rows now."""
        return min((self._dry.get(source, 0.0) for source in self._sources), default=float("inf"))

    def has_unordered(self, at: float) -> bool:
        """True if there may be unordered rows now."""
        return UNORDERED in self._sources and self._dry.get(UNORDERED, 0.0) <= at

    def next(
        self, worker: str, free: int, at: float, *, everywhere: set[str], others: int | None = None
    ) -> SentClaim | None:
        """The claim to send for so many rows, or so many others: of ordered keys, or of a limited queue.

        It looks beyond our own buckets once, if its source is in `everywhere`.
        """
        of = {source: free if source == UNORDERED or others is None else others for source in self._sources}
        wet = [source for source, n in of.items() if n > 0 and self._dry.get(source, 0.0) <= at]
        if not wet:
            return None
        self._turn += 1
        source = wet[self._turn % len(wet)]
        free = of[source]
        claim_id, wide = secrets.randbits(62), source in everywhere
        everywhere.discard(source)
        common = self._common(claim_id)
        lanes: tuple[Lane, ...] = ()
        if source == UNORDERED:
            lanes = self._turns.next(free)
            # By time, whatever the bucket: nothing about them needs an owner. A poll begins where its board saw a row.
            crowd = self.crowd.is_thick
            statement = claim(worker, free, lanes=lanes, floors=self.lanes.floors(lanes), in_crowd=crowd, **common)
            return SentClaim(source, free, claim_id, at, statement, lanes, crowd)
        if source == ORDERED:
            statement = self._ordered(worker, free, wide, common)
        else:
            lanes = tuple(Lane(o.queue, o.priority) for o in self._offers if o.queue == source and not o.ordered)
            known = dict(zip((lane.priority for lane in lanes), self.lanes.floors(lanes), strict=True))
            keys = self.keys.floors()
            statement = claim_limited(worker, free, source, floors=known or None, **keys._asdict(), **common)
        return SentClaim(source, free, claim_id, at, statement, lanes)

    def after_note(self, worker: str, n: int) -> SentClaim | None:
        """The claim of n unordered rows that the next note would bring on; None if nobody can say it now."""
        if n < 1 or not self._turns.all_are_asked:
            return None
        lanes, claim_id = self._turns.next(n), secrets.randbits(62)
        if not lanes and len(self.queues) == 1 and not any(offer.limited for offer in self._offers):
            # The board has shown no row, and it can be told of this queue alone.
            lanes = (Lane(next(iter(self.queues))),)
        if not lanes:
            return None
        floors = self.lanes.floors(lanes, noted=True)
        statement = claim(worker, n, lanes=lanes, floors=floors, **self._common(claim_id))
        return SentClaim(UNORDERED, n, claim_id, 0.0, statement, lanes)

    def answered(self, claim: SentClaim, rows: Sequence[Claimed], seconds: float = 0.0) -> None:
        """Learn from the reply to a claim, after so long: fewer rows than asked for mean that its source is dry."""
        if rows:
            self.seen_epoch = max(self.seen_epoch, rows[0].fence >> 40)
        if claim.source == ORDERED:
            if len({(row.queue, row.partition_key) for row in rows}) < claim.n:
                self._dry[ORDERED] = float("inf")
        elif claim.source == UNORDERED:
            if rows:
                self.lanes.taken(claim.lanes, rows, rows[0].ends_seconds - self.lease_seconds - seconds)
            self._turns.answered(claim.lanes, rows, claim.n)
            self.crowd.answered(len(rows), seconds)
            if len(rows) < claim.n and not self._turns.left:
                self._dry[UNORDERED] = float("inf")
        elif len(rows) < claim.n:
            self._dry[claim.source] = claim.sent + LIMITED_SECONDS

    def _common(self, claim_id: int) -> dict[str, Any]:
        return {"lease_seconds": self.lease_seconds, "claim_id": claim_id, "seen_epoch": self.seen_epoch}

    def _know_sources(self) -> None:
        offers = self._offers
        found = [UNORDERED] if self._turns.any else []
        if any(not o.limited and o.ordered for o in offers):
            found.append(ORDERED)
        self._sources = found + sorted({o.queue for o in offers if o.limited})

    def _ordered(self, worker: str, n: int, everywhere: bool, common: dict[str, Any]) -> Statement[list[Claimed]]:
        buckets: list[int] | None = None
        if self.buckets is not None and not everywhere:
            # Also the keys that we have just let go on, whoever owns their buckets.
            buckets = [*self._freed.difference(self.buckets), *self._from_start()]
        self._freed.clear()
        # A run should take no longer than RUN_SECONDS: its rows wait for each other, and go back when a worker drains.
        run_length = int(min(RUN_SECONDS / max(self._row_seconds, 1e-6), RUN_MAX))
        floors = NO_FLOORS if everywhere else self.keys.floors()  # a poll has none
        given = {**common, **floors._asdict(), "run_length": max(1, run_length)}
        return claim_ordered(worker, n, queues=self._ordered_queues(), buckets=buckets, **given)

    def _ordered_queues(self) -> list[str]:
        return list(dict.fromkeys(o.queue for o in self._in_turn() if o.ordered and not o.limited))

    def _from_start(self) -> Sequence[int]:
        """Our buckets from another one on each time: in as many claims as there are, each of them is the first."""
        ours = self.buckets or ()
        if not ours:
            return ()
        first = self._start % len(ours)
        step = next(step for step in range(len(ours) // 8 + 1, 2 * len(ours) + 2) if gcd(step, len(ours)) == 1)
        self._start = first + step
        return [*ours[first:], *ours[:first]]

    def _in_turn(self) -> list[Offer]:
        """The offers by queue, in a weighted random order, the most urgent lane of each queue first."""
        if len(self.queues) == 1:
            return self._offers
        rank = {queue: self.chance() ** (1 / weight) for queue, weight in self.queues.items()}
        return sorted(self._offers, key=lambda offer: (-rank[offer.queue], -offer.priority))
