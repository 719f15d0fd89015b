"""The egress proxy: every call goes through it, its word counts, and nothing goes past it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from crew import working
from shapes.receivers import Receiving, receiving
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.events import DeliveryMade
from tenure.shapes.webhook import Webhooks
from tenure.shapes.webhook.calling import proxied
from world import World


class Egress(ThreadingHTTPServer):
    """Forwards a call, or refuses it; remembers what it was asked."""

    daemon_threads = True

    def __init__(self, *, refuses: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.refuses = refuses
        self.asked: list[str] = []
        self.shown: list[str | None] = []


class _Forward(BaseHTTPRequestHandler):
    server: Egress

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        self.server.shown.append(self.headers["proxy-authorization"])
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 407
        if not self.server.refuses:
            status = httpx.post(self.path, content=body, headers=dict(self.headers), trust_env=False).status_code
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(403, "not this one")

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def egress(*, refuses: bool = False) -> Iterator[Egress]:
    with Egress(refuses=refuses) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


@pytest.mark.one_server
def test_every_call_goes_through_the_proxy_and_what_it_refuses_goes_no_other_way(
    world: World, receiver: Receiving
) -> None:
    for refuses in (False, True):
        with egress(refuses=refuses) as proxy:
            inbox = Inbox(schema=world.schema)
            address = f"http://ann:p%40ss@127.0.0.1:{proxy.server_address[1]}"
            hooks = Webhooks(inbox, guard=receiver.guard(), proxy=address)
            tenant = f"refused {refuses}"
            hooks.add(world.conn, tenant=tenant, url=receiver.url("/a"), kinds=["*"])
            hooks.send(world.conn, tenant, "order.paid", {"n": 1})
            with working(world, inbox) as hired:
                (made,) = hired.saw(DeliveryMade)
            assert proxy.asked == [receiver.url("/a")]
            assert proxy.shown == ["Basic YW5uOnBAc3M="]
            assert made.status == (407 if refuses else 200)
    assert len(receiver.of("/a")) == 1  # through the first proxy; the second one's no was the end of it


@pytest.mark.one_server
def test_https_is_tunnelled_and_a_tunnel_that_is_refused_is_a_failure_that_says_so(world: World) -> None:
    with egress() as proxy:
        inbox = Inbox(schema=world.schema)
        hooks = Webhooks(inbox, proxy=f"http://127.0.0.1:{proxy.server_address[1]}")
        hooks.add(world.conn, tenant="acme", url="https://acme.example/hook", kinds=["*"])
        hooks.send(world.conn, "acme", "order.paid", {})
        with working(world, inbox) as hired:
            hired.saw(DeliveryMade)
        assert proxy.asked == ["acme.example:443"]  # the name, not an address: the proxy resolves it
    ((status, note),) = world.sql("SELECT status, note FROM deliveries")
    assert (status, "403" in note) == (None, True)


@pytest.mark.parametrize("address", ["egress", "ftp://egress:1", "http://egress", "http://egress:x", "http://e:1/path"])
def test_a_proxy_that_cannot_be_is_refused_with_a_sentence(address: str) -> None:
    with pytest.raises(BadSettings, match="must be an address like"):
        proxied(address)
