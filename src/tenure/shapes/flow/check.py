"""Would the code of now go on with these records? Runs a definition over them without any body, up to its frontier."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any
from uuid import UUID

from ...app.function_kind import is_async
from ...errors import InvalidPayload
from ...verbs.steps import Step
from .core import Core
from .effects import Doing, Effect, Instance
from .flow import Flow
from .flows import Workflow, began_at
from .lines import BRANCH, Branch, Join
from .trouble import DefinitionDiffers, FlowStops, InputDiffers, RecordsEnd, StepFailed, leaves

NOBODY = UUID(int=0)
SECONDS_MAX = 10.0  # for the code of one flow between its steps


class Frontier(RecordsEnd):
    """Here the records end: what comes now would be done for the first time."""


class StandsStill(TimeoutError):
    """The code of the function comes to no step in time: so it may for every other flow that runs it."""

    def __init__(self) -> None:
        super().__init__(f"its function comes to no step within {SECONDS_MAX:g} s")


class _Noted(Core):
    """Remembers where it differs, also in a branch."""

    def __init__(self, instance: Instance, records: list[Step]) -> None:
        super().__init__(instance, began_at(instance.id))
        self.know(records)
        self.found: list[DefinitionDiffers] = []

    def differs(self, path: str, n: int, recorded: str, asked: str) -> DefinitionDiffers:
        """Note it."""
        error = super().differs(path, n, recorded, asked)
        self.found.append(error)
        return error


class _NoSleepers:
    """Nobody waits: every wait is the frontier."""

    ended = None

    def enter(self, branch: Branch) -> None:
        """Nothing to count."""

    def leave(self, branch: Branch, join: Join) -> None:
        """Nothing to count."""

    def join(self, branch: Branch, left: int) -> Join:
        """Nothing to count."""
        return Join(branch, left)

    def joined(self, join: Join) -> None:
        """Nothing to count."""

    async def quiet(self) -> None:
        """Nothing is under way."""

    def stop(self, why: BaseException) -> BaseException:
        """Nobody is told."""
        return why


class _Dry:
    """A driver that does nothing."""

    def __init__(self, blocking: bool, core: Core) -> None:
        self.blocking, self.core, self.sleepers, self.job = blocking, core, _NoSleepers(), _NoJob()

    def me(self) -> object:
        """Who asks."""
        return threading.get_ident() if self.blocking else asyncio.current_task()

    def say(self, chunk: str) -> None:
        """Nobody is told."""

    def go(self, doing: Doing) -> Any:
        """The recorded value, or the frontier."""
        return _recorded(doing) if self.blocking else self._go(doing)

    async def _go(self, doing: Doing) -> Any:
        walk = BRANCH.get().walk
        return _recorded(doing) if walk is None else await walk.through(doing, _frontier)


async def _frontier(effect: Effect) -> Any:
    del effect
    raise Frontier


class _NoJob:
    schema = "tenure"


def _recorded(doing: Doing) -> Any:
    try:
        next(doing)
    except StopIteration as end:
        return end.value
    raise Frontier


async def _limited(going: Any) -> None:
    """Where it awaits, it is ended: its thread does not stay behind."""
    try:
        async with asyncio.timeout(SECONDS_MAX) as limit:
            await going
    except TimeoutError:
        if not limit.expired():
            raise
        raise StandsStill from None


def _in_time(look: Callable[[], None]) -> None:
    """A function that stands still between its steps must not keep the others from being looked at.

    Nobody can end one that blocks: it is left behind in a thread of its own.
    """
    raised: list[BaseException] = []
    context = copy_context()

    def live() -> None:
        try:
            context.run(look)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=live, name="tenure-check", daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    if thread.is_alive():
        raise StandsStill
    if raised:
        raise raised[0]


def check(
    workflow: Workflow,
    payload: str,
    records: list[Step],
    *,
    version: int | None = None,
    id: UUID = NOBODY,
    run: int = 1,
) -> DefinitionDiffers | None:
    """Where this definition differs from these records; None if it can go on with them.

    The id and the run say what flow.now(), uuid() and random() answer.
    """
    definition = workflow.newest if version is None else workflow.versions[version]
    core = _Noted(Instance(id, workflow.name, definition.version, run, strict=definition.strict), records)
    try:
        args, fields = definition.signature.arguments(None, payload)
    except InvalidPayload as error:
        return InputDiffers(id, workflow.name, definition.version, str(error))
    blocking = not is_async(definition.function)
    driver = _Dry(blocking, core)

    def begin() -> Any:
        main = Branch("", driver.me())
        BRANCH.set(main)
        return definition.function(Flow(driver, core, main, definition.signature), *args, **fields)

    async def awaited() -> None:
        await _limited(begin())

    def look() -> None:
        if blocking:
            begin()
        else:
            asyncio.run(awaited())
        core.check_end()

    try:
        _in_time(look)
    except BaseException as error:
        if not all(isinstance(each, Frontier | FlowStops | StepFailed) for each in leaves(error)):
            raise
    return core.found[0] if core.found else None
