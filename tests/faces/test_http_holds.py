"""The server under attack: slow clients and too many of them keep nobody else out and do not fill the log."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import IO
from urllib.parse import quote, urlsplit

import httpx
import pytest

import tenure.web
from crew import eventually
from faces.serving import Serving, serving
from faces.web_tools import SHOWN, running, served
from patience import soon
from slices import slice_of
from tenure.web import bodies, connections
from tenure.web.serve import _told
from world import World

pytestmark = pytest.mark.one_server

FILES, SLOW, STREAMS = slice_of((1024, 2000, 1000), (256, 400, 200))
ANN, BOB = "ann-ann-ann", "bob-bob-bob"
WHOLE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
HALF = WHOLE[:-2] + b"x-half: "
BODY = (
    b"POST /api/login HTTP/1.1\r\nhost: a\r\nx-tenure: 1\r\n"
    b"content-type: application/json\r\ncontent-length: 99\r\n\r\n{"
)
LOG_BYTES_MAX = 5_000


class Log:
    """What a server writes to stderr, read as it comes: a full pipe would stop it."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        threading.Thread(target=lambda: self.lines.extend(stream), daemon=True).start()

    @property
    def size(self) -> int:
        return sum(map(len, list(self.lines)))


@contextlib.contextmanager
def few_files(world: World, **env: str) -> Iterator[tuple[Serving, Log]]:
    """A server that may open few files."""
    with serving(world, "--port", "0", files=FILES, **env) as server:
        assert server.process.stderr is not None
        yield server, Log(server.process.stderr)


@contextlib.contextmanager
def sockets(address: str, n: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many connections, each of which has said this much."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * n + 200)), hard))
    opened: list[socket.socket] = []
    try:
        for _ in range(n):
            opened.append(connected(address))
            with contextlib.suppress(OSError):  # it may be closed already
                opened[-1].sendall(first)
        yield opened
    finally:
        for each in opened:
            each.close()


def connected(address: str, source: str = "127.0.0.1") -> socket.socket:
    to = urlsplit(address)
    return socket.create_connection((to.hostname, to.port or 80), timeout=90, source_address=(source, 0))


class _Transport:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


def _fake() -> connections.Connection:
    made = object.__new__(connections.Connection)
    made.transport = _Transport()  # type: ignore[assignment]
    return made


def health_seconds(address: str, n: int = 30) -> list[float]:
    """How long each of some probes took, each on a connection of its own."""
    taken = []
    for _ in range(n):
        began = time.monotonic()
        with connected(address) as probe:
            probe.sendall(WHOLE)
            assert probe.recv(1000).startswith(b"HTTP/1.1 200 ")
        taken.append(time.monotonic() - began)
    return sorted(taken)


def check_health(address: str, quiet: list[float]) -> None:
    """Under 100 ms on a quiet machine; on a busy one, no more than it was before.

    The first ones stand behind the connections that came in one burst before them, and wait until those are accepted.
    """
    now = health_seconds(address)
    assert statistics.median(now) < max(0.1, 3 * quiet[-1]), (quiet, now)
    assert now[-1] < max(soon(0.3), 6 * quiet[-1]), (quiet, now)


@pytest.mark.parametrize("first", [b"", HALF, BODY], ids=["silent", "half a head", "half a body"])
def test_more_slow_clients_than_files_keep_nobody_out_and_do_not_fill_the_log(world: World, first: bytes) -> None:
    with few_files(world) as (server, log):
        quiet = health_seconds(server.address)
        with sockets(server.address, SLOW, first):
            check_health(server.address, quiet)
            assert httpx.get(f"{server.address}/api/overview", headers=SHOWN, timeout=120).status_code == 200
            assert log.size < LOG_BYTES_MAX, log.lines[:3]


@pytest.mark.parametrize(
    ("limit", "first"),
    [("HEAD_SECONDS", b""), ("HEAD_SECONDS", HALF), ("HEAD_SECONDS", WHOLE + HALF), ("BODY_SECONDS", BODY)],
    ids=["silent", "half a head", "the second head", "half a body"],
)
def test_a_request_that_comes_byte_by_byte_must_be_whole_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str, first: bytes
) -> None:
    monkeypatch.setattr(connections, limit, 0.5)
    with served(world) as web, connected(str(web.base_url)) as slow:
        slow.sendall(first)
        eventually(lambda: _is_closed_after_a_byte(slow))
        assert web.get("/health/live").status_code == 200


def _is_closed_after_a_byte(slow: socket.socket) -> bool:
    """Send one byte more, and read what there is."""
    try:
        slow.sendall(b"x")
        slow.settimeout(0.2)
        return slow.recv(10_000) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_body_that_does_not_come_is_told_in_a_sentence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    with served(world) as web, connected(str(web.base_url)) as slow:
        slow.sendall(BODY)
        answer = b""
        while b"}" not in answer:
            answer += slow.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"send it faster" in answer


def test_a_client_that_does_not_read_its_answer_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    for _ in range(20):
        world.enqueue(payload={"text": "x" * 900_000})
    app = tenure.web.app(database_url=world.url, schema=world.schema, access=tenure.web.local)
    with running(app) as address, connected(address) as slow:
        slow.sendall(b"GET /api/rows/export HTTP/1.1\r\nhost: localhost\r\n\r\n")
        slow.recv(10)
        time.sleep(1.0)
        eventually(lambda: _ends(slow))


def _ends(slow: socket.socket) -> bool:
    """Was the answer broken off before its end?"""
    got, more = b"", b"-"
    with contextlib.suppress(ConnectionResetError):
        while more and not got.endswith(b"0\r\n\r\n"):
            more = slow.recv(1_000_000)
            got = got[-10:] + more
    return not got.endswith(b"0\r\n\r\n")


def test_who_is_served_stays_while_those_who_keep_us_waiting_make_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 8)
    with served(world) as web, web.stream("GET", "/api/events", timeout=120) as tab:
        events = tab.iter_raw()
        next(events)
        with sockets(str(web.base_url), 30, HALF):
            assert httpx.get(f"{web.base_url}/health/live", timeout=120).status_code == 200
            assert next(events)


def test_where_all_are_served_a_new_one_is_closed_at_once() -> None:
    made = connections.Connections(1)
    first, second = (_fake() for _ in range(2))
    made.enter(first)
    made.enter(second)
    assert (len(made), first.transport.aborted, second.transport.aborted) == (1, False, True)  # type: ignore[attr-defined]


def test_the_limit_lies_below_the_limit_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for files in (64, 256, 1024, 4096, 10**6):
        monkeypatch.setattr(connections, "_files_max", lambda files=files: files)
        most, batch = connections.connections_max(), connections.accepts_at_once()
        assert 8 <= most <= connections.CONNECTIONS_MAX
        assert files < 128 or most + 3 * batch + connections.OTHER_FILES <= files


def test_requests_that_are_no_http_do_not_fill_the_log(world: World) -> None:
    with few_files(world) as (server, log):
        for _ in range(300):
            with connected(server.address) as stranger:
                stranger.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
                assert b"400" in stranger.recv(100)
        assert httpx.get(f"{server.address}/health/live", timeout=120).status_code == 200
        assert log.size < LOG_BYTES_MAX, log.lines[:3]


def test_a_connection_that_cannot_be_accepted_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        _told(
            loop, {"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "Too many")}
        )
        _told(loop, {"message": "something else", "exception": ValueError("x")})
    finally:
        loop.close()
    assert [(each.name, "ulimit" in each.getMessage()) for each in caplog.records] == [
        ("tenure.web", True),
        ("asyncio", False),
    ]


def test_many_streams_and_costly_filters_keep_nobody_else_out(world: World) -> None:
    """One token opens more streams than it may and asks 100 costly questions; probes and others are answered."""
    for n in range(20):
        world.enqueue(payload={"text": "x" * 1000, "n": n})
    tokens = f"ann:read:{ANN},bob:read:{BOB}"
    ask = f"HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ANN}\r\n\r\n"
    costly = quote("error:" + '"%s"' % ("\\_" * 450) + " " + " ".join(f"payload.a{n}:x" for n in range(90)))
    shown = {"authorization": f"Bearer {BOB}"}
    with (
        few_files(world, TENURE_WEB_TOKENS=tokens) as (server, log),
        httpx.Client(base_url=server.address, headers=shown, timeout=120) as bob,
    ):
        assert bob.get("/api/me").status_code == 200
        quiet = health_seconds(server.address)
        with (
            sockets(server.address, STREAMS, f"GET /api/events {ask}".encode()),
            sockets(server.address, 100, f"GET /api/rows?filter={costly} {ask}".encode()),
        ):
            check_health(server.address, quiet)
            eventually(lambda: bob.get("/api/rows").status_code == 200)
            with bob.stream("GET", "/api/events") as tab:
                assert (tab.status_code, bool(next(tab.iter_raw()))) == (200, True)
            assert log.size < LOG_BYTES_MAX, log.lines[:3]
