"""Guarantee 7 against late commits: a row that has begun keeps its key until it is over, the others start in order.

Random interleavings of producers' transactions with claims, completions, retries, releases, crashes and redrives, from
plain verbs. The model knows which rows are visible and which have begun; it asks nothing of the product's own memory.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import servers
from properties.play import expire, tables_of
from slices import slice_of
from tenure import verbs
from tenure.model.rows import Claimed
from world import World

EXAMPLES = int(os.environ.get("TENURE_TEST_EXAMPLES", slice_of("500", "80")))
SEED = int(os.environ.get("TENURE_TEST_SEED", "20260101"))
OPEN: set[str] = set()  # not mended yet
RUNS = "run_length" in inspect.signature(verbs.claim_ordered).parameters  # rows of a key claimed together
HOUR = 3600.0
_INSERT = """
INSERT INTO live (kind, payload, partition_key, ordered, max_attempts)
SELECT 'k', '{}', %s, true, 1000 FROM generate_series(1, %s) RETURNING id, seq
"""
# How 0.1.0 chose: the first row of a key that has none in flight, whatever has begun.
_OLD_CLAIM = """
UPDATE live AS i SET status = 'processing', claimed_by = 'A', claimed_at = clock_timestamp(), claim_id = 1,
  lease_expires_at = clock_timestamp() + interval '1 hour', lease_generation = lease_generation + 1,
  fence_token = next_fence(0), attempts = attempts + 1
WHERE i.id IN (
  SELECT DISTINCT ON (r.partition_key) r.id FROM live AS r
  WHERE NOT EXISTS (SELECT FROM live AS b WHERE b.partition_key = r.partition_key AND b.status = 'processing')
  ORDER BY r.partition_key, r.seq)
  AND i.available_at <= statement_timestamp()
RETURNING i.id, i.kind, i.queue, i.partition_key, bucket(i.partition_key), i.payload::text, i.attempts, i.max_attempts,
  date_part('epoch', i.available_at), i.lease_generation, i.fence_token, date_part('epoch', i.lease_expires_at),
  NULL, i.seq, 'A'
"""


class Overtaken(AssertionError):
    """A row started before one whose turn it was."""


@dataclass(frozen=True)
class Insert:
    """A producer adds rows to a key, in its transaction if it has one open, or in a new one that stays open."""

    producer: int
    key: str
    rows: int = 1
    begin: bool = False


@dataclass(frozen=True)
class Over:
    """A producer's open transaction ends."""

    producer: int
    what: Literal["COMMIT", "ROLLBACK"] = "COMMIT"


@dataclass(frozen=True)
class Claim:
    """A worker claims rows of up to n keys, a run of each."""

    n: int = 2
    run: int = 1


@dataclass(frozen=True)
class Settle:
    """The holder of a key ends the first row of its run; what is left of it goes back, but for a completion."""

    key: str
    how: Literal["complete", "retry", "retry later", "release", "crash", "dead letter"]


@dataclass(frozen=True)
class Everything:
    """What waits for its time falls due; what was buried is redriven."""

    what: Literal["due", "redrive"]


Step = Insert | Over | Claim | Settle | Everything
_keys = st.sampled_from(["k1", "k1", "k2"])
_producers = st.integers(0, 1)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Insert, _producers, _keys, st.sampled_from([1, 1, 3]), st.booleans()),
    st.builds(Over, _producers, st.sampled_from(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])),
    st.builds(Claim, st.integers(1, 2), st.sampled_from([1, 1, 3])),
    st.builds(Claim, st.integers(1, 2), st.sampled_from([1, 1, 3])),
    st.builds(Settle, _keys, st.sampled_from(["complete", "retry", "retry later", "release", "crash", "dead letter"])),
    st.builds(Settle, _keys, st.sampled_from(["complete", "complete", "retry", "crash"])),
    st.builds(Everything, st.sampled_from(["due", "redrive"])),
)
# The shortest story of D6.
LATE: list[Step] = [Insert(0, "k1", begin=True), Insert(1, "k1"), Claim(), Over(0), Settle("k1", "retry"), Claim()]
# Rows of a run that crashed have all begun: one committed late between them waits for the last of them.
RUN: list[Step] = [
    Insert(1, "k1"), Insert(0, "k1", begin=True), Insert(1, "k1"), Claim(run=3), Over(0), Settle("k1", "crash"),
    Claim(), Settle("k1", "complete"), Claim(),
]  # fmt: skip


def _near(story: list[Step], more: list[tuple[int, Step]]) -> list[Step]:
    happens = list(story)
    for place, step in more:
        happens.insert(place % (len(happens) + 1), step)
    return happens


# Anything at all (three lists: one would be short, each of them still shrinks to nothing), or D6 with more in it.
_some = st.lists(steps, max_size=10)
stories: st.SearchStrategy[list[Step]] = st.one_of(
    st.builds(lambda one, two, three: one + two + three, _some, _some, _some),
    st.builds(_near, st.sampled_from([LATE, RUN]), st.lists(st.tuples(st.integers(0, 9), steps), max_size=8)),
)


@dataclass
class Known:
    """A row as the model has it."""

    id: UUID
    seq: int
    key: str
    status: str = "pending"
    attempts: int = 0
    due: bool = True

    @property
    def turn(self) -> tuple[bool, int]:
        """Its place in its key: what has begun goes first."""
        return self.attempts == 0, self.seq


@dataclass
class Story:
    """Plays the steps, and holds every claim against the model."""

    world: World
    producers: Sequence[Any]
    old: bool = False  # claim as 0.1.0 did
    rows: dict[UUID, Known] = field(default_factory=dict)  # visible
    unseen: dict[int, list[Known]] = field(default_factory=dict)  # by producer, in its open transaction
    held: dict[str, list[Claimed]] = field(default_factory=dict)  # by key, in order
    claims: int = 0

    def play(self, steps: Sequence[Step]) -> None:
        """Every step; then all is committed and worked off."""
        self.world.sql(";".join(f"DELETE FROM {table}" for table in tables_of(self.world)))
        try:
            for step in steps:
                self.do(step)
            for producer in list(self.unseen):
                self.do(Over(producer))
        finally:
            for producer in list(self.unseen):
                self.do(Over(producer, "ROLLBACK"))
        self._work_off()

    def do(self, step: Step) -> None:
        """One step; one that cannot be is left out."""
        match step:
            case Insert():
                self._insert(step)
            case Over() if step.producer in self.unseen:
                self._end_transaction(step)
            case Claim():
                self.claim(step)
            case Settle() if self.held.get(step.key):
                self._settle(step)
            case Everything("due"):
                self.world.due()
                for row in self.rows.values():
                    row.due = True
            case Everything("redrive"):
                for id in self.world.run(verbs.redrive([row.id for row in self.rows.values() if row.status == "dead"])):
                    self.rows[id].status, self.rows[id].attempts, self.rows[id].due = "pending", 0, True

    def _insert(self, step: Insert) -> None:
        conn = self.producers[step.producer]
        if step.begin and step.producer not in self.unseen:
            conn.execute("BEGIN")
            self.unseen[step.producer] = []
        made = [Known(id, seq, step.key) for id, seq in conn.execute(_INSERT, (step.key, step.rows)).fetchall()]
        if step.producer in self.unseen:
            self.unseen[step.producer] += made
        else:
            self.rows |= {row.id: row for row in made}

    def _end_transaction(self, step: Over) -> None:
        self.producers[step.producer].execute(step.what)
        made = self.unseen.pop(step.producer)
        if step.what == "COMMIT":
            self.rows |= {row.id: row for row in made}

    # -- claims

    def claim(self, step: Claim) -> list[Claimed]:
        """Claim, and see whether it was the turn of each row."""
        if self.old:
            claimed = [Claimed(*row) for row in self.world.sql(_OLD_CLAIM)]
        else:
            more = {"run_length": step.run} if RUNS else {}
            claimed = self.world.claim_ordered("A", step.n, **more)
        self.claims += 1
        runs: dict[str, list[Claimed]] = {}
        for job in claimed:
            runs.setdefault(job.partition_key, []).append(job)
        for key, run in runs.items():
            self._judge(key, [job.id for job in run])
            self.held[key] = run
        return claimed

    def _judge(self, key: str, run: list[UUID]) -> None:
        if self.held.get(key):
            raise Overtaken(f"{key} is held, and was claimed again")
        waiting = sorted(
            (r for r in self.rows.values() if r.key == key and r.status == "pending"), key=lambda r: r.turn
        )
        for id, turn in zip(run, waiting, strict=False):
            row = self.rows[id]
            if row is not turn or not turn.due:
                raise Overtaken(f"{row} started, and it was the turn of {turn}")
        for id in run:
            self.rows[id].status = "processing"
            self.rows[id].attempts += 1

    # -- ends

    def _settle(self, step: Settle) -> None:
        first, *rest = self.held[step.key]
        match step.how:
            case "complete":
                assert self.world.complete(first.lease).ok
                self.rows.pop(first.id)
                self.held[step.key] = rest
                return
            case "crash":
                expire(self.world, *(job.lease for job in self.held[step.key]))
                self._back([first, *rest])
                self._skip_backoff([first, *rest])
            case "release":
                self._release([*rest, first])
            case "dead letter":
                self._release(rest)
                assert self.world.dead_letter(first.lease).ok
                self.rows[first.id].status = "dead"
            case _:
                self._release(rest)
                later = step.how == "retry later"
                assert self.world.retry(first.lease, delay=HOUR if later else 0.0).ok
                self._back([first])
                self.rows[first.id].due = not later
        self.held[step.key] = []

    def _release(self, jobs: Sequence[Claimed]) -> None:
        for job in jobs:
            assert self.world.release(job.lease).ok
            self.rows[job.id].attempts -= 1
        self._back(jobs)

    def _back(self, jobs: Sequence[Claimed]) -> None:
        for job in jobs:
            self.rows[job.id].status = "pending"

    def _skip_backoff(self, jobs: Sequence[Claimed]) -> None:
        """A crash puts rows off by a backoff of its own: let it have passed."""
        ids = [job.id for job in jobs]
        self.world.sql("UPDATE live SET available_at = clock_timestamp() WHERE id = ANY (%s)", ids)

    def _work_off(self) -> None:
        self.do(Everything("due"))
        for key in ("k1", "k2"):
            while self.held.get(key):
                self.do(Settle(key, "complete"))
        while self.claim(Claim(2, 3)):
            for key in ("k1", "k2"):
                while self.held.get(key):
                    self.do(Settle(key, "complete"))
        left = [row for row in self.rows.values() if row.status != "dead"]
        if left:
            raise Overtaken(f"nobody holds a key, and these were not claimed: {left}")


@pytest.fixture
def search(world: World) -> Callable[..., None]:
    """Play so many stories."""
    producers = [world.connect(), world.connect()]

    def play(examples: int, *, old: bool = False) -> None:
        played = [0, 0]

        @seed(SEED)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(stories)
        def holds(happens: list[Step]) -> None:
            story = Story(world, producers, old)
            story.play(happens)
            played[0] += 1
            played[1] += story.claims

        try:
            holds()
        finally:
            print(f"{played[0]} stories, {played[1]} claims")

    return play


@pytest.mark.timeout(0)
@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
@pytest.mark.xfail(bool(OPEN), reason="open: D6", raises=Overtaken, strict=False)
def test_no_row_overtakes_one_that_has_begun(search: Callable[..., None]) -> None:
    search(EXAMPLES)


@pytest.mark.xfail(bool(OPEN), reason="open: D6", raises=Overtaken, strict=False)
@pytest.mark.parametrize("story", [LATE, RUN], ids=["retry", "crash of a run"])
def test_a_row_committed_late_waits_for_those_that_have_begun(story: list[Step], world: World) -> None:
    Story(world, [world.connect(), world.connect()]).play(story)


def test_the_old_choice_put_back_is_found(world: World) -> None:
    with pytest.raises(Overtaken, match="it was the turn of"):
        Story(world, [world.connect(), world.connect()], old=True).play(LATE)
