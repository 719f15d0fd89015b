"""Groups of rows with one end: rows that are counted when they end, and what follows the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..errors import InvalidPayload
from ..model.payload import check_name
from ..model.rows import NewRow
from .sending import many_params
from .statement import Rows, Statement

GROUP_MAX = 100_000  # rows of one group; the database has the same limit
WAITING_SECONDS = 3650 * 86_400.0  # for how long a follower is sent ahead: what makes it due comes sooner


class Opened(NamedTuple):
    """A group that was sent: its number, and the ids of its rows in the order in which they were given."""

    id: int
    ids: list[UUID]


class Group(NamedTuple):
    """How a group stands."""

    id: int
    name: str | None
    size: int
    open: int
    failed: int
    cancelled: int
    opened_at: datetime
    ended_at: datetime | None
    then_row: UUID | None
    then_group: int | None
    failing: bool

    @property
    def done(self) -> int:
        """How many of its rows have ended, well or not."""
        return self.size - self.open


class Member(NamedTuple):
    """A row of a group, for people."""

    id: UUID
    status: str
    kind: str
    last_error: str | None


def open_group(
    rows: Sequence[NewRow],
    *,
    name: str | None = None,
    then_row: UUID | None = None,
    then_group: int | None = None,
    stop_on_failure: bool = False,
) -> Statement[Opened]:
    """Send these rows as a group, in the caller's transaction; without rows it ends at once.

    When the last of them has ended, `then_row` becomes due, and so do the rows of `then_group`: both were sent before,
    for a time far ahead. stop_on_failure makes them due with the first failure already.
    """
    if len(rows) > GROUP_MAX:
        raise InvalidPayload(f"a batch of {len(rows)} rows is too large, the limit is {GROUP_MAX}: send several")
    for row in rows:
        if row.idempotency_key is not None:
            raise InvalidPayload(
                f"a row of a batch has idempotency_key={row.idempotency_key!r}: a batch counts new rows, leave it out"
            )
    check_batch_name(name)
    params = many_params(rows)
    del params["idempotency_keys"]
    follower = {"then_row": then_row, "then_group": then_group, "stop_on_failure": stop_on_failure}
    return Statement("open_group", {**params, "name": name, **follower}, lambda answer: Opened(*answer[0]))


def check_batch_name(name: str | None) -> None:
    """InvalidPayload if no batch can have this name; None: it has none."""
    if name is not None:
        check_name(name, "name")


def group(id: int) -> Statement[Group | None]:
    """How one group stands; None if there is none, or no more."""
    return Statement("group", {"id": id}, lambda rows: Group(*rows[0]) if rows else None)


def groups(n: int = 100, *, before: int = 1 << 62) -> Statement[list[Group]]:
    """The latest groups, those with lower numbers than `before`."""
    return Statement("groups", {"n": n, "before": before}, lambda rows: [Group(*row) for row in rows])


def members(id: int, n: int = 50) -> Statement[list[Member]]:
    """Up to n rows of a group that have not ended, or ended badly, in the order in which they were sent."""
    return Statement("members", {"id": id, "n": n}, lambda rows: [Member(*row) for row in rows])


class LostMembers(NamedTuple):
    """A group that waits for rows which are gone, and marks of some of them, as `count_ends` takes them."""

    id: int
    lost: int
    marks: list[int]


class FoundLost(NamedTuple):
    """The answer to `lost_members`: what was found among the oldest open groups, and whether there are more."""

    found: list[LostMembers]
    looked_at: int
    more: bool


def lost_members(n: int = 100, rows: int = 200_000, marks: int = 20) -> Statement[FoundLost]:
    """Open groups that wait for rows which are gone; the oldest n are looked at, with so many rows in all."""
    params = {"n": n, "rows": rows, "marks": marks}
    return Statement("lost_members", params, _found_lost)


def _found_lost(rows: Rows) -> FoundLost:
    looked_at, more = rows[0][3:]
    return FoundLost([LostMembers(*row[:3]) for row in rows if row[0] is not None], looked_at, more)


class EndedGroup(NamedTuple):
    """How a batch ended."""

    id: int
    name: str
    size: int
    failed: int
    cancelled: int
    seconds: float


def tell_batches(n: int = 1000) -> Statement[list[EndedGroup]]:
    """Batches that have ended and of which nobody was told yet; each is in one answer only."""
    return Statement("tell_batches", {"n": n}, lambda rows: [EndedGroup(*row) for row in rows])
