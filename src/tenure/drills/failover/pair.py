"""Two embedded servers, a primary and its standby, which change parts at each promotion."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ... import embedded
from ...embedded.folder import Folder
from ...errors import BadSettings
from ..stage.actor import DrillFailed

# The machine does not crash here, only the server. Shared memory in files goes with the folder of a killed server.
SETTINGS = {
    "fsync": "off",
    "dynamic_shared_memory_type": "mmap",
    "wal_retrieve_retry_interval": "200ms",
    "shared_buffers": "32MB",
    "max_connections": "60",
}
STEP_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.02

FOLLOWED = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
SENDERS = "SELECT pid FROM pg_stat_replication"
EVERYBODY = "SELECT pid FROM pg_stat_activity"
IS_PRIMARY = "SELECT NOT pg_is_in_recovery()"


class Pair:
    """From `start` on a primary with a standby; nothing of either is left when the block ends."""

    def __init__(self, *, synchronous: bool) -> None:
        if not embedded.binaries().program("pg_basebackup").exists():
            raise BadSettings(
                f"drill 'failover' cannot be played here: {embedded.binaries().bin} has no pg_basebackup; name a "
                "complete PostgreSQL with TENURE_PG_BIN=/its/bin"
            )
        self._synchronous = synchronous
        self._root = Path(tempfile.mkdtemp(prefix="tenure-failover-"))
        self._folders = [Folder(self._root / name) for name in "ab"]
        self._servers: dict[int, embedded.Server] = {}
        self._primary = 0

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for n, folder in enumerate(self._folders):
            self._leave(n)
            with suppress(OSError):
                embedded.reset(folder.path)
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def url(self) -> str:
        """Both servers in one address, which leads to the one that takes writes."""
        words = [conninfo_to_dict(folder.url) for folder in self._folders]
        both: dict[str, Any] = {name: ",".join(str(each[name]) for each in words) for name in ("host", "port")}
        return make_conninfo(self._folders[0].url, **both, target_session_attrs="read-write", connect_timeout=2)

    @property
    def primary_url(self) -> str:
        """The address of the primary alone."""
        return self._folders[self._primary].url

    @property
    def standby_url(self) -> str:
        """The address of the other alone."""
        return self._folders[1 - self._primary].url

    def start(self) -> None:
        """Start the primary alone."""
        self._servers[0] = embedded.attach(self._folders[0].path, linger_seconds=0.2, settings=SETTINGS)

    def join(self) -> None:
        """Make a standby of the other server, wait until it follows, and let commits wait for it if they should."""
        n = 1 - self._primary
        self._leave(n)
        embedded.reset(self._folders[n].path)
        with self._ask(self._primary) as primary:
            address = make_conninfo(self.primary_url, application_name="standby")
            self._servers[n] = embedded.attach(
                self._folders[n].path, linger_seconds=0.2, settings=SETTINGS, standby_of=address
            )
            with self._ask(n) as standby:  # its copy has the primary's setting: once promoted, it would wait for nobody
                _set(standby, "RESET synchronous_standby_names")
            if self._synchronous:
                _set(primary, "SET synchronous_standby_names = '*'")
            wanted = "sync" if self._synchronous else "async"
            _until(lambda: primary.execute(FOLLOWED).fetchall() == [(wanted,)], f"the standby follows, {wanted}")

    def stall(self) -> None:
        """Stop what sends to the standby (SIGSTOP): a network that is stuck."""
        with self._ask(self._primary) as primary:
            for (pid,) in primary.execute(SENDERS).fetchall():
                os.kill(pid, signal.SIGSTOP)

    def kill(self) -> int:
        """SIGKILL to the primary, all of its processes; the pid of the postmaster."""
        folder = self._folders[self._primary]
        lock = (folder.cluster / "postmaster.pid").read_text().split("\n")
        postmaster = int(lock[0])
        with self._ask(self._primary) as primary:
            others = [pid for (pid,) in primary.execute(EVERYBODY).fetchall()]
            for pid in (postmaster, *others):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        _until(lambda: folder.guardian_pid() is None, "the primary has ended")
        _free_memory(lock)
        return postmaster

    def promote(self) -> None:
        """Make the standby the primary."""
        self._primary = 1 - self._primary
        with self._ask(self._primary) as standby:
            standby.execute("SELECT pg_promote(false)")
            _until(lambda: standby.execute(IS_PRIMARY).fetchall() == [(True,)], "the standby takes writes")

    def _ask(self, n: int) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._folders[n].url, autocommit=True, application_name="tenure drill")

    def _leave(self, n: int) -> None:
        server = self._servers.pop(n, None)
        if server is not None:
            server.close()


def _set(conn: psycopg.Connection[Any], change: str) -> None:
    conn.execute(f"ALTER SYSTEM {change}".encode())
    conn.execute("SELECT pg_reload_conf()")


def _until(fact: Callable[[], bool], words: str) -> None:
    by = time.monotonic() + STEP_SECONDS_MAX
    while not fact():
        if time.monotonic() > by:
            raise DrillFailed(f"within {STEP_SECONDS_MAX:.0f} s it did not become true that {words}")
        time.sleep(LOOK_SECONDS)


def _free_memory(lock: list[str]) -> None:
    """Give back the System V segment that a killed postmaster leaves: the seventh line of its lock names it."""
    words = lock[6].split() if len(lock) > 6 else []
    if len(words) == 2 and words[1].isdigit():
        ctypes.CDLL(None).shmctl(int(words[1]), 0, None)
