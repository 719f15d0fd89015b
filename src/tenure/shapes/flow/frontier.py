"""The frontier of an attempt: nothing is done for the first time before all branches have passed what is recorded.

So code that asks for another step in one branch is found before a body of another branch begins. What is recorded is
answered at once, so all branches come there within a few turns of the loop; threads need a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from .core import Core
from .effects import Effect, Fenced, Hold, Nap, Recall, Run, Write
from .lines import Branch
from .looking_again import TURNS
from .trouble import FlowCancelled
from .undoing import is_of

WALK_SECONDS = 1.0  # for a branch that awaits something of its own between its steps: then the others go on
PAUSE_SECONDS = 0.005


async def behind(driver: Any, branch: Branch, effect: Effect, do: Callable[[Effect], Awaitable[Any]]) -> Any:
    """Do this when all branches have come to where their records end."""
    if not isinstance(effect, Hold | Nap | Recall):
        for _ in range(TURNS):  # calls that the function has made itself begin in the next turn
            if not driver.core.unseen:
                break
            await asyncio.sleep(0)
        for _ in _looks(driver, branch):
            await asyncio.sleep(PAUSE_SECONDS)
        _still_wanted(driver, branch, effect)
    return await do(effect)


def behind_in_threads(driver: Any, branch: Branch, effect: Effect, do: Callable[[Effect], Any]) -> Any:
    """The same, where each branch is a thread."""
    if not isinstance(effect, Hold | Nap | Recall):
        for _ in _looks(driver, branch):
            time.sleep(PAUSE_SECONDS)
        _still_wanted(driver, branch, effect)
    return do(effect)


def _looks(driver: Any, branch: Branch) -> Iterator[None]:
    """As long as others are on their way, and not for ever: who has waited once waits no more in this attempt."""
    by, core = time.monotonic() + WALK_SECONDS, driver.core
    while driver.sleepers.ended is None and (left := _on_their_way(core, driver.sleepers.branches(), branch)):
        if time.monotonic() > by:
            core.unseen -= left
            return
        yield


def _on_their_way(core: Core, branches: list[Branch], me: Branch) -> set[tuple[str, int]]:
    """What is recorded of branches that have not ended, and not asked for yet."""
    others = [each.roots for each in branches if each.path and each is not me and each.walk is None]
    return {
        place
        for place in tuple(core.unseen)
        if not is_of(core.closed, *place) and any(is_of(roots, *place) for roots in others)
    }


def _still_wanted(driver: Any, branch: Branch, effect: Effect) -> None:
    """Raise what has stopped the attempt meanwhile; a flow that is cancelled begins nothing more in a branch."""
    if driver.sleepers.ended is not None:
        raise driver.sleepers.ended
    begins = any(step.state == "begun" for step in effect.steps) if isinstance(effect, Write) else False
    if driver.sleepers.cancelled is not None and branch.path and (begins or isinstance(effect, Run | Fenced)):
        raise FlowCancelled(driver.sleepers.cancelled.reason)
