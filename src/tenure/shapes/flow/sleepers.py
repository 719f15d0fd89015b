"""Who of a flow works and who waits: when nobody works any more, the instance is parked with all that it waits for.

A branch is at work while none of its calls is open: then its own code runs. A call is at work until it waits.
What waits beside somebody who works is written down soon and looked at again; the row is not given back meanwhile.
"""

from __future__ import annotations

import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import partial
from typing import Any

from ...app.job import Job
from ...errors import StaleLease
from ...events import Bus, FlowParked
from ...model.rows import Settled
from ...verbs.steps import Parked, Parking, Recorded, Wait
from .core import Core
from .lines import SOON_SECONDS, Branch, Held, Join, as_it_stands
from .looking_again import TURNS, LookingAgain
from .recorder import Done, Recorder
from .trouble import Asleep, ComeAgain, FlowBroken, FlowCancelled, FlowStops
from .undoing import is_undo
from .writing import named

ALREADY = "already_pending"  # why a park is refused whose reply was lost


class Sleepers(LookingAgain):
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
        self._lock = recorder.on_loop if loop is not None else threading.RLock()
        self._branches: set[Branch] = set()
        self._works = 0
        self._waits: dict[tuple[str, int], Held] = {}
        self._asking = False  # a look or a park is under way
        self._quiet: tuple[Done, ...] = ()  # who is told when it is not
        self.over = False  # the function has returned: what it left behind is not waited for
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

    def branches(self) -> list[Branch]:
        """Those that have not ended."""
        with self._lock:
            return list(self._branches)

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
            if self._waits and branch.open and self.ended is None:  # it may be that nobody works now
                self._look_in(SOON_SECONDS)

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
            self._waits[wait.path, wait.n] = Held(wait, done)
            if self.ended is not None:
                self._tell(wait.path, wait.n, self.ended)
            elif self.cancelled is not None and not is_undo(wait.path):
                self._tell(wait.path, wait.n, None)
            self._look()
        return future

    def woken(self, wait: Wait) -> None:
        """It waits no longer."""
        with self._lock:
            self._take(wait.path, wait.n)

    def _tell(self, path: str, n: int, answer: Any) -> None:
        """Answer who waits there: at work from now on, before its code has run on."""
        held = self._take(path, n)
        if held is not None:
            held.done(answer)

    def _take(self, path: str, n: int) -> Held | None:
        held = self._waits.pop((path, n), None)
        self._works += held is not None
        if not self._waits:
            self._no_look()
        return held

    def _look(self, turns: int = TURNS) -> None:
        """Park if nobody works, else look at what waits when it is time to."""
        if self.over or self.ended is not None or self.cancelled is not None or self._asking or not self._waits:
            return
        if not self._works and all(branch.open for branch in self._branches):
            if self._loop is not None and turns:
                self._look_in_turn(self._loop, turns - 1)
                return
            self._job.completion = "parking"
            self._ask(stays=False)
        elif (seconds := min(held.look_at for held in self._waits.values()) - time.monotonic()) <= 0:
            self._ask(stays=True)
        else:
            self._look_in(seconds)

    def _ask(self, *, stays: bool) -> None:
        self._asking = True
        self._no_look()
        waits = [held.left() for held in self._waits.values()]
        core = self._core
        cleaning = core.cleaning or any(is_undo(wait.path) for wait in waits)  # an undo waits out its tries
        parking = Parking(self._job.claimed, waits, core.instance.run, cleaning=cleaning, stays=stays)
        self._recorder.send(self._job, parking, partial(self._answered, parking), self._loop)

    @property
    def asking(self) -> bool:
        """Whether a look or a park is under way."""
        return self._asking

    def quiet(self) -> Any:
        """A future of the moment when no look is under way: what it found, also for who waits no longer, is known."""
        future, done = self._future()
        with self._lock:
            if self._asking:
                self._quiet += (done,)
            else:
                done(None)
        return future

    def _answered(self, parking: Parking, answer: Any) -> None:
        """On the loop, or in the recorder's thread."""
        with self._lock:
            self._asking = False
            if isinstance(answer, Parked) and answer.outcome in ("awake", "stays", "cancelled"):
                self._learn(parking, answer)
            if parking.stays:
                self._looked(answer)
            else:
                self._parked(answer)
            self._look()
            told, self._quiet = self._quiet, ()
            for done in told:
                done(None)

    def _learn(self, parking: Parking, answer: Parked) -> None:
        """Note what is written down now, also of a branch that was closed meanwhile: a signal is taken, a wait open."""
        self._core.learn(Recorded(answer.moment, answer.cancel))
        asked = {(wait.path, wait.n): wait for wait in parking.waits}
        for step in answer.met:
            place, wait = (step.path, step.n), asked[step.path, step.n]
            found = as_it_stands(wait, step, answer.moment)
            if step.state == "done":
                self._core.records[place], self._core.met[place] = found, len(self._core.asked)
            elif parking.stays and step.state == wait.state:
                self._core.records[place] = found
            if step.state != wait.state:
                self._tell(*place, found)
            elif place in self._waits:
                self._waits[place].seen(step, answer.moment)

    def _looked(self, answer: Any) -> None:
        """After a look beside somebody who works."""
        if isinstance(answer, Parked) and answer.outcome == "cancelled":
            self._wake(None)
        elif isinstance(answer, Parked) or (isinstance(answer, Settled) and answer.reason == "try_again"):
            soon = time.monotonic() + SOON_SECONDS
            for held in self._waits.values():
                held.look_at = max(held.look_at, soon)
        else:
            self._broken("look", answer)

    def _parked(self, answer: Any) -> None:
        slept = isinstance(answer, Parked) and answer.outcome == "parked"
        if slept or (isinstance(answer, Settled) and answer.reason == ALREADY):
            self._job.completion = "parked"
            if self._bus.each_job:
                waited_for = ", ".join(held.wait.name for held in self._waits.values())
                self._bus.emit(FlowParked(*named(self._job, self._core), waited_for))
            self._end(Asleep())
            return
        self._job.completion = "open"
        if isinstance(answer, Parked) and answer.outcome == "awake":
            for held in self._waits.values():  # not written down yet
                held.look_at = time.monotonic() + SOON_SECONDS
        elif isinstance(answer, Parked) and answer.outcome == "cancelled":
            self._wake(None)
        elif isinstance(answer, Parked) or (isinstance(answer, Settled) and answer.reason == "try_again"):
            self._end(ComeAgain("somebody signals it just now"))
        else:
            self._broken("park", answer)

    def _broken(self, verb: str, answer: Any) -> None:
        """The lease is gone, or the connection for too long."""
        gone = isinstance(answer, Settled)
        why = StaleLease(self._job.claimed, verb, answer.reason, answer.current) if gone else answer
        self._end(FlowBroken(why))

    def _end(self, why: BaseException) -> None:
        self.ended = why
        self._wake(why)

    def _wake(self, why: BaseException | None) -> None:
        for path, n in list(self._waits):
            self._tell(path, n, why)

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
        self.over = False
        cancelled, self.cancelled = self.cancelled, None
        if (why := self.ended or cancelled) is not None:
            raise why
