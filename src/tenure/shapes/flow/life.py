"""The life of one attempt at a flow, from its records to its outcome; a generator like the calls of the core."""

from __future__ import annotations

from typing import Any

from ...events import DefinitionDiffered
from ...model.outcome import DeadLetter, Fail, Release, Snooze
from ...model.payload import encode
from .core import Core
from .effects import Doing, Main, Recall, Stop, Sub, Tell
from .trouble import Again, Asleep, ComeAgain, DefinitionDiffers, FlowBroken, FlowCancelled, StepFailed, UndoFailed

DIFFERS_SECONDS = (60.0, 600.0)  # a definition that differs is looked at again so much later, at first and at most


def life(core: Core, main: Main, *, recalled: bool, token: int, worker: str) -> Doing:
    """How the attempt ends: an outcome, or what the function returned."""
    if recalled:
        core.know((yield Recall(core.instance.run)))
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
        yield Sub(core.undo_all())
        yield Stop(error.reason)
        return Release(f"cancelled: {error.reason}")
    if isinstance(value, Fail | DeadLetter):
        yield Sub(core.undo_all())
        return value
    core.check_end()
    if core.riders or core.shown:
        yield Sub(core.write())
    return value
