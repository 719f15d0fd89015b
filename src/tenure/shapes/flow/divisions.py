"""How a map is divided into parts. Each part that is sent records it: a later attempt divides it in the same way."""

from __future__ import annotations

from typing import NamedTuple

from .core import Core
from .trouble import DefinitionDiffers

SIZES = 1_000_000  # more than a map may have inputs


class Division(NamedTuple):
    """So many inputs, so many of them at a time; and whether a failure keeps the parts behind it from being sent."""

    inputs: int
    size: int
    stops: bool

    def __str__(self) -> str:
        window = f", {self.size} at a time" if self.parts > 1 else ""
        return f"{self.inputs} inputs{window}{' until one fails' if self.stops else ''}"

    @property
    def parts(self) -> int:
        """How many; a map without inputs has one, too."""
        return max(1, -(-self.inputs // self.size))

    @property
    def number(self) -> int:
        """As it is recorded; never 0, which says nothing."""
        return (self.inputs * SIZES + self.size) * 2 + self.stops


def divided(inputs: int, window: int | None, stop_on_failure: bool) -> Division:
    """The division that a map asks for; a window that has room for all inputs divides nothing."""
    size = min(max(1, window or inputs), max(1, inputs))
    return Division(inputs, size, stop_on_failure and size < inputs)


def other_division(core: Core, place: tuple[str, int], name: str, division: Division) -> DefinitionDiffers | None:
    """The error if this map was begun with another division: inputs would be left out, or sent twice."""
    known = core.records.get(place)
    if known is None or known.name != name or known.args_hash in (0, division.number):
        return None
    rest, stops = divmod(known.args_hash, 2)
    recorded = Division(*divmod(rest, SIZES), bool(stops))
    return core.differs(*place, f"{name!r} of {recorded}", str(division))
