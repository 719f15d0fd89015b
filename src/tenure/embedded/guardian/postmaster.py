"""The postmaster of a cluster, as its lock file and its command line describe it; an old one is stopped here."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from . import Plan


class Refused(Exception):
    """The server cannot run; the text is the reason, fit to stand inside a sentence."""


def is_ready(cluster: str, pid: int) -> bool:
    """Whether this postmaster takes connections."""
    lines = _lock_lines(cluster)
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def stop_orphan(plan: Plan) -> None:
    """Stop a postmaster whose guardian was killed; a pid counts only if its command line names our cluster."""
    cluster = plan["cluster"]
    first = (_lock_lines(cluster) or [""])[0]
    pid = int(first) if first.isdigit() else 0
    for number, seconds in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0)):
        deadline = time.monotonic() + seconds
        if _is_postmaster(pid, cluster):
            os.kill(pid, number)
        while _is_postmaster(pid, cluster) and time.monotonic() < deadline:
            time.sleep(0.02)
    if _is_postmaster(pid, cluster):
        raise Refused(f"an older server, process {pid}, does not stop")
    if lines := _lock_lines(cluster):
        # A dead postmaster that init has not reaped still answers kill(0), and a recycled pid always does. The next
        # postmaster skips our own pid in its place, and goes on to check the shared memory named below it.
        with open(os.path.join(cluster, "postmaster.pid"), "w") as lock:
            lock.write("\n".join([str(os.getpid()), *lines[1:]]))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(plan["socket_lock"])  # the same dead pid again; the folder is ours, and no server is in it


def _lock_lines(cluster: str) -> list[str]:
    """The lines of postmaster.pid; none while the file is missing."""
    try:
        with open(os.path.join(cluster, "postmaster.pid")) as lines:
            return lines.read().split("\n")
    except OSError:
        return []


def _is_postmaster(pid: int, cluster: str) -> bool:
    """Whether the process is a live postmaster of this very cluster."""
    if pid <= 0:
        return False
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as proc:
            return cluster.encode() in proc.read().split(b"\0")
    except OSError:
        if os.path.exists("/proc/self/cmdline"):
            return False
    import subprocess

    return cluster in subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout
