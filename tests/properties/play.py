"""One example of a world, played on a stage: does what the steps say, and looks after each whether anything waits."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from properties.could_start import PROMISED_SECONDS, Watch
from properties.stepped_fleet import Stage, SteppedWorker
from properties.worlds import (
    HOUR,
    LIMITS,
    OUTCOMES,
    SHARES,
    ClockStep,
    Deal,
    End,
    Expire,
    Late,
    Limit,
    Locked,
    Operate,
    Send,
    Setting,
    Step,
    Wait,
)
from tenure import verbs
from tenure.model.rows import Lease
from tenure.verbs import fleet, operators, queues
from tenure.worker.attempt import Attempt
from tenure.worker.news import Buckets, Note
from world import World

ROUNDS_MAX = 4000  # of one example: a fleet that does not come to rest is a fault, too
SOON_SECONDS = 4.0  # what falls due later falls due after the example
KEEP = {"incarnation", "migrations", "chores", "audit"}
_LOCKS = {  # what can be locked, and how one of it is
    "row": ("SELECT id FROM live WHERE status = 'pending' ORDER BY seq", "SELECT FROM live WHERE id = %s FOR UPDATE"),
    "head": (
        "SELECT queue, partition_key FROM heads ORDER BY queue, partition_key",
        "SELECT FROM heads WHERE queue = %s AND partition_key = %s FOR UPDATE",
    ),
    "arrivals": (
        "SELECT DISTINCT queue, partition_key FROM arrivals ORDER BY queue, partition_key",
        "SELECT FROM arrivals WHERE queue = %s AND partition_key = %s FOR UPDATE",
    ),
}


@cache
def keys_of(world: World) -> list[list[str]]:
    """Keys that fall into one bucket, twenty for each of two buckets, in order."""
    found = world.sql(
        "SELECT array_agg(k ORDER BY k) FROM (SELECT 'k' || n AS k FROM generate_series(1, 30000) AS n) AS keys"
        " WHERE bucket(k) < 2 GROUP BY bucket(k) ORDER BY bucket(k)"
    )
    return [keys[:20] for (keys,) in found]


@cache
def tables_of(world: World) -> list[str]:
    """The tables that an example may fill."""
    found = world.sql(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace"
        " AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
    )
    return sorted({name for (name,) in found} - KEEP)


def empty(stage: Stage, *, thoroughly: bool = True) -> None:
    """As good as new. Files as new only now and then: a TRUNCATE takes longer than the example."""
    tables = tables_of(stage.world)
    if thoroughly:
        stage.world.sql(f"TRUNCATE {', '.join(tables)}")
    else:
        stage.world.sql(";".join(f"DELETE FROM {table}" for table in tables))
    stage.clock.ahead = float(int(time.time())) - stage.clock.at
    stage.tell_time()


def expire(world: World, *leases: Lease) -> None:
    """End these leases by a sweep, or by the net under it where there is one; both go by the real clock."""
    world.expire(*leases)
    net: Any = getattr(verbs, "sweep_pages", None)
    assert world.sweep() or (net and world.run(net())), "no sweep has ended them"


@dataclass
class Play:
    """One example on a stage: does what the steps say, and looks after each."""

    stage: Stage
    setting: Setting
    workers: list[SteppedWorker] = field(default_factory=list)
    rounds: int = 0
    _made: int = 0

    def __post_init__(self) -> None:
        chance = random.Random(self.setting.seed)
        empty(self.stage, thoroughly=self.setting.seed % 20 == 0)
        self.workers = [
            SteppedWorker(
                self.stage,
                f"w{n}",
                queues=dict.fromkeys(member.queues, 1.0),
                slots=member.slots,
                chance=chance.random,
                hears=member.hears,
            )
            for n, member in enumerate(self.setting.members)
        ]
        self.watch = Watch(self.stage, self.workers)
        self.deal(self.setting.share)
        for n in range(self.setting.foreign):
            self._insert(self.stage.conn, Send(f"A{n}", delay=HOUR, priority=n % 2))
        if self.setting.limit != "none":
            self.do(Limit(self.setting.limit))
        self.stage.conn.execute("SELECT setseed(%s)", (self.setting.seed / 1000,))

    # -- time

    def play(self, steps: Sequence[Step]) -> None:
        """Every step, with a moment after each; then as long as anything may wait."""
        held = self.stage.world.connect() if self.setting.snapshot else None
        try:
            if held:
                held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                held.execute("SELECT count(*) FROM live")
            self._pass(steps, 0.0)
            self.wait(self._due_seconds() + PROMISED_SECONDS + 0.1)
        finally:
            if held:
                held.close()

    def wait(self, seconds: float) -> None:
        """Let time pass: every claimer does its rounds when it would."""
        until = self.stage.clock.at + seconds
        self.watch.look()
        while (worker := min(self.workers, key=lambda each: each.wake_at)).wake_at <= until:
            self.stage.pass_to(worker.wake_at)
            worker.round()
            self.watch.look()
            self.rounds += 1
            assert self.rounds < ROUNDS_MAX, "the claimers do not come to rest"
        self.stage.clock.at = max(self.stage.clock.at, until)
        self.watch.look()

    def _due_seconds(self) -> float:
        """How long until all is due that will be due soon, and a rate has earned the next start."""
        soon = "SELECT extract(epoch FROM max(available_at))::float8 FROM live WHERE available_at < to_timestamp(%s)"
        ((due,),) = self.stage.conn.execute(soon, (self.stage.clock.database + SOON_SECONDS,)).fetchall()
        ((rate,),) = self.stage.conn.execute("SELECT min(rate_per_second) FROM queues").fetchall()
        return max(0.0, due - self.stage.clock.database if due else 0.0, 1.1 / rate if rate else 0.0)

    # -- what happens

    def do(self, step: Step) -> None:
        """One step."""
        match step:
            case Send():
                self._tell(step.note, self._insert(self.stage.conn, step))
            case Late():
                self._late(step)
            case Locked():
                self._locked(step)
            case End():
                for worker, attempt in self._picked(step.pick):
                    worker.end(attempt, OUTCOMES[step.how])
            case Expire():
                self._expire(step.pick)
            case Operate():
                self._operate(step)
            case Limit():
                self._run(queues.limit(step.queue, **LIMITS[step.kind]))
                self._tell(step.note, ["queues"])
            case ClockStep():
                self.stage.conn.execute("UPDATE chores SET ran_at = clock_timestamp()")
                self.stage.clock.ahead += step.seconds
                self.stage.tell_time()
                self._run(fleet.take_turn("housekeeper"))  # as a worker does every second or so
            case Deal():
                self.deal(step.share)
            case Wait():
                self.wait(step.seconds)

    def deal(self, share: str) -> None:
        """Tell every worker its buckets."""
        shares = SHARES[share]
        for n, worker in enumerate(self.workers):
            worker.tell(Buckets(shares[n % len(shares)]))

    def _run(self, statement: Any) -> Any:
        return self.stage.world.run(statement, self.stage.conn)

    def _tell(self, arrives: bool, notes: Sequence[str]) -> None:
        for worker in self.workers:
            for note in notes if arrives and worker.hears else ():
                worker.tell(Note(note))

    def _insert(self, conn: Any, send: Send) -> list[str]:
        """The rows, by plain INSERT; the notes that go with them."""
        pool = keys_of(self.stage.world)[send.bucket]
        keys: list[str | None] = [*pool[send.first : send.first + send.keys]] if send.keys else [None]
        keys = [key for key in keys for _ in range(send.rows)]
        ids = [UUID(int=self._made + n + 1) for n in range(len(keys))]
        self._made += len(ids)
        conn.execute(
            "INSERT INTO live (id, kind, payload, queue, priority, available_at, created_at, partition_key, ordered,"
            " hold, max_attempts) SELECT r.id, 'k', '{}', %s, %s, statement_timestamp() + %s * interval '1 second',"
            " statement_timestamp(), r.key, %s, %s, 3 FROM unnest(%s::uuid[], %s::text[]) AS r (id, key)",
            (send.queue, send.priority, send.delay, send.ordered, send.hold, ids, keys),
        )
        return [f"{send.bucket if send.keys else '*'} {send.queue}"] if send.delay <= 0 else []

    def _late(self, step: Late) -> None:
        conn = self.stage.connect()
        try:
            with conn.transaction():
                notes = self._insert(conn, step.send)
                self._pass(step.meanwhile, step.seconds)
            self._tell(step.send.note, notes)
        finally:
            self.stage.close_one(conn)

    def _locked(self, step: Locked) -> None:
        find, lock = _LOCKS[step.what]
        found = self.stage.world.sql(find)
        if not found:
            return
        conn = self.stage.connect()
        try:
            with conn.transaction():
                self.watch.locked = found[step.pick % len(found)]
                conn.execute(lock.encode(), self.watch.locked)
                self._pass(step.meanwhile, step.seconds)
            self.watch.locked = ()
        finally:
            self.stage.close_one(conn)

    def _pass(self, meanwhile: Sequence[Step], seconds: float) -> None:
        for step in meanwhile:
            self.do(step)
            self.wait(0.02)
        self.wait(seconds)

    def _picked(self, pick: int | None) -> list[tuple[SteppedWorker, Attempt]]:
        running = [(worker, attempt) for worker in self.workers for attempt in worker.running]
        return running if pick is None or not running else [running[pick % len(running)]]

    def _expire(self, pick: int) -> None:
        """A row that a sweep gives back is due at once by our clock."""
        held = "SELECT FROM live WHERE id = %s AND fence_token = %s AND status = 'processing'"
        due = "UPDATE live SET available_at = statement_timestamp() WHERE id = %s AND status = 'pending'"
        for _, attempt in self._picked(pick)[:1]:
            if self.stage.world.sql(held, *attempt.claimed.identity):
                expire(self.stage.world, attempt.claimed.lease)
                self.stage.conn.execute(due, (attempt.claimed.id,))

    def _operate(self, step: Operate) -> None:
        if step.what in ("pause", "resume"):
            self._run(queues.pause(step.queue) if step.what == "pause" else queues.resume(step.queue))
            self._tell(step.note, ["queues"])
        elif step.what == "redrive":
            self._run(verbs.redrive([id for (id,) in self.stage.world.sql("SELECT id FROM dead")]))
        elif step.what == "free":
            for id, queue, key in self.stage.world.sql(
                "SELECT id, queue, partition_key FROM dead WHERE ordered ORDER BY id"
            ):
                self._run(operators.free_key(queue, key))
                self.watch.freed.add(id)
        else:
            pending = self.stage.world.sql("SELECT id FROM live WHERE status = 'pending' ORDER BY seq")
            if pending:
                self._run(verbs.cancel([pending[step.pick % len(pending)][0]]))
