"""What rows leave for those who wait for them: their results, and how far a job has come."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..errors import BadSettings, StaleLease
from ..model.ended import EndedRow
from ..model.payload import clean_error
from ..model.rows import Held
from .refusal import Found, judge, lease_params
from .statement import Rows, Statement, array, text_array

NOTE_CHARS_MAX = 500


class Left(NamedTuple):
    """What a row has left for those who look at it: its progress, its result and its batch."""

    at: datetime | None
    share: float | None
    note: str | None
    value: str | None
    batch: int | None
    uncounted: bool


class Relative(NamedTuple):
    """A row that waits for another (its parent), or that another waits for (a child); gone: only its id is known."""

    relation: str
    id: UUID
    kind: str | None
    queue: str | None
    status: str | None
    available_at: datetime | None


def family(id: UUID, n: int = 50, *, queues: Collection[str] | None = None) -> Statement[list[Relative]]:
    """The row that waits for this one, and up to n rows that this one waits for; of these queues alone, if given."""
    params = {"id": id, "n": n, "queues": None if queues is None else text_array(sorted(queues))}
    return Statement("family", params, lambda rows: [Relative(*row) for row in rows])


def left(id: UUID) -> Statement[Left]:
    """How far a row is, what it returned, and of which batch it is."""
    return Statement("left", {"id": id}, lambda rows: Left(*rows[0]))


def ended(ids: Sequence[UUID]) -> Statement[list[EndedRow]]:
    """How these rows ended, with their results, in the order of the ids; `unknown` if there is no such row."""
    return Statement("ended", {"ids": array(ids)}, lambda rows: [EndedRow(*row) for row in rows])


def await_end(id: UUID, seconds: float) -> Statement[str]:
    """Say that somebody waits for the end of this row; the channel on which a note comes with its result."""
    return Statement("await_end", {"id": id, "seconds": seconds}, lambda rows: str(rows[0][0]))


def progress(lease: Held, share: float | None, note: str | None = None) -> Statement[None]:
    """Note how far a job has come: a share from 0 to 1, and a sentence; StaleLease if it is not held."""
    if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
        raise BadSettings(f"share={share!r} must be a number from 0 to 1")
    cleaned = (clean_error(note) or "")[:NOTE_CHARS_MAX] or None
    told = {"id": lease.id, "generation": lease.generation, "fence": lease.fence, "share": share, "note": cleaned}

    def read(rows: Rows) -> Statement[None] | None:
        return None if rows else Statement("standing", lease_params([lease]), refused)

    def refused(rows: Rows) -> None:
        found = judge(lease, "progress", Found(*rows[0][2:]) if rows else None)
        raise StaleLease(lease, "progress", found.reason, found.current)

    return Statement("progress", told, read)
