"""The real SQL against a small model: random verbs from three connections, the whole state compared after every step.

TENURE_TEST_STEPS runs it longer (a million is a release), TENURE_TEST_SEED elsewhere; a failure prints the steps to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import servers
from properties.model_inbox import LEGAL, Model, ModelRow, WorkerFact
from slices import slice_of
from tenure import verbs
from tenure.errors import IdempotencyConflict, ServerBehind, StaleFence, StaleLease, WorkerEvicted
from tenure.model.rows import Claimed, Held, Lane, Lease, NewRow, Settled
from tenure.verbs import fleet, questions, settle
from world import World

STEPS = int(os.environ.get("TENURE_TEST_STEPS", slice_of("5000", "1000")))
SEED = int(os.environ.get("TENURE_TEST_SEED", "20260101"))
SHRINK = os.environ.get("TENURE_TEST_SHRINK", "yes") == "yes"
STEPS_AN_EXAMPLE = 50
HOUR = 3600.0

TABLES = "live, archive, dead, attempts, idempotency, effects, fences, heads, arrivals, workers"
STATE = """
SELECT json_build_object(
  'inbox', (SELECT json_agg(json_build_object(
      'id', id, 'key', partition_key, 'payload', payload, 'status', status, 'attempts', attempts,
      'max_attempts', max_attempts, 'claimed_by', claimed_by, 'over', lease_expires_at <= clock_timestamp(),
      'generation', lease_generation,
      'due', CASE WHEN status = 'pending' THEN available_at <= clock_timestamp() END,
      'done', completed_at IS NOT NULL, 'error', last_error, 'idem', idempotency_key, 'kind', kind, 'queue', queue,
      'priority', priority, 'ordered', ordered, 'fence', fence_token, 'cancel', cancel_asked,
      'finished_by', finished_by,
      'bucket', partition_bucket, 'available_at', extract(epoch FROM available_at)) ORDER BY id::text) FROM inbox),
  'attempts', (SELECT json_agg(json_build_array(row_id, fence_token, lease_generation, worker, outcome, error))
               FROM attempts),
  'keys', (SELECT json_agg(json_build_array(queue, partition_key, id))
           FROM (SELECT queue, partition_key, id FROM live WHERE ordered AND status = 'processing'
                 UNION ALL SELECT queue, partition_key, id FROM dead WHERE blocks) AS taken),
  'idempotency', (SELECT json_agg(json_build_array(key, row_id)) FROM idempotency),
  'effects', (SELECT json_agg(json_build_array(row_id, effect, fence_token)) FROM effects),
  'fences', (SELECT json_agg(json_build_array(resource, fence_token)) FROM fences),
  'workers', (SELECT json_agg(json_build_array(id, status)) FROM workers))::text
"""

# Small worlds meet themselves often: few keys, few priorities, few workers.
picks = st.integers(0, 999)
workers = st.sampled_from(["A", "A", "A", "B", "B", "C"])  # A has two slots: it meets its own older leases
new_rows = st.builds(
    lambda kind, payload, key, queue, priority, delay, idem, most, ordered, hold: NewRow(
        kind,
        {"n": payload},
        key=key if ordered else (key if priority else None),
        queue=queue,
        priority=0 if ordered else priority,
        delay_seconds=delay,
        idempotency_key=idem,
        max_attempts=most,
        ordered=ordered,
        hold=ordered and hold,
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 1),
    st.sampled_from(["k1", "k2", "k3"]),
    st.sampled_from(["default", "default", "other"]),
    st.sampled_from([0, 5]),
    st.sampled_from([0.0, 0.0, 0.0, HOUR]),
    st.sampled_from([None, None, "i1", "i2", "i3"]),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)


class InboxMachine(RuleBasedStateMachine):
    """Every rule runs a public verb on one of three connections, and the same in the model."""

    world: ClassVar[World]
    conns: ClassVar[list[Any]]
    steps: ClassVar[int] = 0

    # -- a step, and what must hold after it

    @initialize()
    def empty(self) -> None:
        """The same schema for every example, emptied."""
        self.world.sql(f"TRUNCATE {TABLES}")
        self.world.sql("UPDATE incarnation SET timeline = timeline()")
        self.world.sql("SELECT next_fence(0)")
        self.model = Model(epoch=self.world.sql("SELECT epoch FROM incarnation")[0][0])
        self.leases: list[Lease] = []  # every lease ever handed out, kept for ever
        self.claims: list[tuple[str, int]] = []
        self.ended: set[Held] = set()
        self.highest = 0
        self.phantoms = False  # a rolled-back claim has drawn tokens since the last one that stands
        self.before: dict[str, dict[str, Any]] = {}

    def run(self, statement: Any, slot: int = 0) -> Any:
        """One verb on one of the connections."""
        return self.world.run(statement, self.conns[slot % len(self.conns)])

    def check(self, *, set_back: bool = False) -> None:
        """The database stands as the model says, and came there by legal ways."""
        type(self).steps += 1
        found = self._found()
        facts = found["inbox"]
        for fact in facts:
            row = self.model.rows.get(UUID(fact["id"]))
            bucket, available_at = fact.pop("bucket"), fact.pop("available_at")
            if row is not None:
                row.bucket, row.available_at = bucket, float(available_at)
        assert found == self.model.picture()
        self._check_invariants(facts, found["keys"], set_back)

    def _found(self) -> dict[str, list[Any]]:
        (text,) = self.world.conn.execute(STATE, prepare=True).fetchone() or ("",)
        found: dict[str, list[Any] | None] = json.loads(text)
        return {name: (rows or []) if name == "inbox" else sorted(rows or []) for name, rows in found.items()}

    def _check_invariants(self, facts: list[dict[str, Any]], keys: list[Any], set_back: bool) -> None:
        now = {fact["id"]: fact for fact in facts}
        assert len(now) == len(facts), "a row stands in two tables"
        in_flight = [(f["queue"], f["key"]) for f in facts if f["ordered"] and f["status"] == "processing"]
        assert len(in_flight) == len(set(in_flight)), "two rows of an ordered key in flight"
        assert set(in_flight) <= {(queue, key) for queue, key, _ in keys}
        for id, fact in now.items():
            assert 0 <= fact["attempts"] <= fact["max_attempts"]
            was = self.before.get(id)
            if was is None or set_back:
                continue
            assert was["status"] == fact["status"] or (was["status"], fact["status"]) in LEGAL
            assert fact["generation"] >= was["generation"]
            assert fact["fence"] >= was["fence"]
        self.before = now

    def _row(self, pick: int) -> ModelRow | None:
        rows = list(self.model.rows.values())
        return rows[pick % len(rows)] if rows else None

    def _lease(self, pick: int) -> Lease:
        """A current lease two times in three, otherwise any that was ever handed out, or one of a row nobody knows."""
        current = [lease for lease in self.leases if (row := self.model.rows.get(lease.id)) and row.held_under(lease)]
        if current and pick % 3:
            return current[pick % len(current)]
        if self.leases:
            return self.leases[pick % len(self.leases)]
        return Lease(UUID(int=1), "A", 1, 1, 0.0)

    # -- producers

    @rule(new=new_rows, slot=picks)
    def enqueue(self, new: NewRow, slot: int) -> None:
        """One row; a key known with other content is refused."""
        try:
            answer = self.run(verbs.enqueue(new), slot)
            given = (answer.id, answer.outcome)
        except IdempotencyConflict as conflict:
            given = (UUID(str(conflict.row_id)), "conflict")
        assert self.model.enqueue([new], [self._id(given)]) == [given]
        self.check()

    @rule(news=st.lists(new_rows, min_size=1, max_size=4), slot=picks)
    def enqueue_many(self, news: list[NewRow], slot: int) -> None:
        """Several rows; each has its own answer."""
        given = [tuple(answer) for answer in self.run(verbs.enqueue_many(news), slot)]
        ids = [self._id(answer) for answer in given]
        assert self.model.enqueue(news, ids) == given
        self.check()

    def _id(self, answer: tuple[Any, ...]) -> UUID:
        """The id the database chose for a new row; for a refused one, any that is not in use."""
        return answer[0] if answer[1] == "enqueued" else UUID(int=len(self.model.rows))

    @rule(news=st.lists(new_rows, min_size=2, max_size=5), worker=workers, slot=picks)
    def work_arrives(self, news: list[NewRow], worker: str, slot: int) -> None:
        """Several rows come, and somebody takes whatever is there: most of what can go wrong needs rows in flight."""
        self.enqueue_many(news, slot)
        self.claim(worker, 4, 3, slot)
        self.claim_ordered(worker, 3, 3, slot + 1)

    # -- workers take rows

    @rule(worker=workers, n=st.integers(1, 4), pick=picks, slot=picks)
    def claim(self, worker: str, n: int, pick: int, slot: int) -> None:
        """Up to n runnable rows, the most urgent lane first, the earliest of a bucket first."""
        lanes = [("default", 5), ("default", 0), ("other", 5), ("other", 0)][: 1 + pick % 4]
        buckets = self._buckets(pick)
        anywhere = pick % 5 == 0  # the longest due first, whatever their bucket
        allowed = self.model.runnable(worker, lanes, buckets)
        claim_id = pick % 7
        statement = verbs.claim(
            worker,
            n,
            lanes=[Lane(*lane) for lane in lanes],
            buckets=None if anywhere else buckets,
            claim_id=claim_id,
            lease_seconds=HOUR,
            seen_epoch=self.model.epoch,
        )
        jobs = self.run(statement, slot)
        if anywhere:
            buckets = sorted({row.bucket for row in self.model.rows.values()})
            allowed = self.model.runnable(worker, lanes, buckets)
        assert len(jobs) == min(n, len(allowed))
        # Rows of one instant may come in any order; up to that, exactly the first n.
        places = {
            row.id: (lanes.index(row.lane), 0 if anywhere else buckets.index(row.bucket), row.available_at)
            for row in allowed
        }
        assert sorted(places[job.id] for job in jobs) == sorted(places.values())[:n]
        self._take(jobs, worker, claim_id)

    @rule(worker=workers, n=st.integers(1, 3), pick=picks, slot=picks)
    def claim_ordered(self, worker: str, n: int, pick: int, slot: int) -> None:
        """The heads of up to n free keys."""
        queues, buckets, claim_id = (["default", "other"][: 1 + pick % 2], self._buckets(pick), pick % 7)
        allowed = self.model.heads(worker, queues, buckets)
        statement = verbs.claim_ordered(
            worker,
            n,
            queues=queues,
            buckets=buckets,
            claim_id=claim_id,
            lease_seconds=HOUR,
            seen_epoch=self.model.epoch,
        )
        jobs = self.run(statement, slot)
        assert {job.id for job in jobs} <= {row.id for row in allowed}
        assert len(jobs) == min(n, len(allowed))
        self._take(jobs, worker, claim_id)

    def _buckets(self, pick: int) -> list[int]:
        """The buckets in use, most times all of them."""
        used = sorted({row.bucket for row in self.model.rows.values()}) or [0]
        return used if pick % 4 else used[: 1 + len(used) // 2]

    def _take(self, jobs: Sequence[Claimed], worker: str, claim_id: int) -> None:
        if jobs and self.model.moved:
            self.model.epoch, self.model.moved = self.model.epoch + 1, False
        for job in jobs:
            row = self.model.rows[job.id]
            self.model.claim(row, worker, job.lease.fence, claim_id)
            assert job.lease.fence > self.highest, "a token was handed out again"
            assert job.lease.epoch == self.model.epoch
            assert job.lease.generation == row.generation
            assert (job.attempts, job.decode()) == (row.attempts, row.new.payload)
            assert job.lease not in self.leases
            self.leases.append(job.lease)
        if jobs:
            self.highest = max(job.lease.fence for job in jobs)
            self.claims.append((worker, claim_id))
            self.phantoms = False
        self.check()

    @rule(pick=picks, worker=workers)
    def ask_for_a_claim(self, pick: int, worker: str) -> None:
        """After a lost reply: the rows of that claim that are still held, and nobody else's."""
        _, claim_id = self.claims[pick % len(self.claims)] if self.claims else ("A", 0)
        rows = self.model.rows.values()
        mine = {r.id for r in rows if r.status == "processing" and (r.claimed_by, r.claim_id) == (worker, claim_id)}
        assert {job.id for job in self.run(questions.claimed(worker, claim_id))} == mine
        self.check()

    @rule(worker=workers)
    def claim_from_a_server_behind(self, worker: str) -> None:
        """A caller that has seen a later epoch gets no row."""
        buckets = self._buckets(1)
        statement = verbs.claim(worker, 3, buckets=buckets, seen_epoch=self.model.epoch + 5)
        if self.model.runnable(worker, [("default", 0)], buckets):
            with pytest.raises(ServerBehind):
                self.run(statement)
        else:
            assert self.run(statement) == []
        self.check()

    # -- holders

    @rule(pick=picks, slot=picks)
    def renew(self, pick: int, slot: int) -> None:
        """Kept while current and not over; a lease that ran out is not revived."""
        chosen = {lease.id: lease for lease in (self._lease(pick), self._lease(pick + 1), self._lease(pick + 2))}
        rows = self.model.rows
        kept = {id for id, lease in chosen.items() if id in rows and rows[id].held_under(lease) and not rows[id].over}
        answer = self.run(verbs.renew(list(chosen.values()), lease_seconds=2 * HOUR), slot)
        assert {lease.id for lease in answer.kept} == kept
        assert {lease.id for lease in answer.lost + answer.passed_over} == set(chosen) - kept
        assert all(rows[lease.id].status == "completed" for lease in answer.passed_over)
        assert answer.cancel_asked == {id for id in kept if rows[id].cancel_asked}
        self.check()

    @rule(pick=picks, late=st.booleans(), slot=picks)
    def complete(self, pick: int, late: bool, slot: int) -> None:
        """Once, under the current lease, in time (or late where that is the policy)."""
        chosen = list({lease.id: lease for lease in (self._lease(pick), self._lease(pick // 2))}.values())
        answers = self.run(settle.complete(chosen, accept_late=late), slot)
        self._compare(answers, [self.model.settle("complete", lease, late=late) for lease in chosen])

    @rule(pick=picks, delay=st.sampled_from([None, None, 0.0, HOUR]), slot=picks)
    def retry(self, pick: int, delay: float | None, slot: int) -> None:
        """Pending again, or a dead letter when attempts are used up."""
        chosen = list({lease.id: lease for lease in (self._lease(pick), self._lease(pick // 2))}.values())
        answers = self.run(settle.retry(chosen, ["boom"] * len(chosen), delays=[delay] * len(chosen)), slot)
        self._check_backoff(answers, delay)
        self._compare(answers, [self.model.settle("retry", lease, "boom", delay=delay) for lease in chosen])

    @rule(pick=picks, verb=st.sampled_from(["fail", "dead_letter"]), slot=picks)
    def end_badly(self, pick: int, verb: str, slot: int) -> None:
        """Over for good, whatever attempts are left."""
        lease = self._lease(pick)
        answers = self.run(getattr(settle, verb)([lease], ["broken"]), slot)
        self._compare(answers, [self.model.settle(verb, lease, "broken")])

    @rule(pick=picks, delay=st.sampled_from([None, None, HOUR]), slot=picks)
    def release(self, pick: int, delay: float | None, slot: int) -> None:
        """Given back unstarted: the attempt is not counted."""
        lease = self._lease(pick)
        answers = self.run(settle.release([lease], delays=[delay]), slot)
        self._compare(answers, [self.model.settle("release", lease, delay=delay)])

    def _check_backoff(self, answers: Sequence[Settled], delay: float | None) -> None:
        if delay is not None:
            return
        for answer in answers:
            if answer.standing == "applied" and answer.status == "pending":
                assert answer.next_at is not None
                least = 2.0 ** self.model.rows[answer.lease.id].attempts
                wait = (answer.next_at - datetime.now(UTC)).total_seconds()
                assert least - 1.5 < wait < least * 1.25 + 0.5

    def _compare(self, answers: Sequence[Settled], expected: Sequence[Any]) -> None:
        self._delay_backoffs()
        assert [(a.standing, a.status, a.reason) for a in answers] == [tuple(answer) for answer in expected]
        for answer in answers:
            if answer.standing == "applied":
                assert answer.lease not in self.ended, "a lease was accepted twice"
                self.ended.add(answer.lease)
        self.check()

    def _delay_backoffs(self) -> None:
        """Seconds of backoff become hours: a row becomes due when a rule says so, not while we look away."""
        self.world.sql(
            "UPDATE live SET available_at = available_at + interval '1 hour' WHERE status = 'pending'"
            " AND available_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '30 minutes'"
        )

    @rule(pick=picks, effect=st.sampled_from(["mail", "charge"]), slot=picks)
    def once(self, pick: int, effect: str, slot: int) -> None:
        """True the first time in the life of the row, and only for its holder."""
        lease = self._lease(pick)
        row = self.model.rows.get(lease.id)
        if row is None or not row.held_under(lease):
            with pytest.raises(StaleLease):
                self.run(verbs.once(lease, effect), slot)
        else:
            first = (row.id, effect) not in self.model.effects
            assert self.run(verbs.once(lease, effect), slot) is first
            self.model.effects.setdefault((row.id, effect), lease.fence)
        self.check()

    @rule(pick=picks, slot=picks)
    def holding(self, pick: int, slot: int) -> None:
        """Seconds left of a current lease."""
        lease = self._lease(pick)
        row = self.model.rows.get(lease.id)
        if row is not None and row.held_under(lease) and not row.over:
            assert 0 < self.run(verbs.holding(lease), slot) <= 2 * HOUR
        else:
            with pytest.raises(StaleLease):
                self.run(verbs.holding(lease), slot)
        self.check()

    @rule(pick=picks, resource=st.sampled_from(["disk", "bank"]), slot=picks)
    def fence(self, pick: int, resource: str, slot: int) -> None:
        """A resource never goes back to an older token."""
        token = self._lease(pick).fence
        seen = self.model.fences.get(resource, 0)
        if token < seen:
            with pytest.raises(StaleFence) as refused:
                self.run(verbs.fence(resource, token), slot)
            assert refused.value.current == seen
        else:
            assert self.run(verbs.fence(resource, token), slot) == token
            self.model.fences[resource] = token
        self.check()

    # -- the clock, housekeeping, operators

    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        """Let a lease, or all of them, have run out."""
        held = [row for row in self.model.rows.values() if row.status == "processing"]
        chosen = held if pick % 3 == 0 else held[pick % len(held) :][:1] if held else []
        for row in chosen:
            row.over = True
        self.world.sql("UPDATE claims SET until = until - interval '1 day'")
        self.world.sql(
            "UPDATE live SET lease_expires_at = clock_timestamp() - interval '1 minute' WHERE id = ANY (%s)",
            [row.id for row in chosen],
        )
        self.check()

    @rule()
    def become_due(self) -> None:
        """Let every pending row's time have come."""
        self.world.due()
        for row in self.model.rows.values():
            row.due = row.due or row.status == "pending"
        self.check()

    @rule(n=st.sampled_from([1, 2, 1000]), every_row=st.booleans(), slot=picks)
    def sweep(self, n: int, every_row: bool, slot: int) -> None:
        """Attempts whose lease ran out end, the others do not."""
        swept = {row.id: row.status for row in self.run(verbs.sweep_pages(n=n) if every_row else verbs.sweep(n), slot)}
        self._delay_backoffs()
        assert swept == self.model.sweep(n)
        self.check()

    @rule(pick=picks, slot=picks)
    def cancel(self, pick: int, slot: int) -> None:
        """Pending rows end, holders are asked."""
        ids = {row.id for row in (self._row(pick), self._row(pick * 7)) if row}
        assert self.run(verbs.cancel(list(ids), reason="no"), slot) == self.model.cancel(ids, "no")
        self.check()

    @rule(pick=picks, every=st.booleans(), slot=picks)
    def redrive(self, pick: int, every: bool, slot: int) -> None:
        """What ended badly comes back with its old tokens."""
        row = self._row(pick)
        ids = list(self.model.rows) if every else [row.id] if row else []
        assert set(self.run(verbs.redrive(ids), slot)) == self.model.redrive(ids)
        self.check()

    @rule(pick=st.integers(0, 9))
    def archive(self, pick: int) -> None:
        """Housekeeping that keeps nothing longer than it must still keeps what live and dead rows need."""
        if pick:
            return
        ages = {"dead": "finished_at", "idempotency": "created_at", "attempts": "ended_at", "effects": "done_at"}
        for table, column in ages.items():
            self.world.sql(f"UPDATE {table} SET {column} = {column} - interval '1 hour'")
        self.run(verbs.archive(retention_seconds=3600, key_retention_seconds=3600))
        self.model.forget()
        self.check()

    @rule(worker=st.sampled_from(["B", "C"]), verb=st.sampled_from(["register", "register", "heartbeat", "drain"]))
    def worker_verb(self, worker: str, verb: str) -> None:
        """A worker's own row: an id is used once, draining stays draining, the dead stay dead."""
        fact = self.model.workers.get(worker)
        if verb == "register":
            if fact is None:
                self.run(fleet.register(worker))
                self.model.workers[worker] = WorkerFact()
            else:
                with pytest.raises(ValueError, match="taken"):
                    self.run(fleet.register(worker))
        elif fact is None or fact.status == "dead":
            with pytest.raises(WorkerEvicted):
                self.run(getattr(fleet, verb)(worker))
        else:
            fact.age = "fresh"
            fact.status = "draining" if verb == "drain" else fact.status
            assert self.run(getattr(fleet, verb)(worker)) == fact.status
        self.check()

    @rule(worker=st.sampled_from(["B", "C"]), age=st.sampled_from(["silent", "old", "old"]))
    def fall_silent(self, worker: str, age: str) -> None:
        """A worker was last seen a minute or two days ago; then the registry is swept."""
        if worker in self.model.workers:
            self.model.workers[worker].age = age
        gap = "1 minute" if age == "silent" else "2 days"
        self.world.sql("UPDATE workers SET last_seen_at = clock_timestamp() - %s::interval WHERE id = %s", gap, worker)
        assert self.run(fleet.sweep_workers()) == self.model.sweep_workers()
        self.check()

    # -- accidents

    @rule(pick=picks, verb=st.sampled_from(["claim", "claim_ordered", "complete", "retry", "enqueue", "redrive"]))
    def roll_back(self, pick: int, verb: str) -> None:
        """A verb in a transaction that aborts leaves nothing; a lease it saw is good for nothing, for ever."""
        conn = self.conns[pick % len(self.conns)]
        lease = self._lease(pick)
        statements: dict[str, Any] = {
            "claim": verbs.claim("A", 2, buckets=self._buckets(1), claim_id=1),
            "claim_ordered": verbs.claim_ordered("A", 2, buckets=self._buckets(1), claim_id=1),
            "complete": settle.complete([lease], accept_late=True),
            "retry": settle.retry([lease], ["boom"]),
            "enqueue": verbs.enqueue(NewRow("a", {"n": 0}, key="k1", ordered=True)),
            "redrive": verbs.redrive(list(self.model.rows)),
        }
        conn.execute("BEGIN")
        answer = self.world.run(statements[verb], conn)
        conn.execute("ROLLBACK")
        if verb.startswith("claim") and answer:
            self.phantoms = True
            self.leases += [job.lease for job in answer]
        self.check()

    @rule(pick=st.integers(0, 9))
    def fail_over(self, pick: int) -> None:
        """Another server takes over, and the claim of a row in flight was never replicated to it."""
        if pick > 2:
            return
        self.world.sql("UPDATE incarnation SET timeline = timeline - 1")
        if not self.phantoms and not self.model.moved:
            self.world.sql("SELECT setval('fence_seq', 1)")
        self.model.moved = True
        held = [r for r in self.model.rows.values() if r.status == "processing"]
        for row in held[:2]:
            self.world.sql(
                "UPDATE live SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,"
                " claim_id = NULL, cancel_asked = false, lease_generation = lease_generation - 1,"
                " attempts = attempts - 1, fence_token = %s, available_at = available_at WHERE id = %s",
                row.before_claim,
                row.id,
            )
            self.model.lose_claim(row)
        self.check(set_back=True)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
def test_the_database_does_what_the_model_says_after_every_step(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = type(
        "Machine", (InboxMachine,), {"world": world, "conns": [world.conn, world.connect(), world.connect()]}
    )
    phases = [Phase.generate, Phase.shrink] if SHRINK else [Phase.generate]
    began = time.monotonic()
    run_state_machine_as_test(
        seed(SEED)(machine),
        settings=settings(
            max_examples=max(1, STEPS // STEPS_AN_EXAMPLE),
            stateful_step_count=STEPS_AN_EXAMPLE,
            derandomize=False,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )
    took = time.monotonic() - began
    steps: int = machine.steps  # type: ignore[attr-defined]
    with capsys.disabled():
        print(f"\nstate machine: {steps} steps in {took:.1f} s, {steps / took:.0f} steps/s (seed {SEED})")
    assert steps >= STEPS // 2
