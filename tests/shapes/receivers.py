"""A receiver of webhooks on loopback, which answers as it is told and remembers what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tenure.shapes.webhook import Guard


class Sent(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiving(ThreadingHTTPServer):
    """Answers each path with the next of its statuses, then with 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[Sent] = []
        self.before: Callable[[Sent], object] | None = None  # done before a request is answered
        self.answers: dict[str, list[tuple[int, dict[str, str]]]] = {}

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def guard(self) -> Guard:
        """One that takes this receiver and no other."""
        return Guard(ports=(int(self.server_address[1]),), allow_http=True, allow_networks=("127.0.0.1/32",))

    def of(self, path: str) -> list[Sent]:
        return [each for each in list(self.sent) if each.path == path]


class _Handler(BaseHTTPRequestHandler):
    server: Receiving

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        sent = Sent(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        self.server.sent.append(sent)
        if self.server.before is not None:
            self.server.before(sent)
        told = self.server.answers.get(self.path) or [(200, {})]
        status, headers = told.pop(0) if len(told) > 1 else told[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        said = b"" if self.path == "/silent" else b"said"
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def receiving() -> Iterator[Receiving]:
    with Receiving() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
