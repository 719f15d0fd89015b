"""What a flow answers and tells without a step: values that are the same in every attempt, and words for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid5

from ...errors import BadSettings
from ...model.payload import check_row_key
from .core import Core
from .lines import BRANCH, Branch
from .made_late import made_late
from .step_context import outside_of_steps
from .step_values import written
from .trouble import FlowLimit


class Stable:
    """One attempt at one instance: what it knows and says by itself."""

    _drawn = made_late[dict[str, int]](dict)  # how often at each place

    def __init__(self, driver: Any, core: Core, main: Branch) -> None:
        self._driver, self._core, self._main = driver, core, main

    def now(self) -> datetime:
        """When the last step or wait of this branch ended, by its record: the same in every attempt."""
        return datetime.fromtimestamp(self._core.moments.at(BRANCH.get(self._main).path), UTC)

    def uuid(self) -> UUID:
        """An id, the same in every attempt."""
        return uuid5(self._core.instance.id, self._draw("uuid"))

    def random(self) -> float:
        """A number from 0 to 1, the same in every attempt."""
        drawn = blake2b(f"{self._core.instance.id}/{self._draw('random')}".encode(), digest_size=7).digest()
        return int.from_bytes(drawn, "big") / (1 << 56)

    def _draw(self, what: str) -> str:
        outside_of_steps(f"flow.{what}")
        branch = BRANCH.get(self._main)
        place = f"{self._core.instance.run}/{branch.path}/{branch.n}/{what}"
        self._drawn[place] = n = self._drawn.get(place, 0) + 1
        return f"{place}/{n}"

    def show(self, key: str, value: Any) -> None:
        """A value for people, under this key: written with the next record."""
        self._core.shown[check_row_key(key, "key")] = written(key, value)

    def say(self, chunk: str) -> None:
        """Tell people something while a step runs, such as the words of a model: `step("model", ask, say=flow.say)`."""
        if not isinstance(chunk, str):
            raise BadSettings(f"say() takes text, not {type(chunk).__name__}: give it str, or use flow.show")
        self._driver.say(chunk.replace("\0", "").encode(errors="replace").decode())  # half a character is written as ?

    def turns(self, most: int) -> Iterator[int]:
        """0, 1, 2 … and FlowLimit after so many: a limit on everything."""
        yield from range(most)
        raise FlowLimit(f"the loop had its {most} turns: allow more with flow.turns(…), or end it sooner")
