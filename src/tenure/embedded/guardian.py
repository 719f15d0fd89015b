"""The process that parents the embedded server, so that it stops when its last user is gone, however they went.

It runs as a plain script under `python -I -S` and needs the standard library alone: it starts in milliseconds, and
neither the caller's working folder nor a half-upgraded package can break the process that guards the rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import TypedDict

if sys.platform != "win32":
    import fcntl

    DEAF_TO = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)  # a terminal's, or a reader's, end is not the server's

try:
    # Loaded before any child changes its identity: the new one may not be able to read this Python any more.
    import ctypes

    LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
except ImportError:
    LIBC = None

BOOT, CLIENTS, LOG, PINNED = "boot.lock", "clients.lock", "server.log", "pinned"
STRANGER = 65534  # what the server sees as its own uid where the real one is root or has no name
TICK_SECONDS = 0.2
LOG_BYTES_MAX = 32 * 1024 * 1024


class Plan(TypedDict):
    """All the guardian is told; every path absolute, every argv complete but for `-D`."""

    folder: str
    cluster: str
    socket_lock: str
    initdb: list[str]
    single: list[str]
    first_sql: str
    postgres: list[str]
    masked: bool
    become: list[int]
    linger_seconds: float
    boot_fd: int
    report_fd: int


class Refused(Exception):
    """The server cannot run; the text is the reason, fit to stand inside a sentence."""


def mask() -> None:
    """Enter a user namespace in which this process is an unprivileged stranger; files keep their real owner."""
    uid, gid = os.geteuid(), os.getegid()
    if LIBC is None or LIBC.unshare(0x10000000):  # CLONE_NEWUSER
        raise OSError("user namespaces are blocked")
    maps = {"setgroups": "deny", "uid_map": f"{STRANGER} {uid} 1", "gid_map": f"{STRANGER} {gid} 1"}
    for name, line in maps.items():
        with open(f"/proc/self/{name}", "w") as proc:
            proc.write(line)


class Keeper:
    """Holds the boot lock for its whole life; its one child is initdb first, then the postmaster."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.cluster, self.stopping = plan, plan["cluster"], False
        self.log_path = os.path.join(plan["folder"], LOG)
        self.log = self._open_log()
        self.clients = os.open(os.path.join(plan["folder"], CLIENTS), os.O_RDWR | os.O_CREAT, 0o600)
        self.wake, alarm = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in DEAF_TO:
            signal.signal(number, signal.SIG_IGN)

    def _open_log(self) -> int:
        if os.path.exists(self.log_path):
            os.replace(self.log_path, self.log_path + ".1")  # one old log is kept: it may tell why the last run ended
        log = os.open(self.log_path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        return log

    def last_words(self) -> str:
        """The log line that most likely names the trouble."""
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        telling = [line for line in lines if any(w in line for w in ("FATAL", "PANIC", "error:", "could not", "Error"))]
        return (telling or lines or ["the log is empty"])[-1].rstrip(".")

    def pause(self, seconds: float) -> None:
        """Sleep, but wake at once for a signal."""
        if select.select([self.wake], [], [], seconds)[0]:
            os.read(self.wake, 4096)

    def spawn(self, argv: list[str], death: int, text: str = "") -> int:
        """Start a child in its disguise, fed with a short text; it gets the signal `death` if the guardian dies."""
        guardian, (hear, say) = os.getpid(), os.pipe()
        os.write(say, text.encode())
        pid = os.fork()
        if pid:
            os.close(hear)
            os.close(say)
            return pid
        try:
            self._become_child(hear)
            if LIBC is not None and sys.platform == "linux":
                # After the change of identity, not before: the kernel forgets the wish when credentials change.
                LIBC.prctl(1, death, 0, 0, 0)  # PR_SET_PDEATHSIG
            if os.getppid() == guardian:
                os.chdir(os.path.dirname(self.cluster))
                os.execv(argv[0], argv)  # noqa: S606  (no shell: the point)
        except BaseException as error:
            os.write(2, f"{argv[0]}: error: {error}\n".encode())
        finally:
            os._exit(127)

    def _become_child(self, stdin: int) -> None:
        signal.set_wakeup_fd(-1)
        for number in (*DEAF_TO, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for target, source in ((0, stdin), (1, self.log), (2, self.log)):
            os.dup2(source, target)
        if self.plan["masked"]:
            mask()
        if self.plan["become"]:
            uid, gid = self.plan["become"]
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)

    def ended(self, pid: int) -> int | None:
        """The exit code of a child that ended, else None."""
        done, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None

    def run(self, argv: list[str], text: str = "") -> None:
        """Carry one command to its end, or refuse with its last words."""
        pid = self.spawn(argv, signal.SIGKILL, text)
        while (code := self.ended(pid)) is None:
            if self.stopping:
                os.kill(pid, signal.SIGTERM)
            self.pause(TICK_SECONDS)
        if self.stopping:
            raise Refused("it was asked to stop while starting")
        if code:
            raise Refused(f"{os.path.basename(argv[0])} failed with {self.last_words()!r}")

    def end(self, pid: int) -> None:
        """Stop our postmaster: fast, then at once, then by force; returns when it is gone."""
        for number, seconds in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            deadline = time.monotonic() + seconds
            os.kill(pid, number)
            while time.monotonic() < deadline:
                if self.ended(pid) is not None:
                    return
                self.pause(TICK_SECONDS)

    def make(self) -> None:
        """Make the cluster beside its place and move it there whole: a killed initdb leaves nothing half-made."""
        import shutil

        new, deadline = self.cluster + ".new", time.monotonic() + 10
        while os.path.lexists(new) and time.monotonic() < deadline:
            shutil.rmtree(new, ignore_errors=True)  # the children of a killed initdb may still be leaving it
        self.run([*self.plan["initdb"], "-D", new])
        self.run([*self.plan["single"], "-D", new, "postgres"], self.plan["first_sql"])
        os.rename(new, self.cluster)

    def _lock_lines(self) -> list[str]:
        """What the postmaster says of itself; a half-written or missing file says nothing."""
        try:
            with open(os.path.join(self.cluster, "postmaster.pid")) as lines:
                return lines.read().split("\n")
        except OSError:
            return []

    def dismiss_orphan(self) -> None:
        """Stop a postmaster whose guardian was killed; a pid counts only if its command line names our cluster."""
        first = (self._lock_lines() or [""])[0]
        pid = int(first) if first.isdigit() else 0
        for number, seconds in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0)):
            deadline = time.monotonic() + seconds
            if is_postmaster(pid, self.cluster):
                os.kill(pid, number)
            while is_postmaster(pid, self.cluster) and time.monotonic() < deadline:
                time.sleep(0.02)
        if is_postmaster(pid, self.cluster):
            raise Refused(f"an older server, process {pid}, does not stop")
        if lines := self._lock_lines():
            # A dead postmaster that init has not reaped still answers kill(0), and a recycled pid always does. Our
            # own pid in its place is skipped by the successor, which goes on to check the shared memory named below.
            with open(os.path.join(self.cluster, "postmaster.pid"), "w") as lock:
                lock.write("\n".join([str(os.getpid()), *lines[1:]]))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.plan["socket_lock"])  # the same dead pid again; the folder is ours, and no server is in it

    def start(self) -> int:
        """A postmaster that takes connections; one still held up by the backends of a dead one is tried again."""
        deadline = time.monotonic() + 10
        while True:
            pid = self.spawn([*self.plan["postgres"], "-D", self.cluster], signal.SIGINT)
            while (code := self.ended(pid)) is None:
                if self.stopping or self._is_ready(pid):
                    return pid
                self.pause(0.01)
            if "shared memory block" not in self.last_words() or time.monotonic() > deadline:
                raise Refused(f"postgres ended with code {code} and {self.last_words()!r}")
            self.pause(0.1)

    def _is_ready(self, pid: int) -> bool:
        lines = self._lock_lines()
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def watch(self, pid: int) -> None:
        """Stay until the postmaster ends, a stop is asked for, or nobody has held the clients' lock for a while."""
        last_seen = time.monotonic()
        while self.ended(pid) is None:
            now = time.monotonic()
            if self._in_use():
                last_seen = now
            # The exclusive lock is kept while stopping: whoever comes now waits, and then starts a server anew.
            elif now - last_seen >= self.plan["linger_seconds"]:
                self.stopping = True
            else:
                fcntl.flock(self.clients, fcntl.LOCK_UN)
            if self.stopping:
                return self.end(pid)
            if os.fstat(self.log).st_size > LOG_BYTES_MAX:
                os.ftruncate(self.log, 0)
            self.pause(TICK_SECONDS)
        return None

    def _in_use(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            if not os.path.exists(os.path.join(self.plan["folder"], PINNED)):
                fcntl.flock(self.clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
        return True

    def report(self, text: str) -> None:
        """Tell the process that started us, if it still listens."""
        with contextlib.suppress(OSError):
            os.write(self.plan["report_fd"], text.encode()[:4000])
        os.close(self.plan["report_fd"])

    def keep(self) -> None:
        """From the first fork of initdb to the last breath of the postmaster."""
        try:
            self.dismiss_orphan()
            if not os.path.exists(os.path.join(self.cluster, "PG_VERSION")):
                self.make()
            pid = self.start()
        except (Refused, OSError) as reason:
            return self.report(str(reason))
        self.report("ready")
        return self.watch(pid)


def is_postmaster(pid: int, cluster: str) -> bool:
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


def main() -> None:
    """`guardian.py probe` says whether `mask` works here; `guardian.py PLAN` keeps a server until it is not needed."""
    if sys.argv[1] == "probe":
        return mask()
    plan: Plan = json.loads(sys.argv[1])
    for fd in (plan["boot_fd"], plan["report_fd"]):
        os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # reparented to init: no zombie for the process that started us, no tie to its life
    os.ftruncate(plan["boot_fd"], 0)
    os.pwrite(plan["boot_fd"], f"{os.getpid()}\n".encode(), 0)
    return Keeper(plan).keep()


if __name__ == "__main__":
    main()
