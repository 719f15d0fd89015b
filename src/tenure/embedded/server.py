"""Attach to the embedded server, and start it if nobody has: one entry for library, command line and tests."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ..errors import BadSettings, NoDatabase
from .binaries import Binaries, all_programs, binaries
from .choice import keep, locate
from .folder import Folder, home_root
from .launch import START_SECONDS_MAX, Manner, launch
from .project import SHARED, Project, ensure, in_database, project


@dataclass
class Server:
    """A running server. It stays at least until `close`, or until this process ends, however it ends."""

    url: str
    version: str
    folder: Path
    started: bool
    seconds: float
    programs: str  # " of the system" if it is not a package's
    project: Project  # whose database the URL names
    _lock: int | None = field(default=None, repr=False)

    def close(self) -> None:
        """Let go of the server; it stops a little after its last user has let go."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Status:
    """What a folder tells without starting anything."""

    running: bool
    folder: Path
    url: str
    version: str | None
    guardian_pid: int | None
    pinned: bool
    size_bytes: int
    other_versions: tuple[str, ...]


def attach(
    folder: Path | None = None,
    *,
    database: str | None = None,
    fast: bool = False,
    linger_seconds: float = 2.0,
    settings: Mapping[str, str] | None = None,
    standby_of: str = "",
) -> Server:
    """A server that takes connections, shared by all who name the same folder; the first caller starts it.

    Without a folder, the version is the one chosen for this user, and the URL names the database of the project in the
    working folder; with a folder it names `tenure`. `database` names another one, which is made if need be.
    `fast` gives up durability. `linger_seconds` is how long the server outlives its last user. `settings` are those of
    Postgres. A new folder becomes a standby of the server with the address `standby_of`. All take effect at the start.
    """
    deadline = (began := time.monotonic()) + START_SECONDS_MAX
    place, programs = _locate(folder)
    ours = Project(database or SHARED, "") if folder or database else project()
    place.make()
    if folder is None and programs is not None:
        keep(place.path.parent, programs.major)
    lock, started = place.join(deadline), False
    try:
        while True:
            # The boot lock is tried before the socket: a server that has lost its guardian must not be joined.
            boot = place.claim_boot()
            if boot is not None:
                started = True
                how = Manner(fast, linger_seconds, settings or {}, standby_of)
                launch(place, programs or _made_by(place), boot, deadline, how)
            version, trouble = _knock(place.url)
            if version is not None:
                url = place.url if ours.database == SHARED else ensure(place.url, ours)
                of = " of the system" if programs is not None and programs.source == "system" else ""
                return Server(url, version, place.path, started, time.monotonic() - began, of, ours, lock)
            if time.monotonic() > deadline:
                raise NoDatabase(
                    f"the server in {place.path} did not answer within {START_SECONDS_MAX:.0f} s ({trouble}): "
                    f"read `cat {place.log}`"
                )
            time.sleep(0.02)
    except BaseException:
        os.close(lock)
        raise


def start(folder: Path | None = None) -> Server:
    """Attach, and pin the server: it stays until `stop`, with or without users."""
    server = attach(folder)
    Folder(server.folder).pinned.touch()
    return server


def stop(folder: Path | None = None) -> bool:
    """Stop the server now, whoever uses it, and unpin it; False if none ran."""
    place, _ = _locate(folder)
    place.pinned.unlink(missing_ok=True)
    deadline = time.monotonic() + START_SECONDS_MAX
    stopped = False
    while (pid := place.guardian_pid()) is not None:
        if pid and not stopped:
            stopped = True
            os.kill(pid, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise NoDatabase(f"guardian {pid} of {place.path} does not stop: read `cat {place.log}`")
        time.sleep(0.02)
    return stopped


def reset(folder: Path | None = None) -> int:
    """Stop the server and delete all its data; the number of bytes that were deleted."""
    place, _ = _locate(folder)
    if not place.path.is_dir():
        return 0
    deadline = time.monotonic() + START_SECONDS_MAX
    stop(place.path)
    while (boot := place.claim_boot()) is None:
        stop(place.path)
        if time.monotonic() > deadline:
            raise NoDatabase(
                f"the server in {place.path} is started again and again by its users: end them, then try again"
            )
    try:
        size = _size(place)
        # The two lock files stay: a lock on a deleted file keeps nobody out.
        for doomed in (place.cluster, place.cluster.with_name("data.new")):
            if doomed.exists():
                shutil.rmtree(doomed)
        for note in (place.log, place.log.with_name("server.log.1"), place.socket_note, place.place_note):
            note.unlink(missing_ok=True)
    finally:
        os.close(boot)
    return size


def status(folder: Path | None = None) -> Status:
    """Whether a server answers here, and what the folder holds; starts nothing and makes nothing."""
    place, _ = _locate(folder)
    pid = place.guardian_pid()
    version = _knock(place.url)[0] if pid is not None else None
    url = in_database(place.url, (Project(SHARED, "") if folder else project()).database)
    others = sorted(p.name for p in place.path.parent.glob("pg*") if p != place.path and (p / "data").is_dir())
    return Status(
        version is not None, place.path, url, version, pid or None, place.pinned.exists(), _size(place),
        tuple(others),
    )  # fmt: skip


def _locate(folder: Path | None) -> tuple[Folder, Binaries | None]:
    if sys.platform == "win32":
        raise BadSettings("the embedded Postgres does not run on Windows: set TENURE_DATABASE_URL=postgresql://...")
    if folder is not None:
        return Folder(folder.expanduser().absolute()), None
    path, programs = locate(home_root())
    return Folder(path), programs


def _made_by(place: Folder) -> Binaries:
    """Programs of the version that made this folder; any, if there are none or if it is new."""
    version = place.cluster / "PG_VERSION"
    made_by = version.read_text().strip() if version.exists() else ""
    return next((programs for programs in all_programs() if str(programs.major) == made_by), None) or binaries()


def _size(place: Folder) -> int:
    total = 0
    for root, _, names in os.walk(place.cluster):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def _knock(url: str) -> tuple[str | None, str]:
    """The version of the server that answers, or None and the reason. Only a real connection counts, never a pid."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=5, client_encoding="UTF8") as connection:
            number = connection.info.server_version
    except psycopg.OperationalError as error:
        return None, str(error).strip().split("\n")[-1].rstrip(".")
    return f"{number // 10000}.{number % 10000}", ""
