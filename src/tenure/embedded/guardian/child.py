"""A child of the guardian: initdb or the postmaster, in its disguise; it ends when the guardian ends."""

from __future__ import annotations

import os
import signal
import sys

from . import Plan

if sys.platform != "win32":
    # The end of a terminal, or of whoever reads, is not the end of the server.
    DEAF_TO = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)

try:
    # Loaded before any child changes its identity: the new one may not be able to read this Python any more.
    import ctypes

    LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
except ImportError:
    LIBC = None

STRANGER = 65534  # what the server sees as its own uid where the real one is root or has no name


def mask() -> None:
    """Enter a user namespace in which this process is an unprivileged stranger; files keep their real owner."""
    uid, gid = os.geteuid(), os.getegid()
    if LIBC is None or LIBC.unshare(0x10000000):  # CLONE_NEWUSER
        raise OSError("user namespaces are blocked")
    maps = {"setgroups": "deny", "uid_map": f"{STRANGER} {uid} 1", "gid_map": f"{STRANGER} {gid} 1"}
    for name, line in maps.items():
        with open(f"/proc/self/{name}", "w") as proc:
            proc.write(line)


def spawn(plan: Plan, log: int, argv: list[str], death: int, text: str = "") -> int:
    """Start a child that reads a short text and writes to the log; its pid. If the guardian dies, it gets `death`."""
    guardian, (hear, say) = os.getpid(), os.pipe()
    os.write(say, text.encode())
    pid = os.fork()
    if pid:
        os.close(hear)
        os.close(say)
        return pid
    try:
        _become_child(plan, log, hear)
        if LIBC is not None and sys.platform == "linux":
            # After the change of identity: the kernel clears this setting when credentials change.
            LIBC.prctl(1, death, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() == guardian:
            os.chdir(os.path.dirname(plan["cluster"]))
            os.execv(argv[0], argv)  # noqa: S606  (no shell: the point)
    except BaseException as error:
        os.write(2, f"{argv[0]}: error: {error}\n".encode())
    finally:
        os._exit(127)


def _become_child(plan: Plan, log: int, stdin: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (*DEAF_TO, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for target, source in ((0, stdin), (1, log), (2, log)):
        os.dup2(source, target)
    if plan["masked"]:
        mask()
    if plan["become"]:
        uid, gid = plan["become"]
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def exit_code(pid: int) -> int | None:
    """The exit code of a child that has ended, else None."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None
