"""Names of receivers that nobody resolves: whoever owns one keeps nobody else's webhooks waiting."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from crew import eventually, working
from patience import SECONDS_MAX
from shapes.receivers import Receiving, receiving
from tenure.app.inbox import Inbox
from tenure.shapes.webhook import Guard, Webhooks, resolving
from tenure.shapes.webhook.resolving import Resolver, Unresolved
from world import World

pytestmark = pytest.mark.one_server


class Names:
    """Name servers: that of dead.example says nothing until it is released, and well.example is on loopback."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real, self.released, self.asked = socket.getaddrinfo, threading.Event(), Counter[str]()
        monkeypatch.setattr(socket, "getaddrinfo", self.getaddrinfo)

    def getaddrinfo(self, host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        self.asked[name] += 1
        if name.endswith("dead.example"):
            self.released.wait(SECONDS_MAX)  # as the C library does for a server that is silent
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return self.real("127.0.0.1" if name.endswith("well.example") else host, *rest, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names(monkeypatch)
    yield found
    found.released.set()


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


def test_names_that_nobody_resolves_delay_nobody_else(
    world: World, receiver: Receiving, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "LOOKUP_SECONDS", SECONDS_MAX)  # it hangs for as long as the test likes
    port = receiver.server_address[1]
    inbox = Inbox(schema=world.schema)
    hooks = Webhooks(inbox, guard=Guard(ports=(port,), allow_http=True, allow_networks=("127.0.0.0/8",)))
    for n in range(10):  # four calls at once each: more than the loop has threads
        hooks.add(world.conn, tenant="dead", url=f"http://n{n}.dead.example:{port}/", kinds=["*"])
    hooks.add(world.conn, tenant="well", url=f"http://a.well.example:{port}/well", kinds=["*"])
    for _ in range(4):
        hooks.send(world.conn, "dead", "order.paid", {})
    with working(world, inbox, slots=100):
        eventually(lambda: len([name for name in names.asked if name.endswith("dead.example")]) == 10)
        eventually(lambda: world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(40,)])
        hooks.send(world.conn, "well", "order.paid", {})
        eventually(lambda: receiver.of("/well"))
        assert not names.released.is_set()
        names.released.set()


def test_who_asks_for_a_name_at_once_shares_a_thread_and_gives_up_in_time(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "LOOKUP_SECONDS", 0.2)
    resolver = Resolver()

    async def ask() -> list[Any]:
        asked = [resolver("a.dead.example", 443) for _ in range(8)]
        return await asyncio.gather(*asked, resolver("a.well.example", 443), return_exceptions=True)

    for n in (1, 2):  # in another loop too, and anew though the first thread still waits
        *failed, found = asyncio.run(ask())
        assert {str(error) for error in failed} == {"'a.dead.example' was not resolved within 0.2 s"}
        assert all(isinstance(error, Unresolved) for error in failed)
        assert (found, names.asked["a.dead.example"]) == (["127.0.0.1"], n)


def test_an_error_of_a_name_is_told_to_all_who_asked(names: Names) -> None:
    names.released.set()

    async def ask() -> list[Any]:
        resolver = Resolver()
        return await asyncio.gather(*(resolver("a.dead.example", 443) for _ in range(2)), return_exceptions=True)

    assert [type(each) for each in asyncio.run(ask())] == [socket.gaierror] * 2
