"""The journal: append events to a stream, and read them in one order without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import BadSettings, WrongVersion
from ..model.journal import Appended, Event, event_params, like_types
from ..model.payload import check_name, check_row_key
from .queues import RETENTION_SECONDS_MAX, RETENTION_SECONDS_MIN
from .statement import Rows, Statement

READ_MAX = 10_000  # events in one answer
FORGET_MAX = 10_000  # events in one round of keep_journal


class Horizon(NamedTuple):
    """Up to where the journal can be read, and the last number that was given out."""

    position: int
    last: int


class JournalFacts(NamedTuple):
    """How far the journal can be read, and who holds it back."""

    horizon: int
    last: int
    pid: int | None  # of the session with the lowest mark
    held_seconds: float | None  # how long its transaction has been open
    prepared: bool  # the lowest mark is of a prepared transaction
    cache: int  # of the sequence: more than 1 would give out numbers ahead
    open_partitions: list[str]  # somebody else than the owner may insert there
    retention_seconds: float | None
    rest: bool  # events stand where nobody made a partition

    @property
    def held_back(self) -> int:
        """How many positions cannot be read yet."""
        return max(0, self.last - self.horizon)


def journal_facts() -> Statement[JournalFacts]:
    """What doctor and metrics ask about the journal."""
    return Statement("journal_facts", {}, lambda rows: JournalFacts(*rows[0]))


def append(stream: str, events: Sequence[Any], *, expect: int | None = None) -> Statement[Appended]:
    """Append events to a stream; WrongVersion, and nothing written, if `expect` is not its last version."""

    def read(rows: Rows) -> Appended:
        version, position = rows[0]
        if position is None:
            raise WrongVersion(stream, expect or 0, version)
        return Appended(stream, version, position)

    return Statement("append", event_params(stream, events, expect), read)


def horizon() -> Statement[Horizon]:
    """Up to where the journal can be read now; refused outside READ COMMITTED."""
    return Statement("horizon", {}, lambda rows: Horizon(*rows[0]))


def read_between(
    after: int, upto: int, *, like: Sequence[str] | None = None, shard: int = 0, shards: int = 1, n: int = 500
) -> Statement[list[Event]]:
    """Events after a position, up to a horizon that an earlier statement has answered; of one shard of all streams."""
    params = {"after": after, "upto": upto, "like_types": like, "shard": shard, "shards": shards, "n": n}
    return Statement("read_between", {**params, "like_types": None if like is None else list(like)}, _events)


def read_after(after: int = 0, *, of: Sequence[str] | None = None, limit: int = 500) -> Statement[list[Event]]:
    """Events after a position, as far as no earlier one is still to come; `of` names types, like order.*"""
    params = {"after": _check_from(after), "like_types": like_types(of), "n": check_limit(limit)}
    return Statement("read_after", params, _events)


def read_stream(stream: str, *, after: int = 0, limit: int = 500) -> Statement[list[Event]]:
    """Events of one stream after a version, in order."""
    params = {"stream": check_row_key(stream, "stream"), "after": _check_from(after), "n": check_limit(limit)}
    return Statement("read_stream", params, _events)


def erase_stream(stream: str) -> Statement[int]:
    """Delete a stream with all its events; how many they were."""
    return Statement("erase_stream", {"stream": check_row_key(stream, "stream")}, lambda rows: int(rows[0][0]))


def keep_journal(*, n: int = FORGET_MAX) -> Statement[dict[str, int]]:
    """Make partitions ahead and forget events past retention, up to n; counts by name."""
    return Statement("keep_journal", {"n": n}, lambda rows: dict(rows))


def retain_journal(seconds: float | None) -> Statement[float | None]:
    """Keep events for so long; None: for ever."""
    if seconds is not None and not RETENTION_SECONDS_MIN <= seconds <= RETENTION_SECONDS_MAX:
        raise BadSettings(f"a retention of {seconds:g} seconds must be between an hour and ten years")
    return Statement("retain_journal", {"seconds": seconds}, lambda rows: rows[0][0])


def await_events(name: str, seconds: float) -> Statement[str]:
    """Say that this process wants a note of new events for so long; the channel to listen on."""
    return Statement(
        "await_events", {"name": check_name(name, "name"), "seconds": seconds}, lambda rows: str(rows[0][0])
    )


def check_limit(limit: int) -> int:
    """How many events to read, or BadSettings."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= READ_MAX:
        raise BadSettings(f"limit={limit!r} must be a whole number between 1 and {READ_MAX}")
    return limit


def _check_from(after: int) -> int:
    if not isinstance(after, int) or isinstance(after, bool) or not 0 <= after < 1 << 62:
        raise BadSettings(f"after={after!r} must be the number of the last event that was read: 0 to begin")
    return after


def _events(rows: Rows) -> list[Event]:
    return [Event(*row) for row in rows]
