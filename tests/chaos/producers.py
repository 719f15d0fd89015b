"""Producers for a soak of ordered keys: transactions that stay open, commit late, or roll back."""

from __future__ import annotations

import random
import threading
from collections import Counter

from apps.ordered import step
from chaos.checker import Step
from chaos.nemesis import Plan
from tenure import postgres, verbs
from tenure.postgres.connection import QueueConnection
from world import World

BACKLOG_MAX = 300


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
        with postgres.connect(self._world.url) as conn, postgres.connect(self._world.url) as quick:
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

    def _transact(
        self, conn: QueueConnection, steps: list[Step], passing: tuple[QueueConnection, Step] | None = None
    ) -> None:
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
        postgres.run(conn, verbs.enqueue(step.row(**each._asdict())), self._world.schema)

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
