"""Branches that return though something of them failed: the function has caught that, and a redrive leaves it alone."""

from __future__ import annotations

from typing import Any

from ...verbs.steps import Step
from .branches import nothing_to_close
from .core import Core
from .lines import Branch
from .trouble import DefinitionDiffers

RETURNED = "returned"


class Returning:
    """A branch with code of the author's: that it returned though something of it failed is recorded behind that."""

    def __init__(self, driver: Any, core: Core, branch: Branch, given: Any) -> None:
        self._driver, self._core, self._branch, self._given = driver, core, branch, given

    def __await__(self) -> Any:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        value = await self._given
        self._returned()
        return value

    def __call__(self) -> Any:
        value = self._given()
        self._returned()
        return value

    def close(self) -> None:
        """It never begins, or has ended."""
        getattr(self._given, "close", nothing_to_close)()

    def _returned(self) -> None:
        core, path, n = self._core, self._branch.path, self._branch.n
        known = core.records.get((path, n))
        if not core.failures.below(path) and (known is None or known.name != RETURNED):
            return
        try:
            core.ask(path, n, RETURNED)
        except DefinitionDiffers as differs:
            raise self._driver.sleepers.stop(differs) from None
        if known is None and self._branch.walk is None:
            core.riders.append(Step(path, n, RETURNED, "done"))
