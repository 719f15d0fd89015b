"""The desk: claims rows for free slots and settles what handlers have ended, on a thread and connection of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ..app.handler import Handler
from ..app.job import Connections, Job
from ..model.jitter import jittered
from ..model.outcome import Completed, Outcome
from ..model.rows import Claimed
from ..postgres.connection import Patience, QueueConnection
from ..postgres.runner import run, run_both
from ..verbs.fleet import wait
from ..verbs.questions import board, claimed
from .claim_rule import ORDERED, UNORDERED, Ask, Intake
from .claimed import announce, answered, arrived, completed, unstarted, woken
from .db_thread import Crew, Line
from .held import Holds
from .outcomes import Batch, batches, report

STATEMENT_SECONDS = 30.0
BOARD_SECONDS = 1.0  # how old the board may be while there is work
BOARD_SHARE = 50  # where dead versions make reading it slow, it is read so much more rarely
SOON_SECONDS = 0.05  # how soon it is read after something that it may not show yet
AWAKE_SECONDS = 1.0  # how long a worker works before it asks producers not to wake it


class Buckets(NamedTuple):
    """News of the ring."""

    ours: tuple[int, ...] | None


class Desk(Line):
    """One round: settle what has ended and claim for the slots that are free, in one trip where both are wanted."""

    def __init__(
        self,
        crew: Crew,
        holds: Holds,
        handlers: Mapping[str, Handler[..., Any]],
        start: Callable[[list[Job]], None],
        connections: Connections,
    ) -> None:
        super().__init__("desk", crew, crew.terms.url, Patience(statement_seconds=STATEMENT_SECONDS, lock_seconds=2))
        terms = crew.terms
        self._holds, self._handlers, self._start, self._connections = holds, handlers, start, connections
        self.intake = Intake(terms.queues, terms.lease_seconds)
        self.ears: Callable[[], str] = lambda: ""
        self.trusted: Callable[[], bool] = lambda: True
        self.draining = False
        self._news: SimpleQueue[Job | str | Buckets] = SimpleQueue()
        self._unsettled: list[Job] = []
        self._asked: Ask | None = None
        self._board_at = 0.0  # when to read the board again
        self._poll_at = 0.0  # when to look beyond our own buckets
        self._due_at = 0.0  # when the next row is due, as far as the board knew
        self._everywhere: set[str] = set()  # sources to be looked for beyond our own buckets, once
        self._missing: list[tuple[float, Ask]] = []  # claims that may still be running after their session was lost
        self._waiting = ""  # by which ears producers were told to wake us
        self._awake_since = 0.0
        self._singly = False  # settle job by job

    # -- called from other threads

    def settle(self, job: Job, outcome: Outcome | None) -> None:
        """A handler has ended, or its time is up: let the database know. None: there is nothing to tell it."""
        job.outcome = outcome
        self._news.put(job)

    def wake(self, note: str = "") -> None:
        """There may be something to do: a note from the database, or nothing in particular."""
        self._news.put(note)

    def own(self, buckets: tuple[int, ...] | None) -> None:
        """These buckets are ours from now on; None: all of them."""
        self._news.put(Buckets(buckets))

    def drain(self) -> None:
        """Claim nothing more."""
        self.draining = True
        self.wake()

    @property
    def unsettled(self) -> bool:
        """Is anything left to tell the database?"""
        return bool(self._unsettled) or not self._news.empty()

    # -- the thread

    def work(self, conn: QueueConnection) -> None:
        """Round after round."""
        self._recover(conn)
        while not self.ended.is_set():
            self._gather(self._rest_seconds(conn))
            self._round(conn)
            self.answered()

    def cut_off(self) -> None:
        """Nobody knows what happened meanwhile: a new session tells again that this worker waits, and looks at all."""
        self._waiting, self._poll_at = "", 0.0

    def turned_away(self) -> None:
        """Perhaps somebody has a row of the batch locked: the others need not wait for it."""
        self._singly = True

    def _gather(self, seconds: float) -> None:
        """Take in all the news there is, after waiting for the first as long as this."""
        try:
            news = self._news.get(timeout=seconds) if seconds > 0 else self._news.get_nowait()
            while True:
                self._take_in(news)
                news = self._news.get_nowait()
        except Empty:
            return

    def _take_in(self, news: Job | str | Buckets) -> None:
        if isinstance(news, Job):
            self._unsettled.append(news)
        elif isinstance(news, str):
            self._hear(news)
        else:
            self.intake.own(news.ours)
            self._hear("queues")

    def _hear(self, note: str) -> None:
        where, _, queue = note.partition(" ")
        if note in ("", "queues"):
            self._board_at = 0.0
            if note:
                self.intake.rouse()
        elif where == "*" or (where.isdigit() and self.intake.owns(int(where))):
            self.intake.rouse(queue)
            self._look_soon()
            woken(self.crew, "notify")

    def _round(self, conn: QueueConnection) -> None:
        at = time.monotonic()
        if at >= self._board_at and not self.draining:
            self._read_board(conn, at)
        if self._missing:
            self._ask_after(conn)
        for job in self._unsettled:
            self.intake.ended(job.source, job.claimed.partition_bucket)
        self._skip_settled()
        todo = self._batches() if self._unsettled else []
        ask = self._next_ask(at)
        for jobs, statement in todo:
            since = time.time_ns()
            if ask is not None and statement.name == "complete":
                self._asked = ask
                answers, rows = run_both(conn, statement, ask.statement, self.crew.terms.schema)
                self._received(ask, rows)
                ask = None
            else:
                answers = run(conn, statement, self.crew.terms.schema)
            self.crew.tracing.settled(self.crew.worker, answers, [job.trace for job in jobs], since)
            self._answered(jobs, answers)
        if ask is not None:
            self._asked = ask
            self._received(ask, run(conn, ask.statement, self.crew.terms.schema))
        self._singly = False

    def _batches(self) -> list[Batch]:
        """What has ended, a statement for each verb; or one for each job, in any order, if one row held up the rest."""
        if not self._singly:
            return list(batches(self._unsettled))
        random.shuffle(self._unsettled)
        return [batch for job in self._unsettled for batch in batches([job])]

    def _next_ask(self, at: float) -> Ask | None:
        if self.draining or not self.trusted():
            return None
        ending = sum(1 for job in self._unsettled if job.ended and not job.overran)
        free = self.crew.terms.slots - self._holds.slots_used + ending
        ask = self.intake.next(self.crew.worker, free, at, everywhere=self._everywhere)
        if ask is None and free > 0:
            self._everywhere.clear()
        return ask

    def _skip_settled(self) -> None:
        """Some need no word to the database: completed in a transaction of their own, or somebody else's by now."""
        over = [job for job in self._unsettled if job.settled or job.outcome is None]
        if not over:
            return
        self._unsettled = [job for job in self._unsettled if not (job.settled or job.outcome is None)]
        for job in over:
            job.answered = True
        self._holds.free(over)
        completed(self.crew, [job for job in over if job.settled], time.monotonic())

    def _answered(self, jobs: list[Job], answers: Any) -> None:
        """The database has spoken: tell the world, and free the slots of those whose handler has ended."""
        at = time.monotonic()
        bus, worker = self.crew.bus, self.crew.worker
        self.crew.tally.settled(jobs, answers, at)
        for job, settled in zip(jobs, answers, strict=True):
            if bus.each_job or settled.standing != "applied" or not isinstance(job.outcome, Completed):
                report(bus, worker, job, settled, at - job.started)
                if settled.next_at is not None:
                    self._look_soon()
            job.answered = True
        done = set(jobs)
        self._unsettled = [job for job in self._unsettled if job not in done]
        self._holds.drop(jobs)
        self._holds.free([job for job in jobs if job.ended])

    def _received(self, ask: Ask, rows: list[Claimed]) -> None:
        self._asked = None
        self.intake.told(ask, rows, time.monotonic())
        answered(self.crew, ask, rows)
        if rows:
            self._look_soon()  # behind what was due, the board may show what is due next
            self._start_jobs(ask, rows)

    def _start_jobs(self, ask: Ask, rows: list[Claimed]) -> None:
        jobs = arrived(ask, rows, self.crew.terms, self._handlers, self._connections, time.monotonic())
        self._holds.take(jobs)
        if self.draining:
            self._unsettled += unstarted(jobs)
            return
        announce(self.crew, jobs)
        self._start(jobs)

    def _recover(self, conn: QueueConnection) -> None:
        """A claim whose reply was lost may have taken rows: they are ours, from when it was sent."""
        if self._asked is not None:
            self._missing.append((0.0, self._asked))
            self._missing.append((time.monotonic() + STATEMENT_SECONDS + 1.0, self._asked))
            self._asked = None
        self._ask_after(conn)
        self.intake.rouse()
        self._board_at = 0.0

    def _ask_after(self, conn: QueueConnection) -> None:
        """Look for the rows of lost claims: at once, and again when a claim that still ran must have ended."""
        at = time.monotonic()
        for due, ask in [each for each in self._missing if each[0] <= at]:
            rows = run(conn, claimed(self.crew.worker, ask.claim_id), self.crew.terms.schema)
            self._missing.remove((due, ask))
            known = {job.claimed.token for job in self._holds.busy()}
            self._start_jobs(ask, [row for row in rows if row.token not in known])

    # -- when there is nothing to do

    def _read_board(self, conn: QueueConnection, at: float) -> None:
        terms = self.crew.terms
        offers = run(conn, board(), terms.schema)
        due = self.intake.learn(offers, at)
        self._board_at = at + max(BOARD_SECONDS, BOARD_SHARE * (time.monotonic() - at))
        if at >= self._poll_at:
            self._poll_at = at + jittered(terms.poll_seconds, self.intake.chance())
            self._everywhere = {UNORDERED, ORDERED}
            self.intake.rouse()
            woken(self.crew, "poll")
        if due is not None and due < BOARD_SECONDS:
            self._board_at = at + max(0.0, due)
        self._due_at = at + (due if due is not None else terms.poll_seconds)

    def _look_soon(self) -> None:
        """There may be a row that is due later than now: only the board knows when."""
        self._due_at = min(self._due_at, time.monotonic() + SOON_SECONDS)

    def _rest_seconds(self, conn: QueueConnection) -> float:
        """How long to wait for news. Before a long wait, producers are asked to wake us, and one more look is taken."""
        at = time.monotonic()
        free = self._holds.slots_used < self.crew.terms.slots and self.trusted()
        dry_until = self.intake.dry_until()
        if self._unsettled or (free and not self.draining and dry_until <= at):
            self._mind_awake(conn, at)
            return 0.0
        if self.draining:
            return 0.1
        if not free:
            self._mind_awake(conn, at)
            return min(1.0, self.crew.terms.poll_seconds)
        if (ears := self.ears()) and self._waiting != ears:
            run(conn, wait(self.crew.worker, waiting=True), self.crew.terms.schema)
            self.intake.rouse()
            # The look that follows is no work: it must not make us take that word back.
            self._waiting, self._awake_since = ears, float("inf")
            return 0.0
        self._awake_since = float("inf")
        self._board_at = min(self._poll_at, self._due_at)
        return max(0.0, min(self._board_at, dry_until) - at)

    def _mind_awake(self, conn: QueueConnection, at: float) -> None:
        """Working for a while without a rest: nobody needs to wake us."""
        self._awake_since = min(self._awake_since, at)
        if self._waiting and at - self._awake_since > AWAKE_SECONDS:
            run(conn, wait(self.crew.worker, waiting=False), self.crew.terms.schema)
            self._waiting = ""
