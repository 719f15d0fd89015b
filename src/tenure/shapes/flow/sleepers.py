"""Who of a flow works and who waits: when nobody works any more, the instance is parked with all that it waits for.

A branch is at work while none of its calls is open: then its own code runs. A call is at work until it waits.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ...app.job import Job
from ...errors import StaleLease
from ...events import Bus, FlowParked
from ...model.rows import Settled
from ...verbs.steps import Parked, Parking, Recorded, Wait
from .core import Core
from .recorder import Done, Recorder
from .trouble import Asleep, ComeAgain, FlowBroken, FlowCancelled, FlowStops
from .undoing import Root, is_undo
from .writing import named

ALREADY = "already_pending"  # why a park is refused whose reply was lost


class Branch:
    """One line of steps: the function itself, or a branch of parallel."""

    def __init__(self, path: str, owner: object, depth: int = 0) -> None:
        self.path, self.owner, self.depth = path, owner, depth
        self.n = 0  # the next number
        self.open = 0  # calls that have begun and not ended
        self.walk: Any = None  # it had lost a race in an attempt before: only its records are walked through
        self.roots: list[Root] = [(path, None)]  # where its steps are: on its path, or asked for beside it


class Join:
    """What waits for branches: for all of them, or for the first. Once met it is at work, before it has run on."""

    def __init__(self, branch: Branch, left: int) -> None:
        self.branch, self.left, self.met = branch, left, False


BRANCH: ContextVar[Branch] = ContextVar("tenure_branch")  # whose code runs here


class Sleepers:
    """Counts what is at work, and parks the instance when nothing is."""

    def __init__(
        self,
        job: Job,
        core: Core,
        recorder: Recorder,
        future: Callable[[], tuple[Any, Done]],
        bus: Bus,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        self._bus, self._job, self._core, self._recorder, self._future = bus, job, core, recorder, future
        self._loop = loop  # where all of this happens, if not in threads
        self._lock = threading.RLock()
        self._branches: set[Branch] = set()
        self._works = 0
        self._waits: dict[tuple[str, int], tuple[Wait, Done]] = {}
        self._parking = False
        self.ended: BaseException | None = None  # why nothing more may be asked for
        self.cancelled: FlowCancelled | None = None  # then only what is recorded is answered: the core sees to that

    # -- what is at work

    def enter(self, branch: Branch) -> None:
        """A branch has begun."""
        with self._lock:
            self._branches.add(branch)

    def leave(self, branch: Branch, join: Join) -> None:
        """It has ended, and with it perhaps what was to be waited for."""
        with self._lock:
            self._branches.discard(branch)
            join.left -= 1
            if join.left <= 0 and not join.met:
                join.met = True
                self._works += 1
            self._look()

    def begin(self, branch: Branch) -> None:
        """A call has begun."""
        if self.ended is not None:
            raise self.ended
        with self._lock:
            branch.open += 1
            self._works += 1

    def end(self, branch: Branch) -> None:
        """It has ended."""
        with self._lock:
            branch.open -= 1
            self._works -= 1

    def join(self, branch: Branch, left: int) -> Join:
        """A call has begun that waits for so many branches."""
        if self.ended is not None:
            raise self.ended
        with self._lock:
            branch.open += 1
        return Join(branch, left)

    def joined(self, join: Join) -> None:
        """It has ended."""
        with self._lock:
            join.branch.open -= 1
            self._works -= join.met
            join.met = True

    # -- what waits

    def hold(self, wait: Wait) -> Any:
        """Wait for this: a future of the step as it is when it is met, None if the flow was cancelled meanwhile."""
        future, done = self._future()
        with self._lock:
            self._works -= 1
            self._waits[wait.path, wait.n] = (wait, done)
            if self.cancelled is not None and not is_undo(wait.path):
                done(None)
            self._look()
        return future

    def woken(self, wait: Wait) -> None:
        """It waits no longer."""
        with self._lock:
            self._works += 1
            self._waits.pop((wait.path, wait.n), None)

    def _look(self) -> None:
        if self.ended is not None or self.cancelled is not None or self._parking or self._works or not self._waits:
            return
        if any(not branch.open for branch in self._branches):
            return
        self._parking = True
        self._job.completion = "parking"
        waits = [wait for wait, _ in self._waits.values()]
        core = self._core
        cleaning = core.cleaning or any(is_undo(wait.path) for wait in waits)  # an undo waits out its tries
        parking = Parking(self._job.claimed, waits, core.instance.run, cleaning=cleaning)
        self._recorder.send(self._job, parking, self._answered, self._loop)

    def _answered(self, answer: Any) -> None:
        """On the loop, or in the recorder's thread."""
        with self._lock:
            self._parking = False
            slept = isinstance(answer, Parked) and answer.outcome == "parked"
            if slept or (isinstance(answer, Settled) and answer.reason == ALREADY):
                self._job.completion = "parked"
                if self._bus.each_job:
                    self._bus.emit(FlowParked(*named(self._job, self._core), self._waited_for()))
                self._end(Asleep())
                return
            self._job.completion = "open"
            if isinstance(answer, Parked) and answer.outcome == "awake":
                self._core.learn(Recorded(answer.moment, False))
                for step in answer.met:
                    if step.state not in ("waiting", "retrying") and (step.path, step.n) in self._waits:
                        self._waits[step.path, step.n][1](step._replace(recorded_at=answer.moment))
            elif isinstance(answer, Parked) and answer.outcome == "cancelled":
                self._wake(None)
            elif isinstance(answer, Settled) and answer.reason != "try_again":
                self._end(FlowBroken(StaleLease(self._job.claimed, "park", answer.reason, answer.current)))
            elif isinstance(answer, BaseException):
                self._end(FlowBroken(answer))
            else:
                self._end(ComeAgain("somebody signals it just now"))

    def _waited_for(self) -> str:
        return ", ".join(wait.name for wait, _ in self._waits.values())

    def _end(self, why: BaseException) -> None:
        self.ended = why
        self._wake(why)

    def _wake(self, why: BaseException | None) -> None:
        for _, done in list(self._waits.values()):
            done(why)

    def stop(self, why: FlowStops) -> FlowStops:
        """This ends the attempt; whoever waits is told. Returns it, to be raised.

        Nothing more may be asked for, except by a flow that is cancelled: its other branches go on to where their
        records end, so that all they did is known, and can be undone.
        """
        with self._lock:
            if isinstance(why, FlowCancelled):
                self.cancelled = self.cancelled or why
                self._wake(None)
            elif self.ended is None:
                self._end(why)
        return why

    def settle(self) -> None:
        """The function has ended: raise what stopped it, though it may have caught that; after it, undos may run."""
        cancelled, self.cancelled = self.cancelled, None
        if (why := self.ended or cancelled) is not None:
            raise why
