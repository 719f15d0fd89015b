"""A soak of ordered keys: producers that commit late, workers that are killed and stopped past their lease, and a judge.

Run it for as long as you like: `python -m chaos.soak_order --seconds 300 --seed 7`. Exit code 0: valid, 1: violated,
2: unknown, because too little happened for "nothing was found" to mean anything.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import servers
from apps.ledger import read
from apps.ordered import step
from chaos.checker import Evidence, Span, Step, Verdict, judge
from crew import Process
from tenure import db, verbs
from tenure.db import QueueConnection
from world import World, new_world

LEASE_SECONDS = 2.0
TERMS = ["--slots=4", f"--lease-seconds={LEASE_SECONDS}", "--drain-seconds=1", "--grace-seconds=1", "--poll-seconds=0.5"]
BACKLOG_MAX = 300
SETTLE_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """How long, how many, and from which seed."""

    seconds: float
    seed: int
    workers: int = 8
    producers: int = 3
    keys: int = 24  # of these a third is shared by all producers
    needed: int = 3  # of each harm and each recovery, or the verdict is unknown

    @property
    def wanted(self) -> dict[str, int]:
        """What must have happened, and how often."""
        return dict.fromkeys(("kills", "pauses", "reclaims"), self.needed)


class Producer(threading.Thread):
    """Sends steps to keys of its own and to shared ones, in transactions that stay open for a while; some roll back.

    What it sends to a shared key commits late: a row that came after it is visible before it, and likely in flight.
    """

    def __init__(self, world: World, plan: Plan, number: int, over: threading.Event) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self._world, self._number, self._late, self._over = world, number, number + plan.producers, over
        self._chance = random.Random(f"producer {plan.seed} {number}")
        self._own = [f"own:{n}" for n in range(plan.keys * 2 // 3) if n % plan.producers == number]
        self._shared = [f"shared:{n}" for n in range(plan.keys // 3)]
        self._numbers: Counter[tuple[str, int]] = Counter()
        self.sent: list[Step] = []
        self.rolled_back = 0

    def run(self) -> None:
        """Transaction after transaction until told to stop."""
        with db.connect(self._world.url) as conn, db.connect(self._world.url) as quick:
            while not self._over.is_set():
                self._send(conn, quick)

    def _send(self, conn: QueueConnection, quick: QueueConnection) -> None:
        shared = self._chance.choice(self._shared)
        backlog, waiting = self._backlog(conn, shared)
        if waiting < 2 and self._chance.random() < 0.5:
            self._transact(conn, [self._next(shared, self._late)], (quick, self._next(shared, self._number)))
        elif backlog < BACKLOG_MAX:
            keys = self._chance.sample(self._own, k=self._chance.randint(1, len(self._own)))
            self._transact(conn, [self._next(key, self._number) for key in keys])
        else:
            self._over.wait(0.02)

    def _transact(self, conn: QueueConnection, steps: list[Step], passing: tuple[QueueConnection, Step] | None = None) -> None:
        """Enqueue these in one transaction, another one meanwhile; now and then roll back and use the numbers again."""
        try:
            with conn.transaction():
                for each in steps:
                    self._enqueue(conn, each)
                if passing:
                    self._enqueue(*passing)
                    self._sent(passing[1])
                self._over.wait(self._chance.uniform(0.03, 0.12) if passing else self._chance.uniform(0.0, 0.02))
                if self._chance.random() < 0.05:
                    raise _RolledBack
        except _RolledBack:
            self.rolled_back += 1
        else:
            for each in steps:
                self._sent(each)

    def _next(self, key: str, by: int) -> Step:
        return Step(key, by, self._numbers[key, by] + 1)

    def _enqueue(self, conn: QueueConnection, each: Step) -> None:
        db.run(conn, verbs.enqueue(step.row(**each._asdict())), self._world.schema)

    def _sent(self, each: Step) -> None:
        self._numbers[each.key, each.by] = each.seq
        self.sent.append(each)

    def _backlog(self, conn: QueueConnection, key: str) -> tuple[int, int]:
        """How many rows wait, and how many of them in this key."""
        asked = f"SELECT count(*), count(*) FILTER (WHERE partition_key = %s) FROM {self._world.schema}.live"
        ((backlog, waiting),) = conn.execute(asked.encode(), [key]).fetchall()
        return backlog, waiting


class _RolledBack(Exception):
    """This transaction is not to commit."""


class Nemesis(threading.Thread):
    """Kills a worker and starts another, or stops one until its lease is over, again and again."""

    def __init__(self, world: World, folder: Path, plan: Plan, over: threading.Event) -> None:
        super().__init__(name="nemesis", daemon=True)
        self._world, self._folder, self._plan, self._over = world, folder, plan, over
        self._chance = random.Random(f"nemesis {plan.seed}")
        self.all: list[Process] = []
        self.crew = [self._hire() for _ in range(plan.workers)]
        self._resume_at: dict[int, tuple[float, Process]] = {}
        self.happened: Counter[str] = Counter()

    def _hire(self) -> Process:
        seed = str(self._plan.seed)
        self.all.append(Process(self._world, "apps.ordered:inbox", self._folder, *TERMS, TENURE_TEST_SEED=seed))
        return self.all[-1]

    def ready(self) -> None:
        """Return when the whole crew is in the ring."""
        for worker in self.crew:
            worker.saw("ring_changed")

    def run(self) -> None:
        """Harm after harm, to workers that hold a row, until told to stop; then everybody may go on."""
        conn = self._world.connect()
        while not self._over.wait(self._chance.uniform(0.3, 0.9)):
            self._resume(time.monotonic())
            holders = conn.execute(b"SELECT DISTINCT split_part(claimed_by, '-', -2) FROM live").fetchall()
            able = [at for at, worker in enumerate(self.crew) if (str(worker.pid),) in holders and not self._rests(worker)]
            if able:
                self._harm(self._chance.choice(able))
        self._resume(float("inf"))

    def _rests(self, worker: Process) -> bool:
        return worker.pid in self._resume_at

    def _harm(self, at: int) -> None:
        if self.happened["pauses"] > self.happened["kills"]:
            self._kill(at, self.crew[at])
        elif len(self._resume_at) < len(self.crew) // 4:
            self._pause(self.crew[at])

    def _kill(self, at: int, worker: Process) -> None:
        worker.end(signal.SIGKILL)
        self.crew[at] = self._hire()
        self.happened["kills"] += 1

    def _pause(self, worker: Process) -> None:
        worker.send(signal.SIGSTOP)
        self._resume_at[worker.pid] = time.monotonic() + LEASE_SECONDS + self._chance.uniform(0.7, 2.0), worker
        self.happened["pauses"] += 1

    def _resume(self, by: float) -> None:
        for pid, (at, worker) in list(self._resume_at.items()):
            if at <= by:
                worker.send(signal.SIGCONT)
                del self._resume_at[pid]


def soak(world: World, folder: Path, plan: Plan) -> tuple[Verdict, Evidence]:
    """One run in this world: the verdict, and what it was made from."""
    world.sql("UPDATE chores SET every_seconds = 0.4 WHERE name IN ('leases', 'fleet')")
    over = threading.Event()
    nemesis = Nemesis(world, folder, plan, over)
    producers = [Producer(world, plan, number, over) for number in range(plan.producers)]
    with _ended(nemesis):
        nemesis.ready()
        for thread in [nemesis, *producers]:
            thread.start()
        _last(world, nemesis, plan)
        over.set()
        for thread in [nemesis, *producers]:
            thread.join(30)
        _settle(world)
        nemesis.ready()
        exits = Counter(f"exits with {worker.end()}" for worker in nemesis.crew)
    exits["rolled back"] = sum(producer.rolled_back for producer in producers)
    happened = _happened(world, nemesis) + exits
    evidence = _evidence(world, [each for producer in producers for each in producer.sent], folder, happened)
    return judge(evidence, plan.wanted), evidence


def _last(world: World, nemesis: Nemesis, plan: Plan) -> None:
    """As long as was asked for; on a slow machine up to four times that, until what must happen has happened."""
    began = time.monotonic()
    while (past := time.monotonic() - began) < plan.seconds * 4:
        if past >= plan.seconds and _happened(world, nemesis) >= Counter(plan.wanted):
            return
        time.sleep(0.2)


def _happened(world: World, nemesis: Nemesis) -> Counter[str]:
    """What counts as chaos, so far."""
    ends = world.sql("SELECT outcome, error FROM attempts")
    return nemesis.happened + Counter(
        {
            "reclaims": sum(outcome == "expired" for outcome, _ in ends),
            "reclaims for want of presence": ends.count(("expired", "its worker is gone")),
            "stale writes blocked": sum(len(worker.events("stale_write_blocked")) for worker in nemesis.all),
            "retries": sum(outcome == "retried" for outcome, _ in ends),
        }
    )


@contextlib.contextmanager
def _ended(nemesis: Nemesis) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in nemesis.all:
            if worker.process.poll() is None:
                worker.end(signal.SIGKILL)


def _settle(world: World) -> None:
    """Until nothing is left. Backoff is not waited for: the clock is ours."""
    by = time.monotonic() + SETTLE_SECONDS
    while world.count("live") and time.monotonic() < by:
        world.sql("UPDATE live SET available_at = clock_timestamp() WHERE available_at > clock_timestamp()")
        time.sleep(0.1)


def _evidence(world: World, sent: list[Step], folder: Path, happened: Counter[str]) -> Evidence:
    rows = world.sql("SELECT id::text, payload, status FROM inbox")
    steps = {id: Step(**payload) for id, payload, _ in rows}
    tape = world.sql(
        "SELECT row_id::text, lease_generation, date_part('epoch', claimed_at), date_part('epoch', ended_at), outcome"
        " FROM attempts UNION ALL SELECT id::text, lease_generation, date_part('epoch', claimed_at),"
        " COALESCE(date_part('epoch', completed_at), 'infinity'), status"
        " FROM inbox WHERE status IN ('processing', 'completed')"
    )
    return Evidence(
        sent,
        [(id, steps[id], status) for id, _, status in rows],
        [Span(steps[id], id, *facts) for id, *facts in tape],
        read(folder / "ledger.jsonl"),
        happened,
    )


def without_the_rule(world: World) -> None:
    """Let taken keys stand in nobody's way: what is left is the walk to the head of each key."""
    world.sql(
        "CREATE FUNCTION unlike() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.partition_key := NEW.partition_key || '' '' || NEW.row_id; RETURN NEW; END'"
    )
    world.sql("CREATE TRIGGER unlike BEFORE INSERT ON keys FOR EACH ROW EXECUTE FUNCTION unlike()")


def words(plan: Plan, verdict: Verdict, evidence: Evidence) -> str:
    """The run in a few lines."""
    counts = ", ".join(f"{what} {n}" for what, n in sorted(evidence.happened.items()))
    lines = [
        f"seed {plan.seed}, {plan.seconds:g} s, {plan.workers} workers, {plan.producers} producers, {plan.keys} keys",
        f"{len(evidence.sent)} rows, {len(evidence.spans)} attempts, {counts}",
        f"verdict: {verdict.word} {dict(verdict.kinds()) or ''} {'; '.join(verdict.missing)}".strip(),
        *verdict.violations[:10],
    ]
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    for name in ("workers", "producers", "keys", "needed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--without-the-rule", action="store_true", help="the negative control: violations are expected")
    given = vars(parser.parse_args())
    broken = given.pop("without_the_rule")
    plan = Plan(**given)
    with tempfile.TemporaryDirectory() as folder, servers.running(servers.available()[0], Path(folder)) as url:
        with new_world(url) as world:
            if broken:
                without_the_rule(world)
            verdict, evidence = soak(world, Path(folder), plan)
    print(words(plan, verdict, evidence))
    return {"valid": 0, "violated": 1, "unknown": 2}[verdict.word]


if __name__ == "__main__":
    sys.exit(main())
