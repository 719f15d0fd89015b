"""What a driver writes, and what the answers mean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from ...app.job import Job
from ...errors import Cancelled, StaleLease
from ...events import Bus, StepFailed, StepRecorded, StepUndone
from ...model.rows import Settled
from ...postgres.sqlstates import trouble_of
from ...postgres.transactions import StillOpen
from ...verbs.lifecycle import cancel
from ...verbs.statement import Statement, at_its_end
from ...verbs.steps import Recorded, Recording, Step, anew, record
from .core import Core
from .effects import Call, Fenced, Run, Stop
from .step_values import each_place_once
from .trouble import ComeAgain, FlowBroken, Permanent
from .undoing import CANCEL, UNDONE, is_undo

LOCKED_SECONDS_MAX = 10.0


def stopping(job: Job, effect: Stop) -> Statement[Any]:
    """The statement that begins the row anew, or lets its release end it as cancelled."""
    if effect.payload is not None:
        return anew(job.claimed, effect.payload)
    return cancel([job.id], reason=effect.reason, undone=True)


def stopped(job: Job, effect: Stop) -> None:
    """It was run."""
    if effect.payload is not None:
        job.completion = "parked"


def held(job: Job) -> None:
    """FlowBroken if this worker knows that its lease is over: a step must not begin."""
    try:
        job.check()
    except (StaleLease, Cancelled) as error:
        raise FlowBroken(error) from error


def of_the_attempt(effect: Any, error: BaseException) -> BaseException:
    """A lease that is gone is no failure of the step: the attempt is over. What a plain step raises is its own."""
    if isinstance(error, StaleLease | Cancelled) and not isinstance(effect, Run):
        return FlowBroken(error)
    return error


def in_doubt(error: Exception) -> ComeAgain:
    """A transaction whose end is not known must not be tried again here: its record says whether it was committed.

    Any other error of the database rolled it back, and is the step's own: raised as it is, and counted as a try.
    """
    if trouble_of(error) != "away":
        raise error
    return ComeAgain(f"the database was lost in a fenced step: {error}")


def must_be_open(conn: Any, still_open: StillOpen) -> None:
    """If the body has ended the transaction itself, its record would commit apart from its writes."""
    if not still_open() or (conn.closed and not conn.broken):
        raise ended()


def ended() -> Permanent:
    """A failure for good: to try again could write twice."""
    return Permanent("its body ended its transaction: leave COMMIT and ROLLBACK to the step")


def recording(job: Job, core: Core, steps: tuple[Step, ...]) -> Recording:
    """What is written down now, with the values that are shown."""
    if not core.shown:  # not handed over: it may be filled before it is sent
        return Recording(job.claimed, core.instance.run, steps)
    shown, core.shown = core.shown, {}
    return Recording(job.claimed, core.instance.run, steps, shown)


def fenced_recording(job: Job, core: Core, effect: Fenced, text: str) -> Recording:
    """The same inside the transaction of a fenced step."""
    return Recording(
        job.claimed, core.instance.run, each_place_once(*core.riders, fenced_step(effect, text)), dict(core.shown)
    )


def fenced_record(recording: Recording) -> Statement[Any]:
    """Writes it down, if this is the transaction in which the body began."""
    return at_its_end(record([recording]), ended)


def carried(core: Core, recording: Recording) -> None:
    """What rode along is written. Taken away one by one: other threads may add to the same list meanwhile."""
    for each in recording.steps:
        with suppress(ValueError):
            core.riders.remove(each)


def fenced_learned(core: Core, call: Call, answer: Recorded) -> None:
    """What the database said with the record of a fenced step."""
    core.learn(answer)
    core.moments.passed(call.path, answer.moment)


def fenced_step(effect: Fenced, text: str) -> Step:
    """A fenced step as it is recorded."""
    call = effect.call
    return Step(call.path, call.n, call.name, "done", call.args_hash, effect.tries, text)


def named(job: Job, core: Core) -> tuple[str, UUID, int, str]:
    """Who did it, on which row and with which token, and of which workflow: how an event begins."""
    return job.claimed.worker, job.id, job.token, core.instance.workflow


def told(bus: Bus, job: Job, core: Core, steps: tuple[Step, ...]) -> None:
    """Tell subscribers what was written down."""
    for step in steps:
        if step.state == "done" and not step.path and not bus.each_job:  # most are
            continue
        if (step.path, step.n) in (CANCEL, UNDONE):
            continue
        if step.state == "failed":
            bus.emit(StepFailed(*named(job, core), step.name, step.state, step.error or ""))
        elif is_undo(step.path) and step.state == "done":
            bus.emit(StepUndone(*named(job, core), step.name, step.state))
        elif bus.each_job:
            bus.emit(StepRecorded(*named(job, core), step.name, step.state))


def until_free() -> Iterator[float]:
    """How long to wait before each further look at a row that somebody has locked."""
    by = time.monotonic() + LOCKED_SECONDS_MAX
    while time.monotonic() < by:
        yield 0.02


def locked(answer: Any) -> bool:
    """Whether the row was only locked."""
    return isinstance(answer, Settled) and answer.reason == "try_again"


def applied(job: Job, answer: Any) -> Recorded:
    """The answer to a record, or StaleLease."""
    if locked(answer):
        raise ComeAgain("its row was locked for too long")
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, Settled):
        raise StaleLease(job.claimed, "record", answer.reason or "try_again", answer.current)
    assert isinstance(answer, Recorded)
    return answer


def written_now(job: Job, answer: Any) -> Recorded:
    """The same for a fenced step: a record that was there before is of a transaction that has committed already."""
    found = applied(job, answer)
    if not found.written:
        raise ComeAgain("this step is recorded already: its transaction had been committed")
    return found
