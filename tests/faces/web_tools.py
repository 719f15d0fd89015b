"""The web for tests: the app on a real port in a thread of this process, and a client that may make changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx

import tenure.web
from crew import eventually
from patience import SECONDS_MAX
from tenure.web.credentials import credentials
from tenure.web.serve import Server, listen
from world import World

CHANGING = {"x-tenure": "1"}
TOKEN = "a-token-of-the-tests"
SHOWN = {"authorization": f"Bearer {TOKEN}"}


@contextlib.contextmanager
def served(world: World, *, prefix: str = "", url: str | None = None, **options: Any) -> Iterator[httpx.Client]:
    """A client of the app on the world's schema, which may do everything unless the test says who may come in.

    The app is open to this machine; with drills, which such an app does not play, it asks for the client's token.
    """
    headers = {**CHANGING, **SHOWN} if options.get("drills") and "access" not in options else CHANGING
    options.setdefault("access", credentials(TOKEN, None, None) if options.get("drills") else tenure.web.local)
    app = tenure.web.app(database_url=url or world.url, schema=options.pop("schema", world.schema), **options)
    with running(app, prefix) as address, httpx.Client(base_url=address, headers=headers, timeout=120) as client:
        yield client


@contextlib.contextmanager
def running(app: Any, prefix: str = "") -> Iterator[str]:
    """The app on a port of loopback; gives its address."""
    listener = listen("127.0.0.1", 0)
    server = Server(app, prefix)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
    finally:
        server.handle_exit(2, None)
        thread.join(90)
        assert not thread.is_alive(), "the server did not stop"


class Stream:
    """The events of one open tab, read in a thread."""

    def __init__(self, client: httpx.Client, last_id: str | None = None, *, fleet: bool = True, path: str = "") -> None:
        self.events: list[dict[str, Any]] = []
        self.ended = threading.Event()
        self._response: httpx.Response | None = None
        self._path = path or ("/api/events?fleet=true" if fleet else "/api/events")
        headers = {} if last_id is None else {"last-event-id": last_id}
        self._thread = threading.Thread(target=self._read, args=[client, headers], daemon=True)
        self._thread.start()

    def _read(self, client: httpx.Client, headers: dict[str, str]) -> None:
        with (
            contextlib.suppress(httpx.HTTPError, httpx.StreamError),
            client.stream("GET", self._path, headers=headers, timeout=None) as response,
        ):
            self._response = response
            self._gather(response)
        self.ended.set()

    def _gather(self, response: httpx.Response) -> None:
        event: dict[str, Any] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                event[name] = json.loads(value) if name == "data" else value
            else:
                self.events.append(event)
                event = {}

    def of(self, name: str) -> list[dict[str, Any]]:
        """Its events of this name so far."""
        return [event for event in list(self.events) if event.get("event") == name]

    def saw(self, name: str, n: int = 1, seconds: float = SECONDS_MAX) -> list[dict[str, Any]]:
        """Its events of this name, once there are n."""
        return eventually(lambda: found if len(found := self.of(name)) >= n else [], seconds=seconds)

    def close(self) -> None:
        """Leave, as a closed tab does."""
        if self._response is not None:
            with contextlib.suppress(Exception):
                self._response.close()


def said(response: httpx.Response, status: int = 200) -> Any:
    """The document of an answer with this status."""
    assert response.status_code == status, response.text
    return response.json()
