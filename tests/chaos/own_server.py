"""A server of the test's own, to be stopped, killed and started again under the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from guarantees.facts import until
from tenure.embedded import attach
from tenure.embedded.folder import Folder

# What was acknowledged must survive a crash of the server; a crash of the machine is not played here.
SETTINGS = {"fsync": "off", "full_page_writes": "off"}
WAYS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "killed": signal.SIGKILL}


class OwnServer:
    """Runs from `start` to `end`; `url` stays the same."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder, self._settings = Folder(folder), {**SETTINGS, **(settings or {})}
        self.start()
        self.url = self._server.url

    @property
    def cluster(self) -> Path:
        """Where its data stands."""
        return self._folder.cluster

    def start(self) -> None:
        """Take connections."""
        self._server = attach(self._folder.path, linger_seconds=0.2, settings=self._settings)

    def end(self, way: str) -> None:
        """Stop the postmaster in this way; returns when nothing of it is left."""
        pid = int((self._folder.cluster / "postmaster.pid").read_text().split()[0])
        os.kill(pid, WAYS[way])
        until(lambda: self._folder.guardian_pid() is None, f"the server has ended, {way}")
        self._server.close()

    def close(self) -> None:
        """Let go of it for good."""
        self._server.close()


@contextlib.contextmanager
def own_server(folder: Path, **settings: str) -> Iterator[OwnServer]:
    """One while the block lasts."""
    server = OwnServer(folder, settings)
    try:
        yield server
    finally:
        server.close()


def occupy(url: str) -> list[psycopg.Connection[tuple[Any, ...]]]:
    """Take every connection that the server has left, also those whose last owner is still on its way out."""
    taken: list[psycopg.Connection[tuple[Any, ...]]] = []
    by = time.monotonic() + 10.0
    while time.monotonic() < by and (not taken or _room(taken[0])):
        try:
            taken.append(psycopg.connect(url, autocommit=True))
        except psycopg.OperationalError:
            if not taken:
                break
    return taken


def _room(conn: psycopg.Connection[tuple[Any, ...]]) -> int:
    (room,) = conn.execute(
        "SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend'"
    ).fetchone() or (0,)
    return int(room)
