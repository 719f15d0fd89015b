"""What a cluster of `make drill-ha` is made of: processes on loopback, ended with all they started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psycopg

from patience import SECONDS_MAX

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / ".ha"
FILES = ROOT / "deploy/ha"
PROGRAMS = HERE / "root/usr/bin"
WAIT_SECONDS_MAX = 180.0
# Root in the eyes of the files, a stranger in those of the server; it takes the place of the process that calls it.
MASK = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]


class Missing(Exception):
    """What this machine lacks, so that a cluster cannot be started here."""


class Processes:
    """A folder and the processes in it; all are gone when the block ends."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"tenure-ha-{name}-"))
        self._as: list[str] = MASK if os.geteuid() == 0 else []
        if self._as and subprocess.run([*self._as, "true"], capture_output=True).returncode:
            raise Missing("PostgreSQL refuses root, and user namespaces are blocked: run it as an ordinary user")
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
        for lock in self.folder.glob("*/postmaster.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(lock.read_text().split()[0]), signal.SIGQUIT)
        if error is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"  logs are in {self.folder}")

    def start(self, name: str, argv: list[str], **env: str) -> subprocess.Popen[bytes]:
        """Start a program with these variables added; what it says goes to a file."""
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [*self._as, *argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                start_new_session=True,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", **env},
            )  # fmt: skip
        self._running.append(process)
        return process


def free_ports(n: int) -> list[int]:
    """So many ports of loopback that nobody listens on."""
    with_socket = [socket.socket() for _ in range(n)]
    try:
        for each in with_socket:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in with_socket]
    finally:
        for each in with_socket:
            each.close()


def until(fact: Callable[[], object], words: str) -> None:
    """Wait for a fact; what is refused meanwhile is a no."""
    by = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        with suppress(OSError, psycopg.Error, ValueError, KeyError):
            if fact():
                return
        if time.monotonic() > by:
            raise TimeoutError(f"within {WAIT_SECONDS_MAX:.0f} s it did not become true that {words}")
        time.sleep(0.2)


def kill_server(url: str, cluster: Path, agent: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the agent, the postmaster and every session: as if their machine were gone."""
    with psycopg.connect(url, autocommit=True) as conn:
        sessions = [pid for (pid,) in conn.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        postmaster = int((cluster / "postmaster.pid").read_text().split()[0])
        for pid in (agent.pid, postmaster, *sessions):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def variables(file: Path) -> dict[str, str]:
    """The lines NAME=value of a file."""
    lines = (line.partition("=") for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}
