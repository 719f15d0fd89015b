"""The life of one attempt at a flow, from its records to its outcome; a generator like the calls of the core."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ...events import DefinitionDiffered
from ...model.outcome import DeadLetter, Fail, Release, Snooze
from ...model.payload import encode
from ...model.rows import Row
from ...verbs.questions import row
from ...verbs.steps import Step
from .core import Core
from .effects import Ask, Call, Doing, Main, Recall, Stop, Sub, Tell
from .step_context import key_of
from .trouble import (
    Again,
    Asleep,
    ComeAgain,
    DefinitionDiffers,
    FlowBroken,
    FlowCancelled,
    StepFailed,
    UndoFailed,
    leaves,
)
from .undoing import CANCEL, UNDONE, to_undo, undo_of

DIFFERS_SECONDS = (60.0, 600.0)  # a definition that differs is looked at again so much later, at first and at most


def life(core: Core, main: Main, *, recalled: bool, token: int, worker: str) -> Doing:
    """How the attempt ends: an outcome, or what the function returned."""
    if recalled:
        core.know((yield Recall(core.instance.run)))
    if CANCEL in core.records:
        core.cleaning, core.cancelled_at = True, core.records[CANCEL].recorded_at
    core.cleaning = core.cleaning or UNDONE in core.records
    try:
        return (yield from _lived(core, main))
    except Asleep as asleep:
        asleep.__traceback__ = None  # its frames hold this attempt: a circle would wait for the collector
        return None
    except Again as again:
        yield Stop(payload=again.payload)
        return None
    except ComeAgain as error:
        return Snooze(1.0, str(error))
    except DefinitionDiffers as error:
        first, most = DIFFERS_SECONDS
        of = core.instance
        said = f"{error}{_not_yet(core)}"
        yield Tell(DefinitionDiffered(worker, of.id, token, of.workflow, of.version, said))
        return Snooze(min(most, first * 2 ** min(token - 1, 10)), said)
    except FlowBroken as broken:
        raise broken.error from None
    except UndoFailed as error:
        return DeadLetter(str(error))


def _not_yet(core: Core) -> str:
    """What waits for the right code as well: only that knows what there is to undo."""
    reason = core.reason_to_stop()
    return f"; it is to be cancelled ({reason}), and is so as soon as it runs with code that fits" if reason else ""


class Ending(NamedTuple):
    """How a flow ends that undoes what it did: failed, dead_letter or cancelled; recorded before the first undo."""

    how: str
    said: str


def _lived(core: Core, main: Main) -> Doing:
    ending, value = yield from _ended(core, main)
    if ending is None:
        core.check_end()
        if core.riders or core.shown:
            yield Sub(core.write())
        return value
    yield Sub(_undone(core, ending))
    if ending.how == "cancelled":
        yield Stop(ending.said)
        return Release(f"cancelled: {ending.said}")
    return DeadLetter(ending.said) if ending.how == "dead_letter" else Fail(ending.said)


def _ended(core: Core, main: Main) -> Doing:
    """What the function returned, or how the flow ends; once it undoes, it ends as was recorded then."""
    begun, value = _recorded(core), None
    try:
        value = yield main
    except FlowCancelled as error:
        return begun or Ending("cancelled", _said(core) or error.reason), None
    except Exception as error:
        failed = _failed_steps(error)
        value, crashed = Fail(failed) if failed else None, begun is None and not failed
        if crashed and not core.reason_to_stop():
            yield Sub(_asked_since(core))
        if crashed and not core.cleaning and not core.reason_to_stop():
            raise  # tried again like a crash: a deploy may mend it
        if crashed:
            yield Sub(_noted(core))
    if begun is None and CANCEL in core.records:
        return Ending("cancelled", _said(core)), None
    if isinstance(value, Fail | DeadLetter):
        return begun or Ending("failed" if isinstance(value, Fail) else "dead_letter", value.error), None
    return begun, value


def _failed_steps(error: Exception) -> str:
    """Which steps have failed, if it is that and nothing else: also in the group that a TaskGroup raises."""
    raised = leaves(error)
    return "; ".join(map(str, raised)) if all(isinstance(each, StepFailed) for each in raised) else ""


def _asked_since(core: Core) -> Doing:
    """Whether it was asked to stop since it last wrote. Not by a write: that is progress, and attempts begin anew."""
    found: Row | None = yield Ask(row(core.instance.id))
    if found is not None and found.headers:
        core.cancel = msgspec.json.decode(found.headers).get("tenure-cancel", "")


def _recorded(core: Core) -> Ending | None:
    mark = core.records.get(UNDONE)
    return Ending(msgspec.json.decode(mark.result or '"failed"'), mark.error or "") if mark is not None else None


def _said(core: Core) -> str:
    """Why it was cancelled between two steps."""
    return core.records[CANCEL].error or "" if CANCEL in core.records else ""


def _noted(core: Core) -> Doing:
    """Record that it is cancelled where its own function has failed, so that it is so in every later attempt."""
    if CANCEL not in core.records:
        stop = Step(*CANCEL, "cancel", "cancelled", error=core.reason_to_stop() or "on request")
        answer = yield from core.write(stop)
        core.cleaning, core.cancelled_at = True, answer.moment
        core.records[CANCEL] = stop


def _undone(core: Core, ending: Ending) -> Doing:
    """Undo all, between two marks: a redrive goes on with it after the first, and begins a new run after the second.

    What there is to undo the records say. They are asked for anew: an answer may have been lost, or its branch closed.
    """
    core.records = {(step.path, step.n): step for step in (yield Recall(core.instance.run))}
    core.check_end()
    if core.riders:
        yield from core.write()
    left = to_undo(core.undoable, core.records)
    if not left:
        return
    mark = Step(*UNDONE, "undone", "begun", result=encode(ending.how), error=ending.said)
    if UNDONE not in core.records:
        yield from core.write(mark)
    yield from _undo(core, left)
    yield from core.write(mark._replace(state="done"))


def _undo(core: Core, left: list[tuple[Call, Step]]) -> Doing:
    """The last first; each undo is a step of its own."""
    for n, (call, known) in enumerate(left):
        result = core.read(call, known.result) if known.state == "done" else None
        rest = ", ".join(each.name for each, _ in left[n:])
        since = max(core.cancelled_at, core.instance.redriven_at)
        if core.cancelled_at and core.now() - since > core.instance.cleanup_seconds:
            raise UndoFailed(f"its time to clean up was over after {core.instance.cleanup_seconds:g} s", rest)
        try:
            yield from core.step(undo_of(call, result, key_of(core.instance, call.path, call.n)))
        except StepFailed as error:
            raise UndoFailed(str(error), rest) from error
