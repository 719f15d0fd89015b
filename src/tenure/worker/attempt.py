"""One attempt of this worker at one row: its job, its handler, and the state that says what is still to come.

A row is settled when the database has answered for it. A slot is free when the handler has returned as well.

    ahead, waiting ─────────────────────────┐
       │ a slot is free; or                 │ a handler turned slow, this worker drains,
       │ its turn in the run                │ or the run has ended: given back unstarted
       ▼             handler returns        ▼          settled
    running ───────────────────────────▶ returned ───────────────▶ over
       │                                    ▲                        ▲
       │ let go: its time is up,            │ handler returns        │
       │ or this worker drains              │                        │
       ▼                                    │                        │
    let_go ─────────────────────────────────┘                        │
       │ settled                                     handler returns │
       ▼                                                             │
    abandoned ───────────────────────────────────────────────────────┘

Several threads end an attempt: its handler's, the timer, a drain, the claimer. Each asks for a step, and the state
decides who was first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from ..app.handler import Handler
from ..app.job import Job
from ..model.outcome import COMPLETED, Outcome, Release
from ..model.rows import Claimed

# Reasons of our own to stop: the database has not confirmed them, so the row may still be ours.
OUR_OWN = ("lease_expired", "presence_lost", "drained")


class State(Enum):
    """What an attempt still waits for."""

    AHEAD = "a slot: it was claimed ahead"
    WAITING = "its turn: the rows before it in its run"
    RUNNING = "its handler, and then the database"
    RETURNED = "the database: its handler has returned"
    LET_GO = "the database: its row is settled without its handler"
    ABANDONED = "its handler, whose row is settled already"
    OVER = "nothing"


UNBEGUN = (State.AHEAD, State.WAITING)


class Common:
    """What the attempts of one claim share until one of them differs: most are over before that."""

    __slots__ = ("lease_seconds", "lock", "received", "renew_at", "source")

    def __init__(
        self, source: str = "", *, received: float = 0.0, lease_seconds: float = 0.0, renew_at: float = float("inf")
    ) -> None:
        self.source = source  # where the claim looked
        self.received, self.lease_seconds, self.renew_at = received, lease_seconds, renew_at
        self.lock = threading.Lock()  # held for a step of one of them, never for two


class Attempt:
    """A job as the worker keeps it. The handler sees only `job`.

    What few attempts have stands here, on the class, until one of them has it.
    """

    following: Attempt | None = None  # the next row of its run: its turn comes when this one is completed
    outcome: Any = None  # None: there is nothing to tell the database
    task: Any = None  # in which its handler runs, if it is a coroutine
    call_on_loop: Callable[..., object]  # from any thread, if there is a task
    stop: Callable[[], object] | None = None  # how to stop its handler elsewhere, once it runs
    kill: Callable[[], object] | None = None  # how to end it if it does not stop: only a process can be killed
    timer: Any = None  # what will let it go when its time is up
    trace: Any = None  # the context of its span
    _renew_at: float | None = None

    def __init__(self, job: Job, handler: Handler[..., ..., Any] | None = None, common: Common | None = None) -> None:
        self.job, self.handler = job, handler
        self.common = common = common or Common()
        self.state, self.started = State.RUNNING, common.received

    def __repr__(self) -> str:
        return f"<Attempt {self.state.name.lower()} {self.job!r}>"

    @property
    def source(self) -> str:
        """Where its claim looked."""
        return self.common.source

    @property
    def lease_seconds(self) -> float:
        """How long its lease is, from one renewal to the end."""
        return self.common.lease_seconds

    @property
    def renew_at(self) -> float:
        """When to renew it, on the monotonic clock."""
        return self.common.renew_at if self._renew_at is None else self._renew_at

    @renew_at.setter
    def renew_at(self, at: float) -> None:
        self._renew_at = at

    @property
    def claimed(self) -> Claimed:
        """The row as it was claimed."""
        return self.job.claimed

    @property
    def accept_late(self) -> bool:
        """True if its handler accepts a completion after the end of the lease."""
        return self.handler is not None and self.handler.handling.late_completion == "accept"

    @property
    def keep_payload(self) -> bool:
        """True if the archive shall have its payload."""
        return self.handler is None or self.handler.handling.keep_payload

    @property
    def timeout_seconds(self) -> float:
        """How long its handler may run; 0: as long as it likes."""
        return (self.handler and self.handler.handling.timeout_seconds) or 0.0

    @property
    def settled(self) -> bool:
        """True if the database has answered, or need not be asked."""
        return self.state in (State.ABANDONED, State.OVER)

    @property
    def handler_returned(self) -> bool:
        """True if the handler has returned: its slot is free, or about to be."""
        return self.state in (State.RETURNED, State.OVER)

    @property
    def completed_itself(self) -> bool:
        """True if the handler completed the row in its own transaction."""
        return self.job.completion == "committed"

    def told(self, outcome: Outcome | None) -> Outcome | None:
        """What its trace says of its end: a row that the handler completed stays completed, whatever follows."""
        return COMPLETED if self.completed_itself else outcome

    @property
    def ending(self) -> bool:
        """True if it has returned, was let go, or commits its own transaction: then the settlement decides."""
        return self.state not in (*UNBEGUN, State.RUNNING) or self.job.completion != "open"

    # -- the steps

    def queue_behind(self, before: Attempt) -> None:
        """Wait for the turn: after this one, in the same run."""
        self.state, before.following = State.WAITING, self

    def wait_ahead(self) -> None:
        """Wait for a slot."""
        self.state = State.AHEAD

    def take_turn(self) -> bool:
        """Its turn has come, or a slot is free; False if it was given back meanwhile."""
        with self.common.lock:
            if self.state not in UNBEGUN:
                return False
            self.state = State.RUNNING
            return True

    def give_back(self, outcome: Outcome | None) -> bool:
        """Its turn will not come; False if it came, or if it was given back already."""
        with self.common.lock:
            if self.state not in UNBEGUN:
                return False
            self.outcome, self.state = outcome, State.RETURNED
            return True

    def handler_returns(self, outcome: Outcome | None) -> State:
        """The handler has returned; returns the state before. Only a running attempt takes this outcome."""
        with self.common.lock:
            before = self.state
            if self.job.completion == "parked":
                outcome = None  # the row is given back already
            if before is State.RUNNING:
                self.outcome, self.state = outcome, State.RETURNED
            else:
                self.state = State.OVER if before in (State.ABANDONED, State.OVER) else State.RETURNED
            return before

    def let_go(self, outcome: Outcome) -> bool:
        """Settle the row without its handler; False if the handler has returned already."""
        with self.common.lock:
            if self.state is not State.RUNNING:
                return False
            self.outcome, self.state = outcome, State.LET_GO
            return True

    def settle(self) -> None:
        """The database has answered, or there is nothing to ask it."""
        if self.state is State.RETURNED:  # nobody else makes a step from here
            self.state = State.OVER
            return
        with self.common.lock:
            self.state = State.OVER if self.handler_returned else State.ABANDONED

    def lose(self, reason: str) -> None:
        """Its handler works in vain from now on. The first reason counts, whichever thread has it."""
        with self.common.lock:
            self.job.lost = self.job.lost or reason

    def ask_to_stop(self) -> None:
        """Stop its handler, if it runs and can be stopped."""
        if self.task is not None:
            self.call_on_loop(self.task.cancel)
        elif self.stop is not None:
            self.stop()

    def tell_of_drain(self) -> None:
        """Its worker drains: its handler may ask, and end by itself."""
        self.job.draining = True
        if self.kill is not None:
            self.ask_to_stop()  # in a process: its child is told what there is to tell

    def disarm(self) -> None:
        """Its time can no longer be up."""
        if self.timer is not None:
            self.timer.cancel()


def given_back(attempt: Attempt | None) -> Iterator[Attempt]:
    """This row and those behind it in its run go back, unless they have begun: those that do."""
    while attempt is not None:
        lost = attempt.job.lost and attempt.job.lost not in OUR_OWN
        if attempt.give_back(None if lost else Release()):
            yield attempt
        attempt = attempt.following
