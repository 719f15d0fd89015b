"""A soak of batches: rows that are killed in the middle, cancelled, failed and redriven, and a judge of the followers.

Run it for as long as you like: `python -m chaos.soak_batches --batches 100 --rows 1000 --seed 7`. Exit code 0: every
batch was followed once and was told the truth, 1: not.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

import servers
from tenure import verbs
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import batches, operators, settle
from tenure.verbs.batches import WAITING_SECONDS
from world import World, new_world

CLAIM = 40
IDLE_LOOKS = 8  # without a row at work: a batch that is open then stays so


class Plan(NamedTuple):
    """How much, and by how many."""

    batches: int = 100
    rows: int = 1000
    workers: int = 4
    seed: int = 7
    seconds_max: float = 900.0


Deed = Callable[[World, psycopg.Connection[Any], random.Random], None]


class Trouble(threading.Thread):
    """One who claims and ends rows, or meddles with them; each deed on a connection that may be cut in the middle."""

    def __init__(self, world: World, deed: Deed, seed: int) -> None:
        super().__init__(daemon=True)
        self.world, self.deed, self.random, self.over = world, deed, random.Random(seed), threading.Event()
        self.cut = 0
        self.errors: list[str] = []

    def run(self) -> None:
        """Deed after deed."""
        conn = self.world.connect()
        while not self.over.is_set():
            try:
                if conn.closed:
                    conn = self.world.connect()
                self.deed(self.world, conn, self.random)
                if self.random.random() < 0.02:
                    conn.close()  # what it holds is left behind: only the end of its lease brings it back
                    self.cut += 1
            except psycopg.OperationalError:
                self.cut += 1
            except Exception as error:
                self.errors.append(repr(error))


def work(world: World, conn: psycopg.Connection[Any], dice: random.Random) -> None:
    """Claim some, end most of them in one way or another; the rest is left as by a killed worker."""
    held: list[Claimed] = world.run(verbs.claim("W", CLAIM, lease_seconds=2.0), conn)
    dice.shuffle(held)
    left = [job for job in held if dice.random() > 0.03]
    failed = [job for job in left if dice.random() < 0.05]
    back = [job for job in left if job not in failed and dice.random() < 0.05]
    done = [job for job in left if job not in failed and job not in back]
    conn.execute("SET deadlock_timeout = '50ms'")
    try:
        world.run(settle.complete([job.lease for job in done], accept_late=True), conn)
        world.run(settle.fail([job.lease for job in failed], ["no"] * len(failed)), conn)
        world.run(settle.release([job.lease for job in back]), conn)
    except psycopg.errors.DeadlockDetected:
        return
    if not held:
        time.sleep(0.02)


def meddle(world: World, conn: psycopg.Connection[Any], dice: random.Random) -> None:
    """An operator who cancels, deletes, redrives and sweeps."""
    some = "SELECT id FROM {} WHERE counted > 0 ORDER BY random() LIMIT 5"
    live: list[UUID] = [id for (id,) in conn.execute(some.format("live").encode()).fetchall()]
    dead: list[UUID] = [id for (id,) in conn.execute(some.format("dead").encode()).fetchall()]
    deeds: list[Any] = [verbs.cancel(live[:2]), verbs.redrive(dead), operators.delete(live[2:3]), verbs.sweep_pages()]
    try:
        for deed in dice.sample(deeds, 2):
            world.run(deed, conn)
    except psycopg.errors.DeadlockDetected:
        return
    time.sleep(0.05)


def soak(world: World, plan: Plan) -> list[str]:
    """One run: what is wrong, which is nothing."""
    crew = [Trouble(world, work, plan.seed + n) for n in range(plan.workers)]
    crew += [Trouble(world, meddle, plan.seed + 100 + n) for n in range(2)]
    follower: dict[int, UUID] = {}
    for thread in crew:
        thread.start()
    for n in range(plan.batches):
        with world.conn.transaction():
            then = world.enqueue("then", queue="then", delay_seconds=WAITING_SECONDS)
            rows = [NewRow("part", {"n": n}, max_attempts=3) for _ in range(plan.rows)]
            follower[world.run(batches.open_group(rows, then_row=then)).id] = then
    by, idle = time.monotonic() + plan.seconds_max, 0
    while idle < IDLE_LOOKS and time.monotonic() < by:
        busy = world.sql("SELECT 1 FROM live WHERE queue <> 'then' LIMIT 1")
        idle = 0 if busy else idle + 1 if _open(world) else IDLE_LOOKS
        time.sleep(0.2)
    for thread in crew:
        thread.over.set()
    for thread in crew:
        thread.join(60)
    wrong = [error for thread in crew for error in thread.errors]
    print(f"cut {sum(thread.cut for thread in crew)} times, uncounted {_uncounted(world)}")
    return wrong + judge(world, plan, follower)


def _open(world: World) -> int:
    return int(world.sql("SELECT count(*) FROM groups WHERE ended_at IS NULL")[0][0])


def _uncounted(world: World) -> int:
    query = "SELECT count(*) FROM inbox WHERE counted < 0"
    return int(world.sql(query)[0][0])


def judge(world: World, plan: Plan, follower: dict[int, UUID]) -> list[str]:
    """Every batch has ended, its follower is due, once, and was told what the rows say."""
    wrong = [f"{_open(world)} batches are open"] if _open(world) else []
    if world.sql("SELECT 1 FROM group_slots WHERE open <> 0 LIMIT 1"):
        wrong.append("a slot is not empty")
    due = {row.id: row for row in world.claim("judge", 10_000, buckets=None, lanes=[Lane("then", 0)])}
    for group, then in follower.items():
        if then not in due:
            wrong.append(f"what follows batch {group} is not due")
        elif f'"tenure-ended": "{plan.rows}"' not in (due[then].headers or ""):
            wrong.append(f"batch {group} was told {due[then].headers}")
    return wrong


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    plan = Plan(given.batches, given.rows, seed=given.seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        url = stack.enter_context(servers.running(servers.available()[0], Path(folder)))
        wrong = soak(stack.enter_context(new_world(url)), plan)
    for line in wrong[:20]:
        print(line)
    verdict = "violated" if wrong else "each was followed once"
    print(f"{plan.batches} batches of {plan.rows}, seed {plan.seed}: {verdict}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
