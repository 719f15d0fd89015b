"""Webhooks when things go wrong: a worker killed in a call, many askers for one probe, a dead endpoint among fifty."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crew import Process, eventually, processes, working
from patience import SECONDS_MAX
from shapes.receivers import Receiving, Sent, receiving
from shapes.test_webhooks import held, shop
from tenure.postgres.runner import run
from tenure.shapes.webhook import calling
from tenure.verbs import endpoints, queues
from world import World

EXAMPLE = Path(__file__).parents[2] / "examples/tenant_webhooks"
pytestmark = pytest.mark.one_server


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


def test_a_worker_killed_after_its_call_calls_again_under_the_same_id_and_a_receiver_that_dedupes_takes_it_once(
    world: World, receiver: Receiving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    sent = hooks.send(world.conn, "acme", "order.paid", {"order_id": 1})
    monkeypatch.setenv("SHOP_LOCAL_PORT", receiver.url("").rpartition(":")[2])
    monkeypatch.syspath_prepend(EXAMPLE)
    first = Process(world, "app:inbox", tmp_path)
    with processes(first):
        receiver.before = lambda _: os.kill(first.pid, signal.SIGKILL)  # it has the call, the worker no answer
        eventually(lambda: receiver.of("/a"))
        receiver.before = None
    assert world.sql("SELECT status FROM live") == [("processing",)]  # nobody has written down how it went
    assert world.count("deliveries") == 0
    world.sql("UPDATE live SET lease_expires_at = clock_timestamp()")
    second = Process(world, "app:inbox", tmp_path)
    with processes(second):
        eventually(
            lambda: (
                world.sql("UPDATE live SET available_at = clock_timestamp() WHERE status = 'pending'") == []
                and world.count("live") == 0
            )
        )
        assert second.end() == 0
    calls = receiver.of("/a")
    assert len(calls) == 2  # the control: a receiver that does not dedupe does it twice
    assert {(each.headers["webhook-id"], each.body) for each in calls} == {(str(sent.webhook_id), b'{"order_id":1}')}
    (line,) = run(world.conn, endpoints.deliveries(made.id), world.schema)
    assert (line.attempt, line.status) == (2, 200)


@pytest.mark.parametrize("guarded", [True, False])
def test_of_many_that_ask_at_once_one_gets_the_probe(world: World, receiver: Receiving, guarded: bool) -> None:
    _, hooks = shop(world, receiver)
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/a"), kinds=["*"])
    lease, webhook = held(world, hooks)
    world.sql("UPDATE endpoints SET failures = 5, open_until = clock_timestamp()")
    if not guarded:  # the control: the same function without the line that sees who was first
        ((text,),) = world.sql(f"SELECT pg_get_functiondef('{world.schema}.begin_delivery'::regproc)")
        line = "      AND COALESCE(p.probe_until <= clock_timestamp(), true)"
        assert line in text
        world.sql(text.replace(line, ""))
    crowd = [world.connect() for _ in range(6)]
    start = threading.Barrier(len(crowd))

    def ask(n: int) -> str:
        start.wait(SECONDS_MAX)
        call = run(crowd[n], endpoints.begin_delivery(lease, webhook, made.id), world.schema)
        assert call is not None
        return call.outcome

    with ThreadPoolExecutor(len(crowd)) as pool:
        found = Counter(pool.map(ask, range(len(crowd))))
    assert found == ({"go": 1, "open": 5} if guarded else {"go": 6})


OTHERS = 49
SLOTS = 8


class Dead:
    """An endpoint that answers nothing until it is released, and when each webhook of the others arrived."""

    def __init__(self, receiver: Receiving) -> None:
        self.released, self.released_at = threading.Event(), 0.0
        self.others: dict[tuple[str, str], float] = {}
        receiver.before = self._note

    def _note(self, sent: Sent) -> None:
        if sent.path == "/dead":
            self.released.wait(SECONDS_MAX)
        else:
            self.others.setdefault((sent.path, sent.headers["webhook-id"]), time.monotonic())

    def release(self) -> None:
        self.released_at = self.released_at or time.monotonic()
        self.released.set()


@pytest.mark.parametrize("limited", [True, False])
def test_a_dead_endpoint_among_fifty_delays_no_other_and_without_the_limit_it_delays_them_all(
    world: World, receiver: Receiving, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    monkeypatch.setattr(calling, "CALL_SECONDS", SECONDS_MAX)  # it hangs for as long as the test likes
    dead, (inbox, hooks) = Dead(receiver), shop(world, receiver)
    if not limited:  # the control: an operator has set limits, and none by key
        world.run(queues.limit("webhooks", max_running=1000))
    hooks.add(world.conn, tenant="dead", url=receiver.url("/dead"), kinds=["*"])
    for n in range(OTHERS):
        hooks.add(world.conn, tenant="well", url=receiver.url(f"/{n}"), kinds=["*"])
    for n in range(30):
        hooks.send(world.conn, "dead", "order.paid", {"n": n})
    with working(world, inbox, slots=SLOTS):
        try:
            eventually(lambda: len(receiver.of("/dead")) == (endpoints.PER_KEY if limited else SLOTS))
            hooks.send(world.conn, "well", "order.paid", {})
            if limited:
                eventually(lambda: len(dead.others) == OTHERS)
        finally:
            dead.release()
        eventually(lambda: len(dead.others) == OTHERS)
    first, last = min(dead.others.values()), max(dead.others.values())
    assert last < dead.released_at if limited else first > dead.released_at
