"""Rebuilding a projection: its tables beside the old ones, filled from the first event on, then swapped."""

from __future__ import annotations

from uuid import UUID

from ..errors import BadSettings
from ..model.payload import check_name
from .statement import Rows, Statement


def ask_rebuild(projection: str, *, partial: bool = False) -> Statement[UUID]:
    """Ask for a rebuild, done by whichever worker is free; the id of its row. BadSettings if events were forgotten.

    `partial` says that tables without what was forgotten are wanted all the same.
    """

    def read(rows: Rows) -> UUID:
        known, forgotten_to, row_id = rows[0]
        if not known:
            raise BadSettings(f"there is no projection {projection!r}: `tenure projections` lists them")
        if row_id is None:
            raise BadSettings(
                f"projection {projection!r} cannot be rebuilt whole: events up to {forgotten_to} are past retention "
                "and gone; --partial rebuilds it from what is left"
            )
        return UUID(str(row_id))

    params = {"projection": check_name(projection, "projection"), "partial": partial}
    return Statement("ask_rebuild", params, read)


def open_shadow(projection: str) -> Statement[int | None]:
    """Make its tables anew and empty, unless they are there from before; how far they are filled. None: forgotten."""
    return Statement("open_shadow", {"projection": projection}, lambda rows: rows[0][0])


def enter_shadow(projection: str) -> Statement[None]:
    """Let unqualified names mean the rebuilt tables, for this transaction."""
    return Statement("enter_shadow", {"projection": projection}, lambda _: None)


def tables_written(projection: str) -> Statement[dict[str, int]]:
    """How often this transaction wrote to each table that is not rebuilt."""
    return Statement("tables_written", {"projection": projection}, lambda rows: dict(rows))


def lock_checkpoints(projection: str) -> Statement[int]:
    """Hold all shards where they are; the position of the furthest."""
    return Statement("lock_checkpoints", {"projection": projection}, lambda rows: int(rows[0][0] or 0))


def swap_shadow(projection: str, shards: int, upto: int) -> Statement[str]:
    """Put the rebuilt tables in the place of the old ones: "moved", or "copied" where something depends on them."""
    params = {"projection": projection, "shards": shards, "upto": upto}
    return Statement("swap_shadow", params, lambda rows: str(rows[0][0]))
