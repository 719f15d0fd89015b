"""Health: whether a worker is alive, ready and started, and its metrics, over HTTP from its own thread.

A thread of its own still answers when a handler blocks the event loop. Nothing here asks the database: a probe must not
fail because the database is away.
"""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from ..errors import BadSettings
from ..events import Event, RingChanged
from ..postgres import migrate
from ..telemetry import inbox_metrics
from ..telemetry.metrics import CONTENT_TYPE, Metrics, Reading
from .config import at_inbox
from .post import Post
from .worker import Worker

STILL_SECONDS_MAX = 120.0  # the lease keeper gives up a silent database after 20 s, and may do so a few times in a row
CLIENT_SECONDS_MAX = 3.0  # for the whole request, and again for its answer
CLIENTS_MAX = 64  # at once; one more, and the oldest is closed
REQUEST_BYTES_MAX = 8192
SLOTS = "tenure_slots"  # one set for all inboxes
ACCEPT_SECONDS = 0.2  # how long the exit of a worker may wait for this thread

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Answer(NamedTuple):
    """A status and a body."""

    status: int
    body: str
    content_type: str = "application/json"


class Health:
    """Answers probes within its block. With port None it does nothing; with port 0, `port` is the port it got."""

    def __init__(self, worker: Worker, host: str, port: int | None) -> None:
        self._worker, self._host, self.port = worker, host, port
        self._metrics = Metrics(partial(self._reading, worker.posts))
        self._of_inboxes: dict[Post, Metrics] = {}
        self._started = False
        self._ended = threading.Event()
        self._clients: deque[socket.socket] = deque()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Health:
        if self.port is not None:
            self._listener = listen(self._host, self.port)
            self.port = int(self._listener.getsockname()[1])
            self._worker.bus.subscribe(self._metrics)
            self._follow()
            self._worker.bus.subscribe(self._hear, each_job=False)
            threading.Thread(target=self._accept, args=[self._listener], name="tenure-health", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    # -- what there is to say

    def answer(self, method: str, path: str) -> Answer:
        """The answer to a request; HEAD gets the same without a body."""
        pages = {"/livez": self._livez, "/readyz": self._readyz, "/startupz": self._startupz, "/metrics": self._count}
        page = pages.get(path.partition("?")[0])
        if page is None:
            return _json(404, {"error": f"there is no such page: ask for {', '.join(pages)}"})
        if method not in ("GET", "HEAD"):
            return _json(405, {"error": "only GET and HEAD are answered"})
        return page()

    def _livez(self) -> Answer:
        """Alive: the lease keeper's loop runs, or has not started; the database and the handlers do not matter."""
        keepers = [post.lease_keeper for post in self._worker.posts if post.lease_keeper.ident is not None]
        still = max((time.monotonic() - keeper.ticked_at for keeper in keepers), default=0.0)
        reasons = [f"the lease keeper has not run for {still:.0f} s"] if still > STILL_SECONDS_MAX else []
        return _verdict(reasons, lease_keeper_still_seconds=round(still, 1))

    def _startupz(self) -> Answer:
        return _verdict([] if self._started else ["not yet in the registry and the ring"], worker=self._worker.id)

    def _readyz(self) -> Answer:
        worker, now = self._worker, self._reading(self._worker.posts)
        apart = [f"the {who.replace('_', ' ')}" for who, there in now.database.items() if not there]
        # One of several inboxes that is away is no reason to be sent no work: the others have some.
        away = all(not post.connected for post in worker.posts)
        reasons = [f"{who} has no connection to the database" for who in apart if away]
        if not self._started:
            reasons.append("not yet in the registry and the ring")
        if worker.draining:
            reasons.append("it drains: it was asked to stop")
        return _verdict(reasons, worker=worker.id, **now._asdict())

    def _follow(self) -> None:
        """Count what each of several inboxes does, also of one that joined late; its bus carries its own events."""
        for post in self._worker.posts:
            if post.terms.inbox and post not in self._of_inboxes:
                self._of_inboxes[post] = Metrics(partial(self._reading, [post]))
                post.shared.bus.subscribe(self._of_inboxes[post])

    def _count(self) -> Answer:
        self._follow()
        if not self._of_inboxes:
            return Answer(200, self._metrics.text(), CONTENT_TYPE)
        # Of the whole process: rows that handlers have enqueued, wherever they went, and its slots.
        texts = {"": self._metrics.text(only=(self._metrics.enqueued.name, SLOTS))}
        texts |= {post.terms.inbox: metrics.text(but=(SLOTS,)) for post, metrics in self._of_inboxes.items()}
        there = {post.terms.inbox: post.connected for post in self._of_inboxes}
        return Answer(200, inbox_metrics.joined(texts) + inbox_metrics.up(there), CONTENT_TYPE)

    def _reading(self, posts: Sequence[Post]) -> Reading:
        return Reading(
            schema=migrate.newest(),  # it starts on no other
            slots=self._worker.terms.slots,
            slots_used=sum(post.held.slots_running for post in posts),
            buckets_owned=sum(len(post.lease_keeper.ring.buckets_of(post.shared.worker_id)) for post in posts),
            wakeup="notify" if all(post.lease_keeper.listening for post in posts) else "poll",
            database={
                at_inbox(thread.who, post.terms.inbox if len(posts) > 1 else ""): thread.connected
                for post in posts
                for thread in (post.claimer, post.lease_keeper)
            },
        )

    def _hear(self, event: Event) -> None:
        self._started = self._started or isinstance(event, RingChanged)

    # -- saying it

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(ACCEPT_SECONDS)
        with listener:
            while not self._ended.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                except OSError:  # out of file descriptors, or the client is gone: go on
                    self._ended.wait(ACCEPT_SECONDS)
                    continue
                self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        self._clients.append(client)
        if len(self._clients) > CLIENTS_MAX:
            with suppress(OSError):
                self._clients.popleft().shutdown(socket.SHUT_RDWR)
        try:
            threading.Thread(target=self._attend, args=[client], name="tenure-health-client", daemon=True).start()
        except RuntimeError:  # no thread can be started: a client that is closed asks again
            self._clients.remove(client)
            client.close()

    def _attend(self, client: socket.socket) -> None:
        """One request, one answer."""
        with suppress(OSError), client:
            method, path = _request(client)
            answer = self.answer(method, path) if path else _json(400, {"error": "this is not an HTTP request"})
            client.settimeout(CLIENT_SECONDS_MAX)
            client.sendall(_response(answer, with_body=method != "HEAD"))
            client.shutdown(socket.SHUT_WR)
            client.recv(REQUEST_BYTES_MAX)  # if we close with a body unread, the answer may be lost
        with suppress(ValueError):
            self._clients.remove(client)


def listen(host: str, port: int) -> socket.socket:
    """A listener on this port, or BadSettings with the reason."""
    if not 0 <= port <= 65_535:
        raise BadSettings(f"--health-port {port} must be between 1 and 65535, or 0 for any free port")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except socket.gaierror as error:
        raise BadSettings(f"--health-host {host!r} must be an address of this machine: {error.strerror}") from None
    except PermissionError:
        raise BadSettings(f"--health-port {port} is not allowed to this user: choose one above 1023") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadSettings(f"--health-port {port} is taken: choose another") from None
        raise BadSettings(f"--health-host {host!r} must be an address of this machine: {error.strerror}") from None


def _request(client: socket.socket) -> tuple[str, str]:
    """Method and path of a whole request; two empty texts if it is none, or too slow."""
    by = time.monotonic() + CLIENT_SECONDS_MAX
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        client.settimeout(max(0.001, by - time.monotonic()))
        part = client.recv(REQUEST_BYTES_MAX)
        head += part
        if not part or len(head) > REQUEST_BYTES_MAX:
            return "", ""
    words = head.split(b"\n", 1)[0].decode("latin-1").split()
    return (words[0], words[1]) if len(words) == 3 and words[2].startswith("HTTP/") else ("", "")


def _response(answer: Answer, *, with_body: bool) -> bytes:
    body = answer.body.encode("utf-8", "replace")
    allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n{allow}"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


def _verdict(reasons: list[str], **facts: Any) -> Answer:
    return _json(503 if reasons else 200, {"ok": not reasons, "reasons": reasons, **facts})


def _json(status: int, document: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(document) + "\n")
