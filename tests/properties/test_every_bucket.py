"""While there is more work in ordered keys than slots, every bucket of a share gets its turn, whatever its size."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, example, given, seed, settings
from hypothesis import strategies as st

import servers
from properties.old_faults import same_starts
from properties.play import empty
from properties.stepped_fleet import Stage, SteppedWorker, statements_pass, stepped
from slices import slice_of
from tenure.model.outcome import Completed
from tenure.worker.news import Buckets, Note
from world import World

EXAMPLES = int(slice_of("60", "4"))
NO_POLL = 80_000.0  # a poll takes what is oldest, in whatever bucket
OPEN: set[str] = set()  # not mended yet


class Starved(AssertionError):
    """A bucket had no turn."""


@pytest.fixture
def stage(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with stepped(world, monkeypatch) as made:
        yield made


def claims_enough(share: int) -> int:
    """After so many claims even a random start has met every bucket, but for one run in a hundred thousand."""
    return math.ceil(share * (math.log(share) + 12))


def put(stage: Stage, numbers: Sequence[int]) -> None:
    """A row of an ordered key in each of the buckets of these numbers: unordered ones are claimed by time."""
    stage.conn.execute(
        "INSERT INTO live (kind, payload, queue, available_at, partition_key, ordered)"
        " SELECT 'k', '{}', 'a', statement_timestamp(), k.key, true FROM unnest(%s::text[]) AS k (key)",
        ([f"k{number}" for number in numbers],),
    )


def take_turns(stage: Stage, share: int, slots: int) -> None:
    """Work off a share where nothing ever runs out, until every bucket had its turn."""
    empty(stage)
    numbers = range(share)
    found = stage.conn.execute("SELECT bucket('k' || n) FROM generate_series(0, %s) AS n", (share - 1,)).fetchall()
    buckets = sorted({bucket for (bucket,) in found})
    worker = SteppedWorker(
        stage, "w", queues={"a": 1.0}, slots=slots, chance=random.Random(share).random, poll_seconds=NO_POLL
    )
    worker.tell(Buckets(tuple(buckets)))
    worker.round()  # the first board polls: of nothing
    for _ in range(slots + 1):
        put(stage, numbers)
    missed = set(buckets)
    for _ in range(claims_enough(len(buckets))):
        worker.tell(Note("* a"))
        stage.tell_time()
        worker.round()
        keys = [attempt.claimed.partition_key for attempt in worker.started]
        missed -= {attempt.claimed.partition_bucket for attempt in worker.started}
        if not missed:
            return
        worker.started.clear()
        for attempt in list(worker.running):
            worker.end(attempt, Completed())
        put(stage, [int(key.removeprefix("k")) for key in keys])
    raise Starved(f"of {len(buckets)} buckets {len(missed)} had no turn in {claims_enough(len(buckets))} claims")


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
@pytest.mark.xfail(bool(OPEN), reason="open: D10", raises=Starved, strict=False)
def test_every_bucket_of_a_share_gets_its_turn(stage: Stage) -> None:
    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(1, 60), st.integers(1, 3))
    @example(24, 1)  # as 504: a step of four, and 24 is a multiple of four
    @example(40, 2)
    def holds(share: int, slots: int) -> None:
        take_turns(stage, share, slots)

    holds()


@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_the_old_step_put_back_is_found(stage: Stage) -> None:
    with statements_pass(same_starts(stage)), pytest.raises(Starved):
        take_turns(stage, 8, 1)
