"""Worlds to try the claims in: what lies in the tables, who works there, and what happens, as values that shrink."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from uuid import UUID

from hypothesis import strategies as st

from properties.could_start import PROMISED_SECONDS, Watch
from properties.stepped_fleet import Stage, SteppedWorker
from tenure import verbs
from tenure.model.outcome import Completed, DeadLetter, Outcome, Release, Retry, Snooze
from tenure.model.rows import BUCKETS
from tenure.verbs import operators, queues
from tenure.worker.attempt import Attempt
from tenure.worker.news import Buckets, Note
from world import World

HOUR = 3600.0
SOON_SECONDS = 4.0  # what falls due later falls due after the example
ROUNDS_MAX = 4000  # of one example: a fleet that does not come to rest is a fault, too
KEEP = {"incarnation", "migrations", "chores", "audit"}
OUTCOMES: dict[str, Outcome] = {
    "complete": Completed(),
    "retry": Retry("again", after_seconds=0.0),
    "retry later": Retry("again", after_seconds=0.7),
    "snooze": Snooze(0.7),
    "release": Release(),
    "dead letter": DeadLetter("poison"),
}
Limits = Literal["none", "running", "per key", "rate", "all"]
LIMITS: dict[str, dict[str, Any]] = {
    "none": {"clear": True},
    "running": {"max_running": 2, "clear": True},
    "per key": {"max_per_key": 1, "clear": True},
    "rate": {"rate_per_second": 1.0, "burst": 2, "clear": True},
    "all": {"max_running": 2, "max_per_key": 1, "rate_per_second": 1.0, "burst": 2},
}
SHARES: dict[str, list[tuple[int, ...] | None]] = {
    "whole": [None],
    "halves": [tuple(range(0, BUCKETS, 2)), tuple(range(1, BUCKETS, 2))],
    "few": [tuple(range(24)), tuple(range(24, BUCKETS))],
    "nothing": [()],
}


@dataclass(frozen=True)
class Member:
    """A worker of the fleet."""

    queues: tuple[str, ...] = ("a",)
    slots: int = 2
    hears: bool = True


@dataclass(frozen=True)
class Setting:
    """What is there before anything happens."""

    members: tuple[Member, ...] = (Member(),)
    share: str = "whole"
    foreign: int = 0  # queues that nobody here serves, with a row for later in each
    snapshot: bool = False  # somebody holds a snapshot: every dead version stays
    limit: str = "none"  # of queue a
    seed: int = 0


@dataclass(frozen=True)
class Send:
    """Rows of one statement: `rows` for each of `keys` keys of one bucket from `first` on, or without keys."""

    queue: str = "a"
    bucket: int = 0
    first: int = 0
    keys: int = 0
    rows: int = 1
    ordered: bool = False
    hold: bool = False
    priority: int = 0
    delay: float = 0.0
    note: bool = True


@dataclass(frozen=True)
class Late:
    """The same in a transaction that stays open for so long."""

    send: Send
    seconds: float


@dataclass(frozen=True)
class Locked:
    """Somebody has locked a pending row for so long."""

    pick: int
    seconds: float


@dataclass(frozen=True)
class End:
    """A handler returns; without a pick, all of them."""

    how: str
    pick: int | None = None


@dataclass(frozen=True)
class Expire:
    """A lease is over, and a sweep ends it."""

    pick: int


@dataclass(frozen=True)
class Operate:
    """What an operator does."""

    what: Literal["redrive", "free", "cancel", "pause", "resume"]
    queue: str = "a"
    pick: int = 0
    note: bool = True


@dataclass(frozen=True)
class Limit:
    """An operator sets limits."""

    kind: str
    queue: str = "a"
    note: bool = True


@dataclass(frozen=True)
class ClockStep:
    """The database's clock steps, by an administrator or by a promotion."""

    seconds: float


@dataclass(frozen=True)
class Deal:
    """The ring is dealt anew."""

    share: str


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: float


Step = Send | Late | Locked | End | Expire | Operate | Limit | ClockStep | Deal | Wait

_queues = st.sampled_from(["a", "a", "b"])
_notes = st.booleans()
_picks = st.integers(0, 5)
_pauses = st.sampled_from([0.05, 0.6, 1.1, 3.5])
sends = st.builds(
    lambda queue, bucket, first, keys, rows, ordered, hold, priority, delay, note: Send(
        queue,
        bucket,
        first,
        keys,
        rows,
        ordered and keys > 0,
        hold and ordered and keys > 0,
        0 if ordered and keys > 0 else priority,
        delay,
        note,
    ),
    _queues,
    st.integers(0, 1),
    st.sampled_from([0, 0, 1, 6, 7]),
    st.sampled_from([0, 1, 1, 2, 6, 7]),
    st.sampled_from([1, 1, 2, 9]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([0.0, 0.0, 0.0, -10.0, 0.7, 3.4, HOUR]),
    _notes,
)
steps: st.SearchStrategy[Step] = st.one_of(
    sends,
    sends,
    sends,
    st.builds(End, st.sampled_from(sorted(OUTCOMES)), st.one_of(st.none(), _picks)),
    st.builds(Wait, _pauses),
    st.builds(Limit, st.sampled_from(sorted(LIMITS)), _queues, _notes),
    st.builds(Late, sends, _pauses),
    st.builds(Locked, _picks, _pauses),
    st.builds(Expire, _picks),
    st.builds(Operate, st.sampled_from(["redrive", "free", "cancel", "pause", "resume"]), _queues, _picks, _notes),
    st.builds(ClockStep, st.sampled_from([-300.0, 300.0])),
    st.builds(Deal, st.sampled_from(sorted(SHARES))),
)
members = st.builds(
    Member,
    st.sampled_from([("a",), ("a",), ("a", "b"), ("b",)]),
    st.sampled_from([1, 2, 2, 5]),
    st.sampled_from([True, False]),
)
fleets = st.builds(
    Setting,
    st.lists(members, min_size=1, max_size=2).map(tuple),
    st.sampled_from(["whole", "whole", *sorted(SHARES)]),
    st.sampled_from([0, 0, 9]),
    st.booleans(),
    st.sampled_from(["none", "none", *sorted(LIMITS)]),
    st.integers(0, 999),
)

# The shortest world of each old fault.
SCENES: dict[str, tuple[Setting, list[Step]]] = {
    "D1": (
        Setting(),
        [
            Send(keys=8, ordered=True, delay=HOUR),
            Wait(1.1),
            Send(first=8, keys=1, ordered=True, delay=0.7, note=False),
        ],
    ),
    "D4": (Setting(), [Send(), Wait(0.05), End("complete"), ClockStep(-300), Send()]),
    "D4 rate": (
        Setting(limit="rate"),
        [Send(rows=3), Wait(0.05), End("complete"), ClockStep(-300), Send()],
    ),
    "D5": (Setting(foreign=9), [Send()]),
    "D8": (Setting(limit="per key"), [Send(keys=1, rows=9), Wait(0.6), Send(first=1, keys=1)]),
}


def _near(scene: tuple[Setting, list[Step]], more: list[tuple[int, Step]]) -> tuple[Setting, list[Step]]:
    happens = list(scene[1])
    for place, step in more:
        happens.insert(place % (len(happens) + 1), step)
    return scene[0], happens


# Anything at all (two lists: one would be short, and each of the two still shrinks to nothing), or an old fault's world
# with something more in it.
worlds: st.SearchStrategy[tuple[Setting, list[Step]]] = st.one_of(
    st.builds(
        lambda setting, one, two: (setting, one + two),
        fleets,
        st.lists(steps, max_size=10),
        st.lists(steps, max_size=10),
    ),
    st.builds(_near, st.sampled_from(list(SCENES.values())), st.lists(st.tuples(_picks, steps), max_size=4)),
)


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
            for step in steps:
                self.do(step)
                self.wait(0.02)
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
                self.stage.clock.ahead += step.seconds
                self.stage.tell_time()
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
                self.wait(step.seconds)
            self._tell(step.send.note, notes)
        finally:
            self.stage.close_one(conn)

    def _locked(self, step: Locked) -> None:
        pending = self.stage.world.sql("SELECT id FROM live WHERE status = 'pending' ORDER BY seq")
        if not pending:
            return
        id = pending[step.pick % len(pending)][0]
        conn = self.stage.connect()
        try:
            with conn.transaction():
                conn.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (id,))
                self.watch.locked = {id}
                self.wait(step.seconds)
            self.watch.locked = set()
        finally:
            self.stage.close_one(conn)

    def _picked(self, pick: int | None) -> list[tuple[SteppedWorker, Attempt]]:
        running = [(worker, attempt) for worker in self.workers for attempt in worker.running]
        return running if pick is None or not running else [running[pick % len(running)]]

    def _expire(self, pick: int) -> None:
        """The sweep goes by the real clock. A row that it gives back is due at once by ours."""
        held = "SELECT FROM live WHERE id = %s AND fence_token = %s AND status = 'processing'"
        due = "UPDATE live SET available_at = statement_timestamp() WHERE id = %s AND status = 'pending'"
        for _, attempt in self._picked(pick)[:1]:
            if self.stage.world.sql(held, *attempt.claimed.identity):
                self.stage.world.expire(attempt.claimed.lease)
                self.stage.world.sweep()
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
