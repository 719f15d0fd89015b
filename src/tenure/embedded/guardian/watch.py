"""The guardian's work, from the first initdb to the end of the postmaster.

               an older postmaster       no cluster:            postmaster.pid
               is gone                   initdb is done         says ready
    orphan ──────────────────▶ cluster ───────────────▶ start ───────────────▶ guard ◀─┐ somebody holds the clients'
      │                           │                       │                      │  └──┘ lock, or the server is pinned
      │ refused, or told to stop  │                       │                      │
      ▼                           ▼                       ▼                      │ SIGTERM, or nobody for
    gone: the reason was reported ◀────────────────────────                      │ linger_seconds
      ▲                                                                          ▼
      └──────────────────────────────── SIGINT, then SIGQUIT, then SIGKILL ──── stop

A postmaster that ends by itself leads from guard to gone as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

from . import CLIENTS, LOG, PINNED, Plan
from .child import DEAF_TO, exit_code, mask, spawn
from .postmaster import Refused, is_ready, stop_orphan

if sys.platform != "win32":
    import fcntl

TICK_SECONDS = 0.2
LOG_BYTES_MAX = 32 * 1024 * 1024


class Guardian:
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

    def guard(self) -> None:
        """All of it; returns when the server is gone."""
        try:
            stop_orphan(self.plan)
            if not os.path.exists(os.path.join(self.cluster, "PG_VERSION")):
                self.make_cluster()
            pid = self.start()
        except (Refused, OSError) as reason:
            return self.report(str(reason))
        self.report("ready")
        return self.watch(pid)

    def make_cluster(self) -> None:
        """Make the cluster in a folder beside its place and rename it: a killed initdb leaves nothing half-made."""
        import shutil

        new, deadline = self.cluster + ".new", time.monotonic() + 10
        while os.path.lexists(new) and time.monotonic() < deadline:
            shutil.rmtree(new, ignore_errors=True)  # the children of a killed initdb may still be leaving it
        self.run([*self.plan["initdb"], "-D", new])
        if self.plan["single"]:
            self.run([*self.plan["single"], "-D", new, "postgres"], self.plan["first_sql"])
        os.rename(new, self.cluster)

    def start(self) -> int:
        """The pid of a postmaster that takes connections; tried again while backends of a dead one are in its way."""
        deadline = time.monotonic() + 10
        while True:
            pid = spawn(self.plan, self.log, [*self.plan["postgres"], "-D", self.cluster], signal.SIGINT)
            while (code := exit_code(pid)) is None:
                if self.stopping or is_ready(self.cluster, pid):
                    return pid
                self.pause(0.01)
            if "shared memory block" not in self.last_words() or time.monotonic() > deadline:
                raise Refused(f"postgres ended with code {code} and {self.last_words()!r}")
            self.pause(0.1)

    def watch(self, pid: int) -> None:
        """Stay until the postmaster ends, a stop is asked for, or nobody has held the clients' lock for a while."""
        last_seen = time.monotonic()
        while exit_code(pid) is None:
            now = time.monotonic()
            if self._in_use():
                last_seen = now
            # The exclusive lock is kept while stopping: whoever comes now waits, and then starts a new server.
            elif now - last_seen >= self.plan["linger_seconds"]:
                self.stopping = True
            else:
                fcntl.flock(self.clients, fcntl.LOCK_UN)
            if self.stopping:
                return self.stop(pid)
            if os.fstat(self.log).st_size > LOG_BYTES_MAX:
                os.ftruncate(self.log, 0)
            self.pause(TICK_SECONDS)
        return None

    def stop(self, pid: int) -> None:
        """Stop our postmaster: fast, then at once, then by force; returns when it is gone."""
        for number, seconds in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            deadline = time.monotonic() + seconds
            os.kill(pid, number)
            while time.monotonic() < deadline:
                if exit_code(pid) is not None:
                    return
                self.pause(TICK_SECONDS)

    def run(self, argv: list[str], text: str = "") -> None:
        """Run one command to its end; Refused with its last words if it fails."""
        pid = spawn(self.plan, self.log, argv, signal.SIGKILL, text)
        while (code := exit_code(pid)) is None:
            if self.stopping:
                os.kill(pid, signal.SIGTERM)
            self.pause(TICK_SECONDS)
        if self.stopping:
            raise Refused("it was asked to stop while starting")
        if code:
            raise Refused(f"{os.path.basename(argv[0])} failed with {self.last_words()!r}")

    def pause(self, seconds: float) -> None:
        """Sleep, but wake at once for a signal."""
        if select.select([self.wake], [], [], seconds)[0]:
            os.read(self.wake, 4096)

    def report(self, text: str) -> None:
        """Tell the process that started us, if it still listens."""
        with contextlib.suppress(OSError):
            os.write(self.plan["report_fd"], text.encode()[:4000])
        os.close(self.plan["report_fd"])

    def last_words(self) -> str:
        """The log line that most likely names the trouble."""
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        telling = [line for line in lines if any(w in line for w in ("FATAL", "PANIC", "error:", "could not", "Error"))]
        return (telling or lines or ["the log is empty"])[-1].rstrip(".")

    def _open_log(self) -> int:
        if os.path.exists(self.log_path):
            os.replace(self.log_path, self.log_path + ".1")  # one old log is kept: it may tell why the last run ended
        log = os.open(self.log_path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        return log

    def _in_use(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            if not os.path.exists(os.path.join(self.plan["folder"], PINNED)):
                fcntl.flock(self.clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
        return True


def main() -> None:
    """With `probe`, exit 0 if `mask` works here; with a plan, guard a server until nobody needs it."""
    if sys.argv[1] == "probe":
        return mask()
    plan: Plan = json.loads(sys.argv[1])
    for fd in (plan["boot_fd"], plan["report_fd"]):
        os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # init is the parent now: no zombie for the process that started us, and we outlive it
    os.ftruncate(plan["boot_fd"], 0)
    os.pwrite(plan["boot_fd"], f"{os.getpid()}\n".encode(), 0)
    return Guardian(plan).guard()
