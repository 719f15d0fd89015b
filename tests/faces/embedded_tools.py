"""What the tests of the embedded server share: clients in processes of their own, and facts about processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

import tenure
from patience import SECONDS_MAX, soon

T = TypeVar("T")
SOURCE = str(Path(tenure.__file__).parents[1])
PACKAGES = str(Path(psycopg.__file__).parents[1])

CLIENT = """
import json, os, sys
from pathlib import Path
from tenure.embedded import attach
server = attach(Path(os.environ["EMBEDDED_FOLDER"]), fast=True, linger_seconds=0.2)
import psycopg
with psycopg.connect(server.url) as connection:
    pid = int(connection.execute("select pg_backend_pid()").fetchone()[0])
print(json.dumps({"url": server.url, "started": server.started, "backend": pid}), flush=True)
sys.stdin.read()
"""


def until(fact: Callable[[], T], what: str, seconds: float = SECONDS_MAX) -> T:
    """The first true value of a fact; a fact that stays false fails the test by name."""
    deadline = time.monotonic() + seconds
    while not (value := fact()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.002)
    return value


def client(folder: Path, python: str = sys.executable, **how: Any) -> subprocess.Popen[str]:
    """A process that attaches, says so in one line, and stays until its stdin ends."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE}:{PACKAGES}", "EMBEDDED_FOLDER": str(folder)}
    how.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(
        [python, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, **how
    )


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a client said when it was attached."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the client died: {process.stderr.read() if process.stderr else ''}"
    words: dict[str, Any] = json.loads(line)
    return words


def kill(process: subprocess.Popen[str]) -> None:
    """End a client the hard way, and its pipes with it."""
    process.kill()
    process.communicate()


def processes_of(folder: Path) -> dict[int, str]:
    """Guardian and postmaster of a folder: live processes whose command line names a path inside it."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            line = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and int(proc.name) != os.getpid():
            found[int(proc.name)] = line
    return found


def postmaster(folder: Path) -> int:
    """The pid in the postmaster's own lock file, 0 without one."""
    try:
        return int((folder / "data" / "postmaster.pid").read_text().split("\n")[0])
    except (OSError, ValueError):
        return 0


def guardian(folder: Path) -> int:
    """The guardian's pid, 0 if none."""
    try:
        return int((folder / "boot.lock").read_text() or 0)
    except OSError:
        return 0


@contextmanager
def ended_after(folder: Path) -> Iterator[None]:
    """Whatever a test did, no process of its folder outlives it."""
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid, line in processes_of(folder).items():
                if number == signal.SIGKILL or "guardian.watch" in line:
                    os.kill(pid, number)
            deadline = time.monotonic() + soon(5)
            while processes_of(folder) and time.monotonic() < deadline:
                time.sleep(0.01)


def write(url: str, number: int) -> None:
    """Commit one row."""
    with psycopg.connect(url) as connection:
        connection.execute("create table if not exists kept (n int)")
        connection.execute("insert into kept values (%s)", (number,))


def rows(url: str) -> list[int]:
    """Every committed row."""
    with psycopg.connect(url) as connection:
        return [n for (n,) in connection.execute("select n from kept order by n").fetchall()]


def without_namespaces(setup: str, argv: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Run a command as root where no user namespace can be made and /var/lib is empty; the machine is not touched."""
    room = "echo 0 > /proc/sys/user/max_user_namespaces && mount -t tmpfs tmpfs /var/lib"
    # The shell is started twice: only an exec after the uids are mapped makes it root in there.
    inside = ["sh", "-c", 'read go; exec "$@"', "sh", "sh", "-c", f'{room} && {setup} && exec "$@"', "sh", *argv]
    process = subprocess.Popen(
        ["unshare", "--user", "--mount", *inside],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment,
    )  # fmt: skip
    ours = os.readlink("/proc/self/ns/user")
    until(lambda: os.readlink(f"/proc/{process.pid}/ns/user") != ours, "a namespace of its own")
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{name}").write_text("0 0 65536")
    out, trouble = process.communicate("go\n")
    return process.returncode, out, trouble
