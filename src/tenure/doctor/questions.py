"""What doctor asks the database; each question takes bounded time, however many rows there are."""

from __future__ import annotations

from typing import NamedTuple

from ..verbs.statement import Statement


class Server(NamedTuple):
    """What the server is and how it is set."""

    version: str
    number: int
    recovery: bool
    seconds: float  # its clock
    autovacuum: bool
    track_counts: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    max_connections: int
    reserved: int
    connections: int
    user: str
    sees_all: bool
    public_open: bool  # everybody may create functions in the schema public
    read_only: bool  # its sessions refuse every write, as a standby's do


class Standbys(NamedTuple):
    """Who follows this server: how many, for how many of them commits wait, and what is set."""

    streaming: int
    synchronous: int
    names: str  # synchronous_standby_names
    commit: str  # synchronous_commit


class Open(NamedTuple):
    """A transaction, replication slot or prepared transaction that may hold back vacuum."""

    what: str
    name: str
    pid: int | None
    state: str | None
    open_seconds: float | None
    idle_seconds: float | None
    held_xids: int | None
    query: str | None


class Index(NamedTuple):
    """One index of the schema."""

    table: str
    name: str
    usable: bool
    bytes: int


class HotTable(NamedTuple):
    """The size of the hot table, and when it was vacuumed."""

    live: int
    dead: int
    table_bytes: int
    index_bytes: int
    vacuumed_seconds: float | None
    enabled: bool


class Chore(NamedTuple):
    """One chore of housekeeping; `ran_seconds` is None if it was never done."""

    name: str
    every_seconds: float
    ran_seconds: float | None
    ran_by: str | None


class Day(NamedTuple):
    """A day of the archive; `stray` rows are in no day's partition, `kept` days are there, `locks` has the server."""

    day: str
    made: bool
    stray: int
    kept: int = 0
    locks: int = 0


def server_facts() -> Statement[Server]:
    """What the server is and how it is set."""
    return Statement("server_facts", {}, lambda rows: Server(*rows[0]))


def standbys() -> Statement[Standbys]:
    """Who follows this server."""
    return Statement("standbys", {}, lambda rows: Standbys(*rows[0]))


def transactions(n: int = 20) -> Statement[list[Open]]:
    """What holds back vacuum, the oldest first."""
    return Statement("transactions", {"n": n}, lambda rows: [Open(*row) for row in rows])


def indexes() -> Statement[list[Index]]:
    """Every index of the schema."""
    return Statement("indexes", {}, lambda rows: [Index(*row) for row in rows])


def hot_table() -> Statement[HotTable | None]:
    """The hot table, from the statistics."""
    return Statement("hot_table", {}, lambda rows: HotTable(*rows[0]) if rows else None)


def chores() -> Statement[list[Chore]]:
    """The chores of housekeeping, and when each was done."""
    return Statement("chores", {}, lambda rows: [Chore(*row) for row in rows])


def archive_days() -> Statement[list[Day]]:
    """Today and the two coming days."""
    return Statement("archive_days", {}, lambda rows: [Day(*row) for row in rows])


def overdue(*, seconds: float = 10.0) -> Statement[tuple[int, float]]:
    """How many leases have been over for so long, and the longest of them in seconds."""
    return Statement("overdue", {"seconds": seconds}, lambda rows: (int(rows[0][0]), float(rows[0][1])))
