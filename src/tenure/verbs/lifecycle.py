"""The verbs of a row's life, each as a Statement: claim, renew, sweep, cancel, redrive, and the fence."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from ..errors import BadSettings, StaleFence, StaleLease
from ..model.payload import check_name
from ..model.rows import BUCKETS, Claimed, Held, Lane, Lease, Renewed, Swept
from .refusal import Found, judge, lease_params
from .statement import Rows, Statement, array, text_array

ALL_BUCKETS = tuple(range(BUCKETS))
LEASE_SECONDS = 90.0
LEASE_SECONDS_MAX = 86_400.0
ORDERED_MAX = 2000  # rows of one claim of ordered keys, as long as each key has one
FORGOTTEN_MAX = 1000  # of each table, in one round of archive
_available, _priority = itemgetter(Claimed._fields.index("available_seconds")), itemgetter(-1)


def claim(
    worker: str,
    n: int,
    *,
    buckets: Sequence[int] | None = None,
    lanes: Sequence[Lane] = (Lane(),),
    floors: Sequence[float] | None = None,
    lease_seconds: float = LEASE_SECONDS,
    claim_id: int | None = None,
    seen_epoch: int = 0,
    in_crowd: bool = False,
) -> Statement[list[Claimed]]:
    """Claim up to n runnable unordered rows of these lanes, each under a new lease.

    A lane is a queue at one priority; `questions.lanes` lists those that have rows. Those that have been due longest
    come first; with buckets, only rows of these buckets. A floor (epoch seconds, one for each lane) says where the scan
    may begin: all rows due before it are gone. In a crowd, where many claim at once, it waits up to half a second for
    its turn to search: send it as a transaction of its own.
    """
    if floors is not None and len(floors) != len(lanes):
        raise BadSettings(f"{len(floors)} floors for {len(lanes)} lanes: give one for each")
    params = {
        **claim_params(worker, n, lease_seconds, claim_id, seen_epoch),
        "queues": text_array([lane.queue for lane in lanes]),
        "priorities": array([lane.priority for lane in lanes]),
        "floors": array(["-inf"] * len(lanes) if floors is None else floors),
        "buckets": None if buckets is None else array(buckets),
    }
    return Statement("claim_in_crowd" if in_crowd else "claim", params, _in_order(claimed_by(worker)))


def _in_order(read: Callable[[Rows], list[Claimed]]) -> Callable[[Rows], list[Claimed]]:
    """The same for rows as they lie, each with its priority: the most urgent first, then by time."""
    return lambda rows: read([row[:-1] for row in sorted(sorted(rows, key=_available), key=_priority, reverse=True)])


def claim_ordered(
    worker: str,
    n: int,
    *,
    queues: Sequence[str] = ("default",),
    buckets: Sequence[int] | None = None,
    run_length: int = 1,
    most: int = ORDERED_MAX,
    from_arrival: int = 0,
    from_due: float = float("-inf"),
    lease_seconds: float = LEASE_SECONDS,
    claim_id: int | None = None,
    seen_epoch: int = 0,
) -> Statement[list[Claimed]]:
    """Claim the next rows of up to n ordered keys: of each key a run, at most `run_length` rows in order.

    If they are more than `most` in all, runs are shorter, alike for all keys that have rows, and never empty.
    A key that is taken, or whose next row is not due yet, gives none. With buckets, only keys of these buckets are
    claimed. Arrivals before `from_arrival`, and keys due before `from_due` (epoch seconds), are left to a later claim.
    """
    if run_length < 1:
        raise BadSettings(f"a run of run_length={run_length} rows takes nothing: ask for at least 1")
    return Statement(
        "claim_ordered",
        {
            **claim_params(worker, n, lease_seconds, claim_id, seen_epoch),
            "run_length": run_length,
            "most": most,
            "queues": list(queues),
            "buckets": None if buckets is None else array(buckets),
            "from_arrival": from_arrival,
            "from_due": from_due,
        },
        claimed_by(worker),
    )


def claim_params(worker: str, n: int, lease_seconds: float, claim_id: int | None, seen_epoch: int) -> dict[str, Any]:
    """The parameters of every claim, checked."""
    check_name(worker, "worker")
    if n < 1:
        raise BadSettings(f"a claim of n={n} rows takes nothing: ask for at least 1")
    return {
        "worker": worker,
        "n": n,
        "lease_seconds": check_lease_seconds(lease_seconds),
        "claim_id": secrets.randbits(62) if claim_id is None else claim_id,
        "seen_epoch": seen_epoch,
    }


def check_lease_seconds(lease_seconds: float) -> float:
    """The length of a lease, or BadSettings."""
    if not 0 < lease_seconds <= LEASE_SECONDS_MAX:
        raise BadSettings(f"lease_seconds={lease_seconds!r} must be above 0 and at most {LEASE_SECONDS_MAX:.0f}")
    return lease_seconds


def claimed_by(worker: str) -> Callable[[Rows], list[Claimed]]:
    """A reader for the rows of claim, claim_ordered and claimed."""
    who = (worker,)
    return lambda rows: [tuple.__new__(Claimed, row + who) for row in rows]


def renew(leases: Sequence[Lease], *, lease_seconds: float | Sequence[float] = LEASE_SECONDS) -> Statement[Renewed]:
    """Extend these leases; those not kept are lost, and their holder must stop."""
    seconds = [lease_seconds] * len(leases) if isinstance(lease_seconds, int | float) else lease_seconds
    in_order = sorted(zip(leases, seconds, strict=True), key=lambda pair: pair[0].id.int)

    def read(rows: Rows) -> Renewed | Statement[Renewed]:
        ends = {(id, fence): end for id, fence, end, _ in rows}
        asked = frozenset(id for id, *_, asked in rows if asked)
        kept = tuple(lease._replace(ends_seconds=ends[lease.identity]) for lease in leases if lease.identity in ends)
        rest = [lease for lease in leases if lease.identity not in ends]
        return _ask_after(rest, kept, asked) if rest else Renewed(kept, cancel_asked=asked)

    return Statement(
        "renew",
        {
            **lease_params([lease for lease, _ in in_order]),
            "lease_seconds": array([check_lease_seconds(s) for _, s in in_order]),
        },
        read,
    )


def _ask_after(rest: Sequence[Lease], kept: tuple[Lease, ...], asked: frozenset[UUID]) -> Statement[Renewed]:
    """Leases not renewed are lost, unless the row was only locked, or its holder has just completed it."""

    def read(rows: Rows) -> Renewed:
        found = {(id, fence): Found(*facts) for id, fence, *facts in rows}
        reasons = {lease: judge(lease, "renew", found.get(lease.identity)).reason for lease in rest}
        as_it_was = tuple(lease for lease in rest if reasons[lease] in ("try_again", "already_completed"))
        return Renewed(kept, tuple(lease for lease in rest if lease not in as_it_was), asked, as_it_was)

    return Statement("standing", lease_params(rest), read)


def sweep(n: int = 1000, *, from_until: float = float("-inf")) -> Statement[list[Swept]]:
    """End attempts whose lease ran out, as far as they are in the list of claims, from a floor (epoch seconds) on."""
    return Statement("sweep", {"n": n, "from_until": from_until}, lambda rows: [Swept(*row) for row in rows])


def sweep_pages(first: int = 0, pages: int = 1 << 32, *, n: int = 1000) -> Statement[list[Swept]]:
    """The same for every row on these pages of the hot table, listed or not: all pages, unless given."""
    return Statement(
        "sweep_pages", {"first": first, "pages": pages, "n": n}, lambda rows: [Swept(*row) for row in rows]
    )


def note_forgotten(first: int = 0, pages: int = 1 << 32, *, due_seconds: float = 60.0) -> Statement[int]:
    """Let claims look again at keys on these pages that have been due for so long and that none would find."""
    params = {"first": first, "pages": pages, "due_seconds": due_seconds}
    return Statement("note_forgotten", params, lambda rows: int(rows[0][0]))


def cancel(
    ids: Sequence[UUID], *, reason: str = "cancelled by an operator", undone: bool = False
) -> Statement[dict[UUID, str]]:
    """End pending rows as cancelled, ask the holders of processing rows to stop; ids not in the answer had ended.

    A flow that has begun is asked to undo what it did first; `undone` says that this is done.
    """
    params = {"ids": array(sorted(ids)), "reason": reason, "undone": undone}
    return Statement("cancel", params, lambda rows: {row[0]: row[1] for row in rows})


def redrive(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Bring failed and dead_letter rows back with new attempts; their tokens and fences go on from where they were.

    A flow tries again what failed, goes on undoing where it stopped, or begins again if it was undone completely.
    """
    return Statement("redrive", {"ids": array(sorted(ids))}, lambda rows: [row[0] for row in rows])


def archive(
    *, retention_seconds: float = 14 * 86_400.0, key_retention_seconds: float = 30 * 86_400.0, n: int = FORGOTTEN_MAX
) -> Statement[dict[str, int]]:
    """Create and drop partitions of the archive and delete what is past retention, up to n of each; counts by name.

    Anything younger than an hour is kept, whatever retention is given; n is at most 10,000.
    """
    return Statement(
        "archive",
        {"retention_seconds": retention_seconds, "key_retention_seconds": key_retention_seconds, "n": n},
        lambda rows: dict(rows),
    )


def fence(resource: str, number: int) -> Statement[int]:
    """Admit a write to a resource under this fence, or raise StaleFence; locks it until the transaction ends."""

    def read(rows: Rows) -> int | Statement[int]:
        return int(rows[0][0]) if rows else Statement("fenced_at", {"resource": resource}, refused)

    def refused(rows: Rows) -> int:
        raise StaleFence(resource, number, rows[0][0] if rows else number)

    return Statement("fence", {"resource": check_name(resource, "resource"), "fence": number}, read)


def once(lease: Held, effect: str) -> Statement[bool]:
    """True for the first caller of this effect of this row, in any attempt; StaleLease if not held."""

    def read(rows: Rows) -> bool | Statement[bool]:
        held, first = rows[0]
        return bool(first) if held else _refused(lease, "once")

    return Statement("once", {**_one(lease), "effect": check_name(effect, "effect")}, read)


def holding(lease: Held) -> Statement[float]:
    """Seconds left of a current lease; StaleLease if it is not current or already over."""
    return Statement("holding", _one(lease), lambda rows: float(rows[0][0]) if rows else _refused(lease, "holding"))


class Entered(NamedTuple):
    """A transaction that was begun: how long the lease lasts, and what `last_entered` says once it is committed."""

    seconds_left: float
    mark: str

    @classmethod
    def of(cls, rows: Rows) -> Entered:
        """What was answered."""
        return cls(float(rows[0][0]), rows[0][-1])


def enter(lease: Held) -> Statement[Entered]:
    """Begin a fenced transaction; if the client falls silent, the server ends it with the lease."""
    return Statement("enter", _one(lease), lambda rows: Entered.of(rows) if rows else _refused(lease, "enter"))


def guard(lease: Held) -> Statement[float]:
    """As `holding`, to end a fenced transaction without an end of the attempt: the row is locked until it commits."""
    return Statement("guard", _one(lease), lambda rows: float(rows[0][0]) if rows else _refused(lease, "guard"))


def within() -> Statement[None]:
    """Asked `at_its_end`, in a transaction that `enter` began: is it still that one?"""
    return Statement("within", {}, lambda _rows: None)


def last_entered() -> Statement[str | None]:
    """The mark of the transaction that was entered on this connection and committed last."""
    return Statement("last_entered", {}, lambda rows: rows[0][0])


def _refused(lease: Held, verb: str) -> Statement[Any]:
    """Read the row again, then raise StaleLease with the reason and the current token."""

    def read(rows: Rows) -> NoReturn:
        found = judge(lease, verb, Found(*rows[0][2:]) if rows else None)
        raise StaleLease(lease, verb, found.reason, found.current)

    return Statement("standing", lease_params([lease]), read)


def _one(lease: Held) -> dict[str, Any]:
    return {"id": lease.id, "generation": lease.generation, "fence": lease.fence}
