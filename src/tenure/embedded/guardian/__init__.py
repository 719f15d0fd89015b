"""The guardian: the parent process of the embedded server. It stops the server when its last user is gone.

It runs under `python -I -S` with the standard library and this folder alone, and imports all of it at its start. So it
is up in milliseconds, and neither the caller's working folder nor an upgrade of the package can break the process that
guards the rows. Here is what both sides know: the package writes a plan, the guardian carries it out.
"""

from __future__ import annotations

import os
import sys
from typing import TypedDict

BOOT, CLIENTS, LOG, PINNED = "boot.lock", "clients.lock", "server.log", "pinned"
CODE = "import sys; sys.path.append(sys.argv.pop(1)); from guardian.watch import main; main()"


class Plan(TypedDict):
    """All the guardian is told; every path is absolute, every argv complete but for `-D`."""

    folder: str
    cluster: str
    socket_lock: str
    initdb: list[str]  # or pg_basebackup, for a standby
    single: list[str]  # empty for a standby: it has the databases of its primary
    first_sql: str
    postgres: list[str]
    masked: bool
    become: list[int]
    linger_seconds: float
    boot_fd: int
    report_fd: int


def command_line(word: str) -> list[str]:
    """The argv of a guardian with a plan as JSON, or of the `probe`: can a server be masked here?"""
    return [sys.executable, "-I", "-S", "-c", CODE, os.path.dirname(os.path.dirname(__file__)), word]
