"""The ring deals every bucket to one live worker, evenly, alike everywhere, and moves little when the fleet changes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from hashlib import shake_128

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.ring import Ring, moved, room_for
from tenure.model.rows import BUCKETS

FLEETS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=32, unique=True)
quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
Deal = Callable[[Sequence[str]], list[str]]


def fleet(count: int, seed: int) -> list[str]:
    """So many worker ids as a fleet has them, different for each seed."""
    chance = random.Random(seed)
    return [f"web-{chance.getrandbits(32):08x}-{chance.randrange(32768)}" for _ in range(count)]


def owners(workers: Iterable[str]) -> list[str]:
    ring = Ring(workers)
    return [ring.owner_of(bucket) for bucket in range(BUCKETS)]


def by_remainder(workers: Sequence[str]) -> list[str]:
    """The naive way to deal: what the ring must be better than."""
    ordered = sorted(workers)
    return [ordered[bucket % len(ordered)] for bucket in range(BUCKETS)]


def heaviest(workers: Sequence[str]) -> list[str]:
    """Rendezvous hashing without a cap, written apart from the ring."""
    digests = {worker: shake_128(worker.encode()).digest(8 * BUCKETS) for worker in workers}
    return [max(workers, key=lambda w: digests[w][8 * b : 8 * b + 8]) for b in range(BUCKETS)]


def share_moved(deal: Deal, seed: int) -> float:
    """Which part of the buckets changes hands when a fifth worker joins four."""
    five = fleet(5, seed)
    before, after = deal(five[:4]), deal(five)
    return sum(a != b for a, b in zip(before, after, strict=True)) / BUCKETS


def test_the_hash_is_a_contract_and_does_not_change_silently() -> None:
    ring = Ring(["worker-a", "worker-b", "worker-c"])
    drawn = "".join(ring.owner_of(bucket)[-1] for bucket in range(BUCKETS))
    assert drawn[:48] == "acccaabaababbbcccacbaccabccaccaccbcbbbabaabacccb"
    assert [drawn.count(letter) for letter in "abc"] == [339, 365, 320]
    assert shake_128(drawn.encode()).hexdigest(8) == "a8fd5128d6656870"


def test_the_cap_is_part_of_the_contract() -> None:
    drawn = "\n".join(owners(f"worker-{n}" for n in range(32)))
    assert shake_128(drawn.encode()).hexdigest(8) == "5ba042f412ee5bc7"
    assert [room_for(count) for count in (1, 2, 3, 4, 5, 8, 32, 1024, 5000)] == [
        1127,
        564,
        376,
        282,
        226,
        141,
        36,
        2,
        1,
    ]


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_another_process_with_another_hash_seed_deals_alike(hash_seed: str) -> None:
    script = (
        "from tenure.model.ring import Ring; r = Ring({'x', 'y', 'z'}); print([r.owner_of(b) for b in range(1024)])"
    )
    environ = os.environ | {"PYTHONHASHSEED": hash_seed}
    ran = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(owners("xyz"))


@quick
@given(FLEETS)
def test_neither_order_nor_repetition_matters(workers: list[str]) -> None:
    again = [*reversed(workers), *workers]
    assert Ring(again) == Ring(workers)
    assert hash(Ring(again)) == hash(Ring(workers))
    assert owners(again) == owners(workers)


@quick
@given(FLEETS)
def test_every_bucket_has_exactly_one_owner_and_no_owner_has_too_many(workers: list[str]) -> None:
    ring = Ring(workers)
    owned = {worker: ring.buckets_of(worker) for worker in workers}
    assert sorted(bucket for buckets in owned.values() for bucket in buckets) == list(range(BUCKETS))
    assert all(ring.owner_of(bucket) == worker for worker, buckets in owned.items() for bucket in buckets)
    assert max(map(len, owned.values())) <= room_for(len(workers))
    assert all(buckets == tuple(sorted(buckets)) for buckets in owned.values())


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16, 32])
def test_the_busiest_worker_stays_near_the_mean(count: int) -> None:
    worst = max(max(map(len, map(ring.buckets_of, ring.workers))) for ring in (Ring(fleet(count, s)) for s in range(5)))
    assert worst / (BUCKETS / count) <= 1.13


def test_without_the_cap_the_busiest_of_32_carries_far_more() -> None:
    workers = fleet(32, 0)
    dealt = heaviest(workers)
    assert max(map(dealt.count, workers)) / (BUCKETS / 32) > 1.25


def test_a_fifth_worker_moves_between_15_and_25_percent() -> None:
    shares = [share_moved(owners, seed) for seed in range(200)]
    assert min(shares) >= 0.15
    assert max(shares) <= 0.25
    assert 0.19 <= sum(shares) / len(shares) <= 0.21


def test_dealing_by_remainder_would_be_noticed() -> None:
    assert all(share_moved(by_remainder, seed) > 0.60 for seed in range(10))


@pytest.mark.parametrize("count", [2, 4, 8, 16, 31])
def test_a_join_moves_buckets_to_the_newcomer_and_hardly_any_other(count: int) -> None:
    aside = []
    for seed in range(12):
        *before, newcomer = fleet(count + 1, seed)
        changed = [(a, b) for a, b in zip(owners(before), owners([*before, newcomer]), strict=True) if a != b]
        aside.append(sum(b != newcomer for _, b in changed))
        assert len(changed) == moved(Ring(before), Ring([*before, newcomer]))
        assert len(changed) - aside[-1] <= room_for(count + 1)
    assert max(aside) <= 0.02 * BUCKETS
    assert sum(aside) / len(aside) <= 0.01 * BUCKETS


@pytest.mark.parametrize("count", [3, 5, 9, 17, 32])
def test_a_leave_moves_the_leavers_buckets_and_hardly_any_other(count: int) -> None:
    for seed in range(12):
        leaver, *rest = everyone = fleet(count, 1000 + seed)
        changed = [(a, b) for a, b in zip(owners(everyone), owners(rest), strict=True) if a != b]
        assert sum(a == leaver for a, _ in changed) == len(Ring(everyone).buckets_of(leaver))
        assert sum(a != leaver for a, _ in changed) <= 0.02 * BUCKETS


def test_where_the_cap_holds_nobody_back_nothing_moves_needlessly() -> None:
    """Without a cap no bucket moves between two workers that stay: what moves aside above is the cap's doing."""
    free = 0
    for seed in range(40):
        *four, fifth = five = fleet(5, seed)
        before, after = owners(four), owners(five)
        if before == heaviest(four) and after == heaviest(five):
            free += 1
            assert all(b == fifth for a, b in zip(before, after, strict=True) if a != b)
    assert free >= 20


def test_a_ring_of_nobody_owns_nothing() -> None:
    nobody = Ring([])
    assert nobody.workers == ()
    assert nobody.buckets_of("worker-a") == ()
    with pytest.raises(LookupError, match="no workers"):
        nobody.owner_of(0)
    assert moved(nobody, nobody) == 0
    assert moved(nobody, Ring(["worker-a"])) == moved(Ring(["worker-a"]), nobody) == BUCKETS


def test_a_ring_of_one_owns_everything_and_knows_no_others() -> None:
    ring = Ring(["worker-a"])
    assert ring.buckets_of("worker-a") == tuple(range(BUCKETS))
    assert ring.buckets_of("worker-b") == ()
    assert moved(ring, Ring(["worker-a"])) == 0
    assert ring != Ring(["worker-b"])


@pytest.mark.parametrize("bucket", [-1, BUCKETS])
def test_there_are_no_buckets_outside_the_ring(bucket: int) -> None:
    with pytest.raises(LookupError, match="0 to 1023"):
        Ring(["worker-a"]).owner_of(bucket)


def test_more_workers_than_buckets_leave_some_without() -> None:
    ring = Ring(f"worker-{n}" for n in range(1127))
    assert len(set(map(ring.owner_of, range(BUCKETS)))) == BUCKETS
