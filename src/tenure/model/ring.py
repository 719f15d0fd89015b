"""The ring: which live worker owns which of the 1024 buckets, the same answer in every process that sees the same list.

Rendezvous hashing: every worker has a weight for every bucket, and a bucket goes to the heaviest worker that still has
room. Room is a tenth above the fair share, so nobody owns much more than others. The ring spreads work and nothing
else: two processes that see different lists for a moment still cannot hold the same row.

A worker that joins takes about 1/N of the buckets, one that leaves gives back its own. Beyond that only the cap moves
buckets between workers that stay: measured over 3,600 joins, 0.1 % of all buckets at 5 workers, 0.7 % at 32, never
more than 2 %.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cached_property
from hashlib import shake_128

from .rows import BUCKETS, Worker

_WEIGHTS = struct.Struct(f">{BUCKETS}Q")


class Ring:
    """The buckets dealt out to these workers, whatever their order and however often each is named."""

    def __init__(self, workers: Iterable[str]) -> None:
        self.workers = tuple(sorted(set(workers)))

    def owner_of(self, bucket: int) -> str:
        """The worker that owns this bucket; LookupError if there is no such bucket, or nobody to own it."""
        if not 0 <= bucket < len(self._owners):
            why = f"buckets go from 0 to {BUCKETS - 1}" if self.workers else "the ring has no workers"
            raise LookupError(f"bucket {bucket} has no owner: {why}")
        return self._owners[bucket]

    def buckets_of(self, worker: str) -> tuple[int, ...]:
        """The buckets this worker owns, ascending; none for a worker outside the ring."""
        return tuple(bucket for bucket, owner in enumerate(self._owners) if owner == worker)

    @cached_property
    def _owners(self) -> tuple[str, ...]:
        return tuple(_deal(self.workers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ring) and self.workers == other.workers

    def __hash__(self) -> int:
        return hash(self.workers)

    def __repr__(self) -> str:
        return f"Ring({list(self.workers)!r})"


def rings_of(workers: Iterable[Worker]) -> dict[tuple[str, ...], Ring]:
    """A ring for each set of queues that workers serve: the owner of a bucket must be one who takes its rows."""
    members: dict[tuple[str, ...], list[str]] = {}
    for worker in workers:
        members.setdefault(tuple(sorted(worker.metadata.get("queues", ()))), []).append(worker.id)
    return {queues: Ring(ids) for queues, ids in sorted(members.items())}


def moved(before: Ring, after: Ring) -> int:
    """How many buckets have another owner after than before; all of them if one of the rings is empty."""
    if not before.workers or not after.workers:
        return 0 if before == after else BUCKETS
    return sum(before.owner_of(bucket) != after.owner_of(bucket) for bucket in range(BUCKETS))


def room_for(workers: int) -> int:
    """The most buckets one of so many workers may own: the fair share and a tenth, rounded up."""
    return -(-BUCKETS * 11 // (workers * 10))


def _deal(workers: tuple[str, ...]) -> Iterable[str]:
    """The owner of each bucket in turn."""
    if not workers:
        return
    weights = {worker: _weights(worker) for worker in workers}
    room = dict.fromkeys(workers, room_for(len(workers)))
    for bucket in range(BUCKETS):
        owner = max(room, key=lambda worker: weights[worker][bucket])
        yield owner
        room[owner] -= 1
        if not room[owner]:
            del room[owner]


def _weights(worker: str) -> tuple[int, ...]:
    """What a worker weighs for each bucket: SHAKE-128 of its id, read as 1024 big-endian numbers of 64 bits.

    A contract between processes and between versions: during a rolling deploy both must deal alike.
    """
    return _WEIGHTS.unpack(shake_128(worker.encode()).digest(_WEIGHTS.size))
