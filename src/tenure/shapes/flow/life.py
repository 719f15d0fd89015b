"""The life of one attempt at a flow, from its records to its outcome; a generator like the calls of the core."""

from __future__ import annotations

from typing import Any

from ...events import DefinitionDiffered
from ...model.outcome import DeadLetter, Fail, Release, Snooze
from ...model.payload import encode
from ...verbs.steps import Step
from .core import Core
from .effects import Call, Doing, Main, Recall, Stop, Sub, Tell
from .trouble import (
    Again,
    Asleep,
    ComeAgain,
    DefinitionDiffers,
    FlowBroken,
    FlowCancelled,
    StepFailed,
    UndoFailed,
    of_the_step,
)
from .undoing import CANCEL, UNDONE, to_undo, undo_of, undo_path

DIFFERS_SECONDS = (60.0, 600.0)  # a definition that differs is looked at again so much later, at first and at most


def life(core: Core, main: Main, *, recalled: bool, token: int, worker: str) -> Doing:
    """How the attempt ends: an outcome, or what the function returned."""
    if recalled:
        core.know((yield Recall(core.instance.run)))
    if CANCEL in core.records:
        core.cleaning, core.cancelled_at = True, core.records[CANCEL].recorded_at
    try:
        return (yield from _lived(core, main))
    except Asleep:
        return None
    except Again as again:
        yield Stop(payload=encode(again.fields))
        return None
    except ComeAgain as error:
        return Snooze(1.0, str(error))
    except DefinitionDiffers as error:
        first, most = DIFFERS_SECONDS
        of = core.instance
        yield Tell(DefinitionDiffered(worker, of.id, token, of.workflow, of.version, str(error)))
        return Snooze(min(most, first * 2 ** min(token - 1, 10)), str(error))
    except FlowBroken as broken:
        raise broken.error from None
    except UndoFailed as error:
        return DeadLetter(str(error))


def _lived(core: Core, main: Main) -> Doing:
    try:
        value: Any = yield main
    except StepFailed as error:
        value = Fail(str(error))
    except FlowCancelled as error:
        return (yield from _stopped(core, error.reason))
    except Exception as error:
        if not of_the_step(error) or not (core.cleaning or core.reason_to_stop()):
            raise  # tried again like a crash: a deploy may mend it
        yield Sub(_noted(core))
        return (yield from _stopped(core, core.records[CANCEL].error or ""))
    if CANCEL in core.records:
        return (yield from _stopped(core, core.records[CANCEL].error or ""))
    if isinstance(value, Fail | DeadLetter):
        yield Sub(_undone(core))
        return value
    core.check_end()
    if core.riders or core.shown:
        yield Sub(core.write())
    return value


def _noted(core: Core) -> Doing:
    """Record that it is cancelled where its own function has failed, so that it is so in every later attempt."""
    if CANCEL not in core.records:
        stop = Step(*CANCEL, "cancel", "cancelled", error=core.reason_to_stop() or "on request")
        yield from core.write(stop)
        core.cleaning, core.cancelled_at = True, core.moment
        core.records[CANCEL] = stop


def _stopped(core: Core, reason: str) -> Doing:
    yield Sub(_undone(core))
    yield Stop(reason)
    return Release(f"cancelled: {reason}")


def _undone(core: Core) -> Doing:
    """Undo all, between two marks: a redrive goes on with it after the first, and begins a new run after the second.

    What there is to undo the records say. They are asked for anew: an answer may have been lost, or its branch closed.
    """
    core.records = {(step.path, step.n): step for step in (yield Recall(core.instance.run))}
    core.check_end()
    left = to_undo(core.undoable, core.records)
    if not left:
        return
    if UNDONE not in core.records:
        yield from core.write(Step(*UNDONE, "undone", "begun"))
    yield from _undo(core, left)
    yield from core.write(Step(*UNDONE, "undone", "done"))


def _undo(core: Core, left: list[tuple[Call, Step]]) -> Doing:
    """The last first; each undo is a step of its own."""
    for n, (call, known) in enumerate(left):
        result = core.read(call, known.result) if known.state == "done" else None
        rest = ", ".join(each.name for each, _ in left[n:])
        since = max(core.cancelled_at, core.instance.redriven_at)
        if core.cleaning and core.now() - since > core.instance.cleanup_seconds:
            raise UndoFailed(f"its time to clean up was over after {core.instance.cleanup_seconds:g} s", rest)
        try:
            yield from core.step(undo_of(call, result, core.key_of(undo_path(call.path), call.n)))
        except StepFailed as error:
            raise UndoFailed(str(error), rest) from error
