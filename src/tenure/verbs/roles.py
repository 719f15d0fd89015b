"""How the roles of a schema stand: for whoever migrates it, and for doctor."""

from __future__ import annotations

from typing import NamedTuple

from .statement import Statement


class Grants(NamedTuple):
    """Whether roles are used, whether they were granted since the last migration, and what is open to everybody."""

    used: bool
    current: bool
    open_to_all: int


def grants() -> Statement[Grants]:
    """How roles stand here."""
    return Statement("grants", {}, lambda rows: Grants(*rows[0]))
