"""The thread that records for all flows of a worker: an error is told to who asked, and the thread goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from crew import eventually
from guarantees.flow_shop import Shop
from tenure.shapes.flow import Flow
from tenure.shapes.flow import recorder as recording
from tenure.shapes.flow.recorder import Recorder
from tenure.shapes.flow.step_values import nothing
from tenure.verbs.steps import Saying, recall
from world import World

pytestmark = pytest.mark.one_server


class Away:
    """Lends nothing, each time for another reason."""

    wanted = False

    def __init__(self) -> None:
        self.asked = 0

    @contextlib.contextmanager
    def blocking(self) -> Iterator[Any]:
        self.asked += 1
        raise RuntimeError(f"no connection, {self.asked}")
        yield


def test_the_recorder_outlives_any_error() -> None:
    told, recorder = list[Any](), Recorder(Away(), "tenure")  # type: ignore[arg-type]
    job: Any = SimpleNamespace(id=1, lost=None)
    for n in (1, 2):
        recorder.send(job, 1, told.append)
        eventually(lambda n=n: len(told) == n)  # type: ignore[misc]
    assert [str(error) for error in told] == ["no connection, 1", "no connection, 2"]


class Late:
    """Lends a connection when all have asked: what comes after the first is one batch."""

    wanted = False

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, threading.Event()

    @contextlib.contextmanager
    def blocking(self) -> Iterator[Any]:
        assert self.asked.wait(60)
        yield self.world.connect()


def _recalled_together(world: World, *sayings: Saying) -> dict[UUID, Any]:
    """What four instances are told, by id; the first asks alone, the others in one batch with these sayings."""
    late = Late(world)
    recorder, told, ids = Recorder(late, world.schema), dict[UUID, Any](), [UUID(int=n) for n in range(4)]  # type: ignore[arg-type]
    for n, id in enumerate(ids):
        recorder.send(_job(id), 1, partial(told.__setitem__, id))
        for saying in sayings if n == 0 else ():
            recorder.send(_job(id), saying, nothing)
    late.asked.set()
    eventually(lambda: len(told) == 4)
    return told


def _job(id: UUID) -> Any:
    return SimpleNamespace(id=id, lost=None)


def test_a_recall_that_fails_is_told_to_who_asked_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error told to the whole batch was a failed try of steps whose bodies had succeeded."""
    odd = UUID(int=2)

    def recalled(runs: Any) -> Any:
        if odd in [id for id, _ in runs]:
            raise ValueError("nobody can read it")
        return recall(runs)

    monkeypatch.setattr(recording, "recall", recalled)
    told = _recalled_together(world)
    assert str(told.pop(odd)) == "nobody can read it"
    assert list(told.values()) == [[], [], []]


def test_no_step_fails_for_what_cannot_be_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_sayings: Any) -> Any:
        raise ValueError("nobody can say it")

    monkeypatch.setattr(recording, "say", refuses)
    world.enqueue("k")
    told = _recalled_together(world, Saying(world.claim_one(), "a word"))
    assert list(told.values()) == [[], [], [], []]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_flows_run_where_another_isolation_is_the_default(world: World, isolation: str) -> None:
    shop = Shop(world)

    @shop.inbox.handler("double", result=True)
    async def double(n: int) -> int:
        return 2 * n

    @shop.flows.workflow("strict", name="strict")
    async def strict(flow: Flow) -> list[int]:
        doubled = [each.value for each in await flow.map(double, [{"n": n} for n in range(20)])]
        await flow.step("step", shop.do, "step")
        await flow.sleep(1)
        return [*doubled[:2], await flow.wait_for("go")]

    option = urlencode({"options": f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}"})
    with shop.work(url=f"{world.url}{'&' if '?' in world.url else '?'}{option.replace('+', '%20')}"):
        id = strict.start(world.conn).id
        strict.of("strict").signal(world.conn, "go", 7)
        shop.ended(id)
    assert shop.inbox.result_blocking(id, timeout_seconds=60, url=world.url).value == [0, 2, 7]


@pytest.mark.parametrize("plain", [False, True])
def test_a_fenced_step_gets_the_only_connection_of_its_worker(
    world: World, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder kept it until nothing was to be recorded for two seconds: a step beside it could starve it."""
    monkeypatch.setattr(recording, "IDLE_SECONDS", 600.0)
    monkeypatch.setattr("tenure.postgres.handler_pool.WAIT_SECONDS_MAX", 600.0)
    shop = Shop(world)

    @shop.flows.workflow("plain")
    def in_a_thread(flow: Flow) -> None:
        for n in range(3):
            flow.step("step", shop.do, n)
            flow.fenced("fenced", _select)

    @shop.flows.workflow("async")
    async def on_the_loop(flow: Flow) -> None:
        async def ticks() -> None:
            while "fenced" not in shop.did:
                await flow.step("tick", shop.ado, "tick")

        async def once() -> None:
            await flow.step("step", shop.ado, "step")
            await flow.fenced("fenced", _aselect)
            shop.do("fenced")

        await flow.parallel(ticks(), once())

    with shop.work(slots=1):
        shop.ended((in_a_thread if plain else on_the_loop).start(world.conn).id)


def _select(tx: Any) -> None:
    tx.execute("SELECT 1")


async def _aselect(tx: Any) -> None:
    await tx.execute("SELECT 1")
