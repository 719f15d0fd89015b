"""Relays that are killed or frozen inside `send`, again and again, on real brokers; then a judge reads the stream.

`python -m chaos.relay_crashes --broker jetstream --point sent --times 100 --seed 7`. Points: claimed (before it is
sent), sending (it is on the wire), sent (the broker has it, we do not know), frozen (stopped before it is sent, until
others have sent it and more). Exit code 0: valid, 1: violated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import servers
from brokers import kafka_mock, nats_server, rabbitmq_server, redis_server
from shapes.relay_tools import Found, in_rabbitmq, in_redis, in_stream, in_topic, make_exchange, make_stream, now
from tenure.app.inbox import Inbox
from tenure.events import Bus
from tenure.shapes.outbox import Answer, JetStream, Kafka, Message, Outbox, RabbitMQ, RedisStream, Transport
from tenure.shapes.outbox.transport import bytes_max_of
from tenure.worker.config import Terms
from tenure.worker.worker import Worker
from world import World, new_world

POINTS = ("claimed", "sending", "sent", "frozen")
KEYS, CREW, EACH = 12, 3, 6  # events for each time that a relay is to end
SETTLE_SECONDS = 240.0
EXACT = ("jetstream", "redis")  # they dedupe and fence: nothing may stand there twice or late


class Plan(NamedTuple):
    """What is to happen."""

    broker: str = "jetstream"
    point: str = "sent"
    times: int = 100
    seed: int = 7
    control: bool = False


class Verdict(NamedTuple):
    """What the judge found."""

    ended: int
    published: int
    lost: int
    doubles: int
    inversions: int  # after dedupe by id, in the order in which a consumer reads
    late: int  # a double that stands behind a later event of its key

    def valid(self, plan: Plan) -> bool:
        """Every event at least once and in order; where the broker can, exactly once."""
        exact = plan.broker not in EXACT or (self.doubles == 0 and self.late == 0)
        return self.ended >= plan.times and self.lost == 0 and self.inversions == 0 and exact


class Careless(JetStream):
    """The control: no id to dedupe by."""

    def sent_with(self, message: Message, last: int | None) -> dict[str, str]:
        return {k: v for k, v in super().sent_with(message, last).items() if k != "Nats-Msg-Id"}


class Ending:
    """A transport whose process ends, or stops, at the named point of its n-th event."""

    def __init__(self, inner: Transport, point: str, n: int) -> None:
        self._inner, self._point, self._n, self.bytes_max = inner, point, n, bytes_max_of(inner)

    async def open(self, lease_seconds: float) -> None:
        await self._inner.open(lease_seconds)

    async def close(self) -> None:
        await self._inner.close()

    async def send(self, message: Message) -> Answer:
        self._n -= 1
        if self._n:
            return await self._inner.send(message)
        if self._point == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
            return await self._inner.send(message)
        if self._point == "sending":
            asyncio.get_running_loop().create_task(self._inner.send(message))
            await asyncio.sleep(random.random() / 200)
        elif self._point == "sent":
            await self._inner.send(message)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Place(NamedTuple):
    """A broker that is ready: how to send there, and what stands there."""

    transport: Callable[[], Transport]
    read: Callable[[], list[Found]]


@contextlib.contextmanager
def place(plan: Plan) -> Iterator[Place]:
    """A broker of this kind."""
    if plan.broker == "jetstream":
        kind = Careless if plan.control else JetStream
        with nats_server() as nats:
            now(make_stream(nats.url))
            yield Place(lambda: kind(nats.url, stream="SHOP", subject="shop"), lambda: now(in_stream(nats.url)))
    elif plan.broker == "redis":
        with redis_server() as redis:
            yield Place(lambda: RedisStream(redis.url, stream="shop"), lambda: in_redis(redis.url))
    elif plan.broker == "rabbitmq":
        with rabbitmq_server() as rabbit:
            now(make_exchange(rabbit.url))
            yield Place(lambda: RabbitMQ(rabbit.url, exchange="shop"), lambda: now(in_rabbitmq(rabbit.url)))
    else:
        with kafka_mock() as mock:
            yield Place(lambda: Kafka(mock, topic="shop", fenced=False), lambda: in_topic(mock))


class Crew:
    """Relays in processes forked from this one, which has no threads: they begin at once."""

    def __init__(self, world: World, at: Place, plan: Plan) -> None:
        self._world, self._at, self._plan = world, at, plan
        self._random = random.Random(plan.seed)
        self._pids: set[int] = set()
        self._frozen: dict[int, float] = {}
        self.ended = 0

    def hire(self, *, mortal: bool = True) -> None:
        """One more relay."""
        n = self._random.randint(1, 2 * EACH) if mortal else -1
        pid = os.fork()
        if pid == 0:
            self._work(n)
        self._pids.add(pid)

    def _work(self, n: int) -> None:
        code = 70
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 2)
            inbox = Inbox(schema=self._world.schema)
            Outbox(inbox, to=Ending(self._at.transport(), self._plan.point, n), source="/shop", lease_seconds=1.0)
            terms = Terms(
                self._world.url, schema=self._world.schema, queues=inbox.queues, slots=8, lease_seconds=2.0,
                drain_seconds=1.0, grace_seconds=1.0, heartbeat_seconds=1.0, ttl_seconds=3.0, poll_seconds=0.3,
            )  # fmt: skip
            code = Worker(inbox, terms, Bus()).run()
        finally:
            os._exit(code)

    def look(self) -> None:
        """Count who ended or stopped; wake who was stopped for long enough: its lease is over, others have its rows."""
        for pid in list(self._pids):
            got, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if got and os.WIFSTOPPED(status):
                self._frozen[pid] = time.monotonic()
            elif got:
                self._pids.discard(pid)
                self.ended += os.WIFSIGNALED(status)
        for pid, since in list(self._frozen.items()):
            if time.monotonic() - since > 4.0:
                del self._frozen[pid]
                self.ended += 1
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.3)  # what it was about to send is sent, or refused
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._pids.discard(pid)

    def fill(self) -> None:
        """As many as there should be, and one more while some are frozen."""
        while len(self._pids) - len(self._frozen) < CREW:
            self.hire()

    def end(self) -> None:
        """Kill those that are left."""
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._pids.clear()


def play(world: World, plan: Plan) -> Verdict:
    """Publish, end relays at the point as often as asked, let the rest be sent, and judge."""
    world.sql("UPDATE chores SET every_seconds = 0.3 WHERE name IN ('leases', 'fleet')")
    with place(plan) as at:
        outbox = Outbox(Inbox(schema=world.schema), to=at.transport(), source="/shop")
        sent: dict[str | None, list[str]] = defaultdict(list)
        crew = Crew(world, at, plan)
        try:
            by = time.monotonic() + SETTLE_SECONDS + 8 * plan.times
            while crew.ended < plan.times and time.monotonic() < by:
                if world.count("live") < 5 * EACH:
                    for n in range(10 * EACH):
                        key = None if plan.control else f"order:{n % KEYS}"
                        sent[key].append(str(outbox.publish(world.conn, "order.paid", {"n": n}, key=key).id))
                crew.fill()
                crew.look()
                time.sleep(0.02)
            crew.end()
            for _ in range(2):
                crew.hire(mortal=False)
            while world.count("live") and time.monotonic() < by + SETTLE_SECONDS:
                time.sleep(0.1)
        finally:
            crew.end()
        return judge(sent, at.read(), crew.ended)


def judge(sent: dict[str | None, list[str]], found: list[Found], ended: int) -> Verdict:
    """What a consumer would make of the stream."""
    counts = Counter(each.id for each in found)
    rank = {id: n for ids in sent.values() for n, id in enumerate(ids)}
    keyed: dict[str | None, list[str]] = defaultdict(list)
    for each in found:
        keyed[each.key].append(each.id)
    inversions = late = 0
    for key, ids in keyed.items():
        firsts = list(dict.fromkeys(ids))
        if key is not None:
            inversions += sum(rank[a] > rank[b] for a, b in pairwise(firsts))
            late += sum(rank[a] > rank[b] for a, b in pairwise(ids))
    published = [id for ids in sent.values() for id in ids]
    return Verdict(
        ended,
        len(published),
        sum(id not in counts for id in published),
        sum(n - 1 for n in counts.values()),
        inversions,
        late,
    )


def main() -> int:
    """Play what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--broker", choices=("jetstream", "redis", "rabbitmq", "kafka"), default="jetstream")
    parser.add_argument("--point", choices=POINTS, default="sent")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--control", action="store_true")
    given: Any = parser.parse_args()
    plan = Plan(given.broker, given.point, given.times, given.seed, given.control)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        servers.running(servers.available()[0], Path(folder)) as url,
        new_world(url) as world,
    ):
        verdict = play(world, plan)
    said = " ".join(f"{name}={value}" for name, value in verdict._asdict().items())
    word = "valid" if verdict.valid(plan) else "violated"
    print(f"{plan.broker:<10} {plan.point:<8} {said}  {word}")
    return 0 if verdict.valid(plan) else 1


if __name__ == "__main__":
    sys.exit(main())
