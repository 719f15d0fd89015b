"""Projections: how far each shard has read, moved together with what it has applied."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, NoReturn

from ..errors import StaleLease, telling_line
from ..model.journal import Event
from ..model.payload import check_name, clean_error
from ..model.rows import Held
from .lifecycle import Entered
from .refusal import Found, judge, lease_params
from .statement import Rows, Statement

ENDED = ("failed", "dead_letter", "cancelled")


class ShardState(NamedTuple):
    """How far a shard is, and what somebody has asked of it."""

    position: int
    state: str
    paused: bool
    shards: int
    like_types: list[str] | None
    on_error: str
    again: bool  # events that it has skipped shall be applied after all


class ShardLag(NamedTuple):
    """One shard as people see it."""

    projection: str
    shard: int  # -1: the tables that are being rebuilt
    shards: int
    position: int
    behind: int  # positions up to the last event that is committed
    lag_seconds: float  # the age of the first event that it has not read
    state: str  # running, stopped, waiting, no_worker (that serves it), no_row; of one that has ended, its status
    paused: bool
    stopped_at: int | None
    error: str | None  # of the event that it cannot apply, or of the job itself
    skipped: int
    updated_at: datetime
    queue: str


class Resumed(NamedTuple):
    """What there was to do for a projection to go on."""

    unpaused: bool
    again: int  # shards that stopped at an event and try it again
    made: int  # shards that have a new row
    brought_back: int  # whose row had failed or was a dead letter
    hastened: int  # whose row was to wait, or was in another queue

    def said(self) -> str:
        """In words; "" if there was nothing to do."""
        counts = (
            (self.again, "tries its event again", "try their events again"),
            (self.made, "has a new row, which goes on where it was", "have new rows, which go on where they were"),
            (self.brought_back, "comes back", "come back"),
            (self.hastened, "is tried at once", "are tried at once"),
        )
        said = [f"{n} shard{'s' * (n != 1)} {one if n == 1 else more}" for n, one, more in counts if n]
        return "; ".join(["it is no longer paused"] * self.unpaused + said)


def queue_of(projection: str) -> str:
    """The queue of its rows unless it has another: its own, or workers without its handler would claim them."""
    return f"projection:{projection}"


def plan_projection(
    projection: str,
    *,
    shards: int,
    like: Sequence[str] | None,
    tables: Sequence[str] = (),
    on_error: str = "stop",
    queue: str | None = None,
) -> Statement[int]:
    """Make sure that a projection has its checkpoints and a row for each shard; how many rows were missing.

    Rows that are in another queue than this one come to it.
    """
    params = {"projection": projection, "shards": shards, "like_types": None if like is None else list(like)}
    told = {"tables": list(tables), "on_error": on_error, "queue": queue or queue_of(projection)}
    return Statement("plan_projection", {**params, **told}, _number)


def shard_state(projection: str, shard: int) -> Statement[ShardState | None]:
    """How far a shard is; None if the projection was forgotten."""
    return Statement(
        "shard_state", {"projection": projection, "shard": shard}, lambda rows: ShardState(*rows[0]) if rows else None
    )


def advance(
    projection: str, shard: int, read_from: int, read_to: int, lease: Held, *, shards: int | None = None
) -> Statement[None]:
    """Move the checkpoint, in the transaction of what was applied; StaleLease if another has, or holds the row.

    Or if the streams are no longer dealt among so many `shards`; None asks nothing.
    """

    def read(rows: Rows) -> Statement[None] | None:
        held, moved, _ = rows[0]
        if held and not moved:
            raise StaleLease(lease, "advance", "checkpoint_moved")
        return None if held else _refused(lease, "advance")

    params = {"projection": projection, "shard": shard, "read_from": read_from, "read_to": read_to, "shards": shards}
    return Statement("advance", {**params, **_one(lease)}, read)


def enter_batch(projection: str, shard: int, lease: Held) -> Statement[Entered]:
    """Begin the transaction of a batch: its checkpoint is locked; StaleLease if the lease is not current."""
    params = {"projection": projection, "shard": shard, **_one(lease)}
    return Statement("enter_batch", params, lambda rows: Entered.of(rows) if rows else _refused(lease, "enter"))


def stop_shard(projection: str, shard: int, read_from: int, position: int, error: str, lease: Held) -> Statement[bool]:
    """Say at which event a shard has stopped, and why."""
    params = {"projection": projection, "shard": shard, "read_from": read_from, "position": position}
    return Statement(
        "stop_shard", {**params, "error": clean_error(error), **_one(lease)}, lambda rows: bool(rows[0][0])
    )


def skip_event(projection: str, shard: int, position: int, error: str) -> Statement[int]:
    """Note an event that could not be applied, in the transaction that passes over it."""
    params = {"projection": projection, "shard": shard, "position": position, "error": clean_error(error)}
    return Statement("skip_event", params, _number)


def skipped_again(projection: str, shard: int, *, n: int = 100) -> Statement[list[Event]]:
    """Events that were skipped and shall be applied after all."""
    params = {"projection": projection, "shard": shard, "n": n}
    return Statement("skipped_again", params, lambda rows: [Event(*row) for row in rows])


def was_skipped(projection: str, position: int) -> Statement[bool]:
    """True if a projection has skipped this event before, by itself or by an operator."""
    return Statement("was_skipped", {"projection": projection, "position": position}, _known)


def reapplied(projection: str, shard: int, position: int, lease: Held) -> Statement[None]:
    """Take an event off the list, in the transaction that has applied it; StaleLease if another has."""

    def read(rows: Rows) -> None:
        if not rows[0][0]:
            raise StaleLease(lease, "reapplied", "already_applied")

    return Statement("reapplied", {"projection": projection, "shard": shard, "position": position}, read)


def reapply(projection: str, position: int | None = None) -> Statement[int]:
    """Ask for skipped events to be applied after all: all, or one; how many there are."""
    return Statement("reapply", {"projection": check_name(projection, "projection"), "position": position}, _number)


def skip_stopped(projection: str) -> Statement[int]:
    """Pass over the events at which shards have stopped; how many."""
    return Statement("skip_stopped", {"projection": check_name(projection, "projection")}, _number)


def pause_projection(projection: str) -> Statement[bool]:
    """Apply no more events until it is resumed; False if there is no such projection."""
    return Statement("pause_projection", {"projection": check_name(projection, "projection")}, _known)


def resume_projection(projection: str) -> Statement[Resumed | Literal[False]]:
    """Go on, try again where a shard has stopped, and bring back rows that are gone; False if there is no such one."""

    def read(rows: Rows) -> Resumed | Literal[False]:
        known, *done = rows[0]
        return Resumed(*done) if known else False

    return Statement("resume_projection", {"projection": check_name(projection, "projection")}, read)


def forget_projection(projection: str) -> Statement[bool]:
    """Forget how far it was; its tables stay. False if there is no such projection."""
    return Statement("forget_projection", {"projection": check_name(projection, "projection")}, _known)


def projections() -> Statement[list[ShardLag]]:
    """Every shard of every projection, and how far it is behind the last event that is committed."""
    return Statement("projections", {}, lambda rows: [_on_one_line(ShardLag(*row)) for row in rows])


def _on_one_line(lag: ShardLag) -> ShardLag:
    """The error of a job is a traceback: the line of it that tells."""
    return lag._replace(error=telling_line(lag.error)) if lag.error else lag


def _refused(lease: Held, verb: str) -> Statement[Any]:
    def read(rows: Rows) -> NoReturn:
        found = judge(lease, verb, Found(*rows[0][2:]) if rows else None)
        raise StaleLease(lease, verb, found.reason, found.current)

    return Statement("standing", lease_params([lease]), read)


def _one(lease: Held) -> dict[str, Any]:
    return {"id": lease.id, "generation": lease.generation, "fence": lease.fence}


def _number(rows: Rows) -> int:
    return int(rows[0][0])


def _known(rows: Rows) -> bool:
    return bool(rows[0][0])
