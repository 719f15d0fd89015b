"""Health: probes that answer whatever handlers, clients and the database do, and say what is wrong."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from guarantees.facts import Beside, until
from patience import soon
from tenure.app.inbox import Inbox
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import BadSettings
from tenure.model.rows import BUCKETS
from tenure.postgres.migrate import newest
from tenure.verbs import fleet
from tenure.worker import health as health_module
from tenure.worker.config import Terms
from tenure.worker.health import CLIENTS_MAX, Health
from tenure.worker.worker import Worker
from world import World

pytestmark = pytest.mark.one_server

PAGES = ("/livez", "/readyz", "/startupz", "/metrics")


class Said(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Site(NamedTuple):
    """A worker and its health."""

    worker: Worker
    health: Health

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> Said:
        """What a probe gets, within the time a probe allows."""
        conn = http.client.HTTPConnection("127.0.0.1", self.health.port, timeout=120)
        conn.request(method, path, body)
        reply = conn.getresponse()
        said = Said(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read().decode())
        conn.close()
        return said

    def status(self, path: str) -> int:
        return self.ask(path).status

    def until(self, path: str, status: int) -> Said:
        until(lambda: self.status(path) == status, f"{path} says {status}")
        return self.ask(path)


def site_of(world: World, inbox: Inbox | None = None, url: str | None = None) -> Site:
    worker = Worker(inbox or Inbox(), Terms(url or world.url, schema=world.schema, drain_seconds=15, poll_seconds=0.5))
    return Site(worker, Health(worker, "127.0.0.1", 0))


@contextmanager
def working(world: World, inbox: Inbox | None = None, url: str | None = None) -> Iterator[Site]:
    """A worker in a thread with its health, ready; stopped at the end."""
    site = site_of(world, inbox, url)
    with site.health:
        life = Beside(site.worker.run)
        try:
            site.until("/readyz", 200)
            yield site
        finally:
            site.worker.stop()
            site.worker.stop()
            life.result()


@contextmanager
def gate() -> Iterator[threading.Event]:
    """Something to wait at, open at the end in any case."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


def blocking_inbox(at: threading.Event, began: threading.Event) -> Inbox:
    """One async handler that blocks the whole event loop until the gate opens."""
    inbox = Inbox()

    @inbox.handler("stall")
    async def stall() -> None:
        began.set()
        at.wait(90)

    return inbox


# -- a life, from start to end


def test_before_it_runs_it_lives_but_has_not_started(world: World) -> None:
    site = site_of(world)
    with site.health:
        assert [site.status(page) for page in PAGES] == [200, 503, 503, 200]
        assert site.ask("/readyz").document["reasons"] == [
            "the claimer has no connection to the database",
            "the lease keeper has no connection to the database",
            "not yet in the registry and the ring",
        ]


def test_a_worker_that_works_says_so(world: World) -> None:
    with working(world) as site:
        assert [site.status(page) for page in PAGES] == [200, 200, 200, 200]
        until(lambda: site.worker.lease_keeper.listening, "it listens")
        assert site.ask("/readyz").document == {
            "ok": True,
            "reasons": [],
            "worker": site.worker.id,
            "database": {"claimer": True, "lease_keeper": True},
            "schema": newest(),
            "slots": 20,
            "slots_used": 0,
            "buckets_owned": BUCKETS,
            "wakeup": "notify",
        }


def test_what_it_ran_is_counted(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("greet")
    async def greet() -> None:
        return None

    with working(world, inbox) as site:
        for _ in range(3):
            world.enqueue("greet")
        line = 'tenure_settled_total{queue="default",kind="greet",outcome="completed"} 3'
        text = until(lambda: t if line in (t := site.ask("/metrics").body) else "", "three are counted")
        assert "tenure_leases_acquired_total 3" in text
        assert "tenure_ring_changes_total 1" in text
        if shutil.which("promtool"):
            checked = subprocess.run(
                ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=120
            )
            assert (checked.returncode, checked.stderr) == (0, b"")


def test_a_drain_makes_it_unready_and_not_dead(world: World) -> None:
    began = threading.Event()
    with gate() as opened, working(world, blocking_inbox(opened, began)) as site:
        world.enqueue("stall")
        assert began.wait(90)
        site.worker.stop()
        said = site.until("/readyz", 503).document
        assert said["reasons"] == ["it drains: it was asked to stop"]
        assert said["slots_used"] == 1
        assert (site.status("/livez"), site.status("/startupz")) == (200, 200)
        opened.set()


# -- what must not matter


def test_a_handler_that_blocks_the_event_loop_does_not_keep_a_probe_waiting(world: World) -> None:
    began = threading.Event()
    with gate() as opened, working(world, blocking_inbox(opened, began)) as site:
        id = world.enqueue("stall")
        assert began.wait(90)
        assert site.status("/livez") == 200
        assert site.ask("/readyz").document["slots_used"] == 1
        assert "tenure_slots_used 1" in site.ask("/metrics").body
        assert world.status(id) == "processing"
        opened.set()
        until(lambda: world.status(id) == "completed", "the handler ends")


def test_without_its_database_it_is_unready_and_lives(world: World) -> None:
    with FaultProxy(world.url) as proxy, working(world, url=proxy.url) as site:
        proxy.refuse()
        proxy.cut()
        until(lambda: len(site.ask("/readyz").document["reasons"]) == 2, "both lines are lost")
        said = site.ask("/readyz").document
        assert said["database"] == {"claimer": False, "lease_keeper": False}
        assert said["wakeup"] == "poll"
        assert (site.status("/livez"), site.status("/startupz")) == (200, 200)
        counted = site.ask("/metrics").body
        assert 'tenure_db_errors_total{who="lease_keeper",class="' in counted
        assert 'tenure_connected{who="lease_keeper"} 0' in counted
        proxy.heal()
        site.until("/readyz", 200)


def test_a_keeper_that_stands_still_is_not_alive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: livez can say no, when the thread that keeps the leases does not go round."""
    monkeypatch.setattr(health_module, "STILL_SECONDS_MAX", 1.5)

    def stand(_note: str) -> None:
        opened.wait(90)

    with gate() as opened, working(world) as site:
        until(lambda: site.worker.lease_keeper.listening, "it listens")
        monkeypatch.setattr(site.worker.lease_keeper, "_hear", stand)
        world.run(fleet.tell("queues"))
        said = site.until("/livez", 503)
        assert "the lease keeper has not run for" in said.document["reasons"][0]
        opened.set()
        site.until("/livez", 200)


# -- whoever asks


def test_other_pages_and_methods_are_refused(world: World) -> None:
    site = site_of(world)
    with site.health:
        nowhere = site.ask("/")
        assert nowhere.status == 404
        assert nowhere.document == {"error": "there is no such page: ask for /livez, /readyz, /startupz, /metrics"}
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            refused = site.ask("/livez", method, body=b"x" * 2000)
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        assert site.status("/livez?verbose=1") == 200


def test_head_is_get_without_the_body(world: World) -> None:
    site = site_of(world)
    with site.health:
        got, head = site.ask("/readyz"), site.ask("/readyz", "HEAD")
        assert (head.status, head.body) == (503, "")
        assert head.headers == got.headers


@pytest.mark.parametrize("noise", [b"\r\n\r\n", b"hello\n\n", b"GET /livez\r\n\r\n", b"\x16\x03\x01" + b"\xff" * 9000])
def test_noise_is_no_request(world: World, noise: bytes) -> None:
    site = site_of(world)
    with site.health:
        with socket.create_connection(("127.0.0.1", int(site.health.port or 0)), timeout=120) as client:
            client.sendall(noise)
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")
        assert site.status("/livez") == 200


def test_clients_that_say_nothing_keep_nobody_waiting_and_no_exit(world: World) -> None:
    site = site_of(world)
    with ExitStack() as clients:
        with site.health:
            for _ in range(CLIENTS_MAX * 2):
                clients.enter_context(socket.create_connection(("127.0.0.1", int(site.health.port or 0)), timeout=120))
            began = time.monotonic()
            assert site.status("/livez") == 200
            ending = time.monotonic()
            assert ending - began < soon(2)
        assert time.monotonic() - ending < soon(1)


def test_a_client_that_drips_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "CLIENT_SECONDS_MAX", 0.3)
    site = site_of(world)
    with site.health, socket.create_connection(("127.0.0.1", int(site.health.port or 0)), timeout=120) as client:
        client.settimeout(0.01)

        def dripped() -> bool:
            try:
                client.sendall(b"G")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(dripped, "it is cut off")


# -- the port


def test_a_client_for_whom_no_thread_can_be_started_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    health = site_of(world).health
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(threading.Thread, "start", start)
    health._admit(ours)
    monkeypatch.undo()
    assert (ours.fileno(), list(health._clients)) == (-1, [])
    with theirs:
        assert theirs.recv(1) == b"", "it need not wait"


def test_without_a_port_nothing_is_served_or_counted(world: World) -> None:
    worker = Worker(Inbox(), Terms(world.url, schema=world.schema))
    with Health(worker, "127.0.0.1", None) as health:
        assert health.port is None
        assert not worker.bus.each_job


def test_a_port_that_is_taken_is_refused_in_a_sentence(world: World) -> None:
    site = site_of(world)
    with site.health:
        port = site.health.port
        again = Health(site.worker, "127.0.0.1", port)
        with pytest.raises(BadSettings, match=f"^--health-port {port} is taken: choose another$"):
            again.__enter__()


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        ("127.0.0.1", 70_000, "--health-port 70000 must be between"),
        ("127.0.0.1", -1, "--health-port -1 must be between"),
        ("192.0.2.1", 0, "--health-host '192.0.2.1' must be an address of this machine"),
        ("no.such.host.invalid", 0, "--health-host 'no.such.host.invalid' must be an address of this machine"),
    ],
)
def test_an_address_that_cannot_be_is_refused_in_a_sentence(host: str, port: int, says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        health_module.listen(host, port)


def test_after_the_block_the_port_is_free_again(world: World) -> None:
    site = site_of(world)
    with site.health:
        port = int(site.health.port or 0)
    until(lambda: _refused(port), "nobody listens any more")


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=120).close()
    except OSError:
        return True
    return False
