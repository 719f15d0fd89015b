"""What a turn took: wall time, and the processor time of a client and of the server's sessions, from the kernel."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import Connection

_SESSIONS = """
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
"""


class Taken(NamedTuple):
    """One turn."""

    rate: float  # a second
    client: float  # µs of processor time each
    server: float  # the same; nothing if the server is elsewhere


def session_seconds(pid: int) -> float:
    """The processor time of a process so far; zero if it is gone, or on another machine."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


class Sessions:
    """The sessions of all others in this database: what they have taken since this was made."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn
        self._before = {pid: session_seconds(pid) for pid in self._pids()}

    def seconds(self) -> float:
        """Of those that are still there."""
        return sum(session_seconds(pid) - self._before.get(pid, 0.0) for pid in self._pids())

    def _pids(self) -> Iterable[int]:
        return [pid for (pid,) in self._conn.execute(_SESSIONS).fetchall()]


class Stopwatch:
    """Of one client in this process and its session on the server."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._pid = conn.info.backend_pid
        self._wall, self._client, self._server = time.perf_counter(), time.process_time(), session_seconds(self._pid)

    def taken(self, n: int) -> Taken:
        """Since it was made, for n things done."""
        wall, client = time.perf_counter() - self._wall, time.process_time() - self._client
        return Taken(n / wall, 1e6 * client / n, 1e6 * (session_seconds(self._pid) - self._server) / n)
