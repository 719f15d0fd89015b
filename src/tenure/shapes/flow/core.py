"""The core of a workflow, without I/O: what is recorded, what is asked for, and what is to be done next.

Each call of the function is a generator. It yields what must be done outside (Write, Run, Fenced, Hold, Nap) and is
sent the answer. Two thin drivers do it: one awaits, one blocks.

               recorded and ended
    ask ───────────────────────────────▶ recall: the value, or the error, as the first time
     │ another name recorded ──────────▶ DefinitionDiffers, before anything runs
     │ nothing recorded, or begun
     ▼
    run ──▶ write ──▶ the value
     │ failed: hold until the next try, then run
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...model.outcome import RAISED
from ...model.payload import encode
from ...verbs.steps import Recorded, Step, Wait
from .effects import Call, Doing, Fenced, Hold, Nap, Recall, Run, Write
from .knowledge import Knowledge
from .step_values import cut_short, read, returned, with_riders
from .trouble import (
    LATE,
    BranchClosed,
    DefinitionDiffers,
    FlowCancelled,
    FlowLimit,
    Permanent,
    StepFailed,
    said_of,
)
from .undoing import is_asked_for, is_of, is_undo

RECORDS_MAX = 10_000
NAME_BYTES_MAX = 128
IN_PLACE_SECONDS = 1.0  # a shorter wait is not worth a park
ENDED = ("done", "failed", "timed_out", "cancelled", "patched")


class Core(Knowledge):
    """Answers what the function asks for from what is known, or says what is to be done for it."""

    # -- asking

    def reach(self, path: str, n: int) -> None:
        """The function has come to this step."""
        self.asked.setdefault((path, n), len(self.asked))

    def ask(self, path: str, n: int, name: str) -> Step | None:
        """What is recorded there; DefinitionDiffers if it is something else. What is done can be undone: no limit."""
        limited = not is_undo(path)
        if limited and (not isinstance(name, str) or not 0 < len(name.encode()) <= NAME_BYTES_MAX):
            raise FlowLimit(f"step name {name!r} must be text of 1 to {NAME_BYTES_MAX} bytes: shorten it")
        self.reach(path, n)
        self.unbegun.pop((path, n), None)
        if limited and len(self.asked) > RECORDS_MAX:
            raise FlowLimit(
                f"a run has at most {RECORDS_MAX} steps: go on with flow.anew(…), or move work into children"
            )
        known = self.records.get((path, n))
        if known is not None and known.name != name:
            raise self.differs(path, n, repr(known.name), repr(name))
        self.unseen.discard((path, n))
        if known is not None and known.state == "cancelled":
            if is_of(self.closed, path, n):
                raise BranchClosed
            self.cleaning, self.cancelled_at = True, known.recorded_at
        return known

    def ask_branches(self, path: str, n: int, how: str, branches: int) -> Step | None:
        """The same for branches: another number of them is another definition. That they began rides along."""
        known = self.ask(path, n, how)
        if known is not None and known.args_hash != branches:
            raise self.differs(path, n, f"{how} of {known.args_hash} branches", f"{branches}")
        if known is None and how == "parallel":
            self.riders.append(Step(path, n, how, "done", branches))
        return known

    def differs(self, path: str, n: int, recorded: str, asked: str) -> DefinitionDiffers:
        """The error for this place."""
        of = self.instance
        return DefinitionDiffers(of.id, of.workflow, of.version, path, n, recorded, asked)

    def check_end(self) -> None:
        """DefinitionDiffers if the function returns and records are left that it did not ask for."""
        for path, n in sorted(self.records.keys() - self.asked.keys()):
            if is_asked_for(path, n) and not is_of(self.closed, path, n):
                raise self.differs(path, n, repr(self.records[path, n].name), "the end of the function")

    # -- a step

    def called(self, call: Call) -> Doing:
        """The function asks for a step: one with undo= is known from now on, also if it is never carried on."""
        if call.undo is not None:
            self.undoable[call.path, call.n] = call
        return self.step(call)

    def step(self, call: Call) -> Doing:
        """Recall it, or run it and record what it returned."""
        known = self.ask(call.path, call.n, call.name)
        if known is not None and self.instance.strict and 0 != known.args_hash != call.args_hash != 0:
            raise self.differs(call.path, call.n, f"{call.name!r} with other arguments", repr(call.name))
        if known is not None and known.state in ENDED:
            return self._recalled(call, known)
        if call.undoes is None and (self.cleaning or self.reason_to_stop()):
            yield from self._stop_if_asked(call.path, call.n, call.name, begun=known is not None)
        if known is not None and known.state == "retrying" and not known.over:
            yield from self._hold(call, known.tries, None, None)
        tries = 0 if known is None else known.tries if known.state == "retrying" else known.tries - 1
        while True:
            tries += 1
            if call.undo is not None and not call.fenced:  # in doubt from now on; who has lost its lease must not begin
                yield from self.write(Step(call.path, call.n, call.name, "begun", call.args_hash, tries))
            try:
                return (yield from self._tried(call, tries))
            except RAISED as error:
                yield from self._failed(call, tries, error)
            if call.undoes is None:
                yield from self._stop_if_asked(call.path, call.n, call.name)

    def _tried(self, call: Call, tries: int) -> Doing:
        """One try: the value, recorded."""
        if call.fenced:
            return self.read(call, (yield Fenced(call, tries)))
        text, value = returned(call, (yield Run(call)))
        step = Step(call.path, call.n, call.name, "done", call.args_hash, tries, text)
        if not self._ends(step, (yield Write(with_riders(self.riders, step)))):
            yield from self._ended_before(step)
        return value

    def _failed(self, call: Call, tries: int, error: BaseException) -> Doing:
        """It is tried again, here or after a park; or it has failed for good: that is recorded, and raised."""
        said = said_of(error)
        if isinstance(error, Permanent | FlowLimit) or tries >= call.tries.most:
            self.failures.see(call.path, call.n)
            asked = encode(self.failures.asked(call.path))
            yield from self.end(Step(call.path, call.n, call.name, "failed", call.args_hash, tries, asked, said))
            raise StepFailed(call.name, said) from error
        seconds = call.tries.wait_seconds(tries)
        if seconds < IN_PLACE_SECONDS:
            yield Nap(seconds)
        else:
            yield from self._hold(call, tries, seconds, said)

    def _hold(self, call: Call, tries: int, seconds: float | None, error: str | None) -> Doing:
        """Until the next try; a flow that is cancelled meanwhile has no next try."""
        if call.undoes is None:
            yield from self._stop_if_asked(call.path, call.n, call.name)
        if self.riders or self.shown:
            yield from self.write()
        by = self.instance.deadline if call.undoes is None else None
        met = yield Hold(Wait(*call[:3], "retrying", call.args_hash, tries, seconds or 1.0, by, error))
        if met is None and call.undoes is None:
            yield from self.cancelled(call.path, call.n, call.name, self.reason_to_stop() or "on request")

    def _recalled(self, call: Call, known: Step) -> Any:
        self.moments.passed(call.path, known.recorded_at)
        if known.state == "cancelled":
            raise FlowCancelled(known.error or "")
        if known.state == "failed":
            self.failures.see(call.path, call.n)
            raise StepFailed(call.name, known.error or "")
        return self.read(call, known.result)

    def read(self, call: Call, text: str | None) -> Any:
        """A result as its function says it is; one that no longer fits is another definition."""
        try:
            return read(call, text)
        except msgspec.ValidationError as error:
            raise self.differs(call.path, call.n, f"a result of {call.name!r}", f"another type ({error})") from None

    # -- writing

    def write(self, *steps: Step) -> Doing:
        """Record these, and what rides along."""
        answer: Recorded = yield Write(with_riders(self.riders, *steps))
        self.learn(answer)
        return answer

    def end(self, step: Step, *others: Step) -> Doing:
        """Record how this step ended: its time counts from now on. One that was there before keeps its own."""
        if not self._ends(step, (yield Write(with_riders(self.riders, step, *others)))):
            yield from self._ended_before(step)

    def _ends(self, step: Step, answer: Recorded) -> bool:
        """What the database said; False if the end was there before: it was sent again, for the reply was lost."""
        self.learn(answer)
        if answer.written:
            self.moments.passed(step.path, answer.moment)
        return answer.written

    def _ended_before(self, step: Step) -> Doing:
        records = {(each.path, each.n): each for each in (yield Recall(self.instance.run))}
        self.moments.passed(step.path, records[step.path, step.n].recorded_at)

    def _stop_if_asked(self, path: str, n: int, name: str, *, begun: bool = True) -> Doing:
        """A flow that is to be cancelled is so at its next step, and that is recorded there."""
        if self.cleaning:
            raise FlowCancelled(self.reason_to_stop() or "on request")
        if reason := self.reason_to_stop():
            yield from self.cancelled(path, n, name, reason, tries=int(begun))

    def reason_to_stop(self) -> str:
        """Why the flow is to be cancelled; empty if it is not."""
        past = self.instance.deadline is not None and self.now() >= self.instance.deadline
        return self.cancel or (LATE if past else "")

    def cancelled(self, path: str, n: int, name: str, reason: str, tries: int = 1) -> Doing:
        """Record that the flow was cancelled here, and raise it; without a try it has nothing to undo."""
        answer = yield from self.write(Step(path, n, name, "cancelled", tries=tries, error=reason))
        self.cleaning, self.cancelled_at = True, answer.moment
        raise FlowCancelled(reason)

    # -- waiting

    def waited(
        self, path: str, n: int, name: str, seconds: float | None, at: float | None, read: Callable[[Step], Any]
    ) -> Doing:
        """Wait for a signal or a time: what is read from the step as it is then."""
        return read((yield from self.wait(path, n, name, seconds, at)))

    def wait(self, path: str, n: int, name: str, seconds: float | None, at: float | None) -> Doing:
        """The step as it is then."""
        known = self.ask(path, n, name)
        if known is not None and known.state == "cancelled":
            raise FlowCancelled(known.error or "")
        self.met[path, n] = len(self.asked)
        was_past = bool(self.closed) and is_of(self.closed, path, n)  # of a branch that lost, only those are not closed
        if known is not None and (known.state in ENDED or (name == "sleep" and (known.over or was_past))):
            return (yield from self._within(known, name))
        yield from self._stop_if_asked(path, n, name)
        if self.riders or self.shown:
            yield from self.write()
        ends = [each for each in (at, self.instance.deadline) if each is not None]
        met: Step | None = yield Hold(Wait(path, n, name, seconds=seconds, at=min(ends, default=None)))
        if met is None:
            yield from self.cancelled(path, n, name, self.reason_to_stop() or "on request")
        assert met is not None
        self.records[path, n] = met
        return (yield from self._within(met, name))

    def _within(self, step: Step, name: str) -> Doing:
        """A wait that was ended by the deadline of the flow is where the flow is cancelled."""
        if self.instance.deadline is not None and cut_short(step, name, self.instance.deadline):
            if step.state == "waiting":
                yield from self.cancelled(step.path, step.n, name, LATE)
            self.cleaning, self.cancelled_at = True, step.recorded_at
            raise FlowCancelled(LATE)
        self.moments.passed(step.path, step.until or 0.0 if step.state == "waiting" else step.recorded_at)
        return step
