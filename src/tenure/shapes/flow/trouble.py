"""What a workflow raises: into its own function, or to say that its definition was changed."""

from __future__ import annotations

from ...errors import NO, USAGE, TenureError
from ...model.payload import clean_error

LATE = "its deadline has passed"

NO_FLOW = (
    "{0!r} is a workflow, and its row was sent as a job: nothing was run. Start it in code, with {0}.start(conn, …)"
)


class StepFailed(TenureError):
    """A step has failed for good. Raised from its record, the first time as in every later run."""

    exit_code = NO

    def __init__(self, step: str, error: str) -> None:
        self.step, self.error = step, error
        super().__init__(f"step {step!r} failed: {error}")


class UndoFailed(TenureError):
    """An undo has failed for good: an operator has to undo what is left."""

    exit_code = NO

    def __init__(self, error: str, left: str) -> None:
        self.error, self.left = error, left
        super().__init__(f"{error}; left to undo: {left}")


class FlowStops(BaseException):
    """The function must not go on. No Exception: `except Exception` in a workflow must not catch it.

    Who catches it all the same gets it again from the next call, and at the end of the function.
    """


class FlowCancelled(FlowStops):
    """Somebody asked the flow to stop, or its deadline has passed: what it did is undone."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the flow is cancelled: {reason}")


class FlowLimit(TenureError):
    """A limit of flows was reached; the sentence names the remedy."""

    exit_code = USAGE


class InsideStep(FlowLimit):
    """The body of a step or an undo asked its flow for something: it would wait for itself."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} was asked for in the body of a step or an undo: "
            "the flow goes on when that has ended, so ask for it in the workflow's own function"
        )


class UseParallel(TenureError):
    """Steps of one path were asked for from two tasks: their numbers would differ from run to run."""

    exit_code = USAGE

    def __init__(self, step: str) -> None:
        super().__init__(
            f"step {step!r} was asked for beside the steps before it, not after them: "
            "give branches to flow.parallel(a(flow), b(flow)) instead of gather"
        )


class DefinitionDiffers(FlowStops):
    """The code asks for another step than the one that is recorded there; nothing of it was run."""

    def __init__(
        self, instance: object, workflow: str, version: int, path: str, n: int, recorded: str, asked: str
    ) -> None:
        self.instance, self.workflow, self.version = instance, workflow, version
        self.path, self.n, self.recorded, self.asked = path, n, recorded, asked
        place = f"{path}/{n}" if path else str(n)
        super().__init__(
            f"definition differs: {workflow} version {version} has {recorded} recorded as step {place}, "
            f"and the code asks for {asked}: deploy the code it began with, or keep both by flow.patched() or a version"
        )


class InputDiffers(DefinitionDiffers):
    """The code does not take the input that the instance has; nothing was run."""

    def __init__(self, instance: object, workflow: str, version: int, why: str) -> None:
        super().__init__(instance, workflow, version, "", 0, "its input", why)
        self.args = (
            f"definition differs: {workflow} version {version} does not take the input that it has ({why}): "
            "deploy the code it began with, give new parameters a default, or keep both by a version",
        )


class Asleep(FlowStops):
    """The row was given back."""


class Again(FlowStops):
    """The function asks to begin anew with another input."""

    def __init__(self, payload: str) -> None:
        self.payload = payload  # as JSON
        super().__init__("begin anew")


class ComeAgain(FlowStops):
    """The flow cannot go on in this attempt, and comes again soon: nothing of it has failed."""


class FlowBroken(FlowStops):
    """This attempt is over for a reason that its worker has to judge, such as a lost lease."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(str(error))


class RecordsEnd(BaseException):
    """What comes now would be done for the first time, and must not be."""


class BranchClosed(RecordsEnd):
    """Here a branch was closed, for it had lost a race."""


class Permanent(Exception):
    """The step says itself that it has failed for good."""


class BodyCancelled(Exception):
    """Code of the author's raised CancelledError itself, and nobody had cancelled it: a failure like any other."""

    def __init__(self) -> None:
        super().__init__("CancelledError: nobody cancelled it, its own code raised this")


def leaves(error: BaseException) -> list[BaseException]:
    """What was raised: the error, or all that is in the group that a TaskGroup raises."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


def said_of(error: BaseException) -> str:
    """What is recorded of a failure, and told in the first attempt as in every later one."""
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be read"
    if not isinstance(error, Permanent | BodyCancelled):
        text = f"{type(error).__name__}: {text}"
    return clean_error(text) or ""
