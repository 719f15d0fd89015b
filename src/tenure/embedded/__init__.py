"""A real Postgres without a server to run: the first user starts it, and it stops after the last one has left."""

from __future__ import annotations

from .binaries import Binaries, binaries
from .folder import here_folder, home_folder, wait_for_end
from .server import Server, Status, attach, reset, start, status, stop

__all__ = [
    "Binaries",
    "Server",
    "Status",
    "attach",
    "binaries",
    "here_folder",
    "home_folder",
    "reset",
    "start",
    "status",
    "stop",
    "wait_for_end",
]
