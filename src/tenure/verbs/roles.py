"""The state of the roles of a schema, for `tenure migrate` and `tenure doctor`."""

from __future__ import annotations

from typing import NamedTuple

from .statement import Statement


class Grants(NamedTuple):
    """Whether roles are used, whether they were granted since the last migration, and how much is open to all."""

    used: bool
    current: bool
    open_to_all: int


def grants() -> Statement[Grants]:
    """The state of the roles."""
    return Statement("grants", {}, lambda rows: Grants(*rows[0]))
