"""A real Postgres without a server to run: the first user starts it, and it stops after the last one has left."""

from __future__ import annotations

from .binaries import Binaries, all_programs, binaries
from .choice import choose, chosen, locate
from .folder import here_folder, here_root, home_folder, home_root, wait_for_end
from .project import SHARED, Known, Project, known, project, rows_of_all
from .server import Server, Status, attach, reset, start, status, stop

__all__ = [
    "SHARED",
    "Binaries",
    "Known",
    "Project",
    "Server",
    "Status",
    "all_programs",
    "attach",
    "binaries",
    "choose",
    "chosen",
    "here_folder",
    "here_root",
    "home_folder",
    "home_root",
    "known",
    "locate",
    "project",
    "reset",
    "rows_of_all",
    "start",
    "status",
    "stop",
    "wait_for_end",
]
