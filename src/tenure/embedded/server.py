"""Attach to the embedded server, starting it if nobody has: one way in for library, command line and tests."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ..errors import BadSettings, NoDatabase
from . import guardian
from .binaries import Binaries, binaries
from .disguise import Disguise, disguise
from .folder import PORT, Folder, home_folder

START_SECONDS_MAX = 60.0
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "cluster_name": "tenure",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "logging_collector": "off",
    "log_destination": "stderr",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass
class Server:
    """A running server that stays at least until `close`, or until this process ends in whatever way."""

    url: str
    version: str
    folder: Path
    started: bool
    seconds: float
    _lock: int | None = field(default=None, repr=False)

    def close(self) -> None:
        """Let go of the server; it stops by itself a little after its last user let go."""
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
class Manner:
    """How a server is to be run by whoever starts it."""

    fast: bool
    linger_seconds: float
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Status:
    """What is known of a folder without starting anything."""

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
    fast: bool = False,
    linger_seconds: float = 2.0,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """A server that takes connections, shared by all who name the same folder; the first to come starts it.

    `fast` gives up durability, `linger_seconds` is how long the server outlives its last user, `settings` are Postgres'
    own; all three take effect only in the call that starts the server.
    """
    began = time.monotonic()
    deadline = began + START_SECONDS_MAX
    place, programs = _locate(folder)
    place.make()
    lock, started = place.join(deadline), False
    try:
        while True:
            # The boot lock is asked before the socket: a server that has lost its guardian must not be joined.
            boot = place.claim_boot()
            if boot is not None:
                started = True
                how = Manner(fast, linger_seconds, settings or {})
                _launch(place, programs or binaries(), boot, deadline, how)
            version, trouble = _knock(place.url)
            if version is not None:
                return Server(place.url, version, place.path, started, time.monotonic() - began, lock)
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
    """Attach, and pin the server: it stays until `stop`, whoever comes and goes."""
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
    """Stop the server and delete all it kept; gives back the number of bytes that went."""
    place, _ = _locate(folder)
    if not place.path.is_dir():
        return 0
    deadline = time.monotonic() + START_SECONDS_MAX
    stop(place.path)
    while (boot := place.claim_boot()) is None:
        stop(place.path)
        if time.monotonic() > deadline:
            raise NoDatabase(f"the server in {place.path} is started again and again: end its users, then try again")
    try:
        size = _size(place)
        # The two lock files stay: a lock on a deleted file would lock nobody out.
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
    others = sorted(p.name for p in place.path.parent.glob("pg*") if p != place.path and (p / "data").is_dir())
    return Status(
        version is not None, place.path, place.url, version, pid or None, place.pinned.exists(), _size(place),
        tuple(others),
    )  # fmt: skip


def _locate(folder: Path | None) -> tuple[Folder, Binaries | None]:
    if sys.platform == "win32":
        raise BadSettings("the embedded Postgres does not run on Windows: set TENURE_DATABASE_URL=postgresql://...")
    if folder is not None:
        return Folder(folder.expanduser().absolute()), None
    programs = binaries()
    return Folder(home_folder(programs.major)), programs


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
    """The version of the server that answers, or None and why: only a real connection counts, never a pid."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=5, client_encoding="UTF8") as connection:
            number = connection.info.server_version
    except psycopg.OperationalError as error:
        return None, str(error).strip().split("\n")[-1].rstrip(".")
    return f"{number // 10000}.{number % 10000}", ""


def _launch(place: Folder, programs: Binaries, boot: int, deadline: float, how: Manner) -> None:
    """Hand the boot lock to a new guardian and wait for its word."""
    hear, say = os.pipe()
    try:
        _refuse_other_major(place, programs)
        plan = _plan(place, disguise(place, programs), (boot, say), how)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
        subprocess.run(
            [sys.executable, "-I", "-S", guardian.__file__, json.dumps(plan)],
            pass_fds=(boot, say), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=say,
            start_new_session=True, cwd="/", env=environment | {"LC_ALL": "C"},
        )  # fmt: skip
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(boot)
        os.close(say)
    word = _hear(hear, deadline)
    if word != "ready":
        why = word or "its guardian died"
        raise NoDatabase(f"the embedded Postgres in {place.path} did not start ({why}): read `cat {place.log}`")


def _hear(fd: int, deadline: float) -> str:
    """The guardian's last line before it closed its end: its word, or the error that ended it early."""
    heard = b""
    with open(fd, "rb", buffering=0) as ear:
        while select.select([ear], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = ear.read(4096)
            if not part:
                return heard.decode(errors="replace").strip().rpartition("\n")[2]
            heard += part
    return f"no word in {START_SECONDS_MAX:.0f} s"


def _refuse_other_major(place: Folder, programs: Binaries) -> None:
    try:
        made_by = (place.cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return
    if made_by != str(programs.major):
        raise BadSettings(
            f"{place.path} was made by PostgreSQL {made_by}, not {programs.version}: name another folder with "
            f"TENURE_HOME=/your/folder, or programs of version {made_by} with TENURE_PG_BIN=/their/bin"
        )


def _plan(place: Folder, guise: Disguise, fds: tuple[int, int], how: Manner) -> guardian.Plan:
    programs, socket = guise.binaries, place.choose_socket()
    settings = SETTINGS | (FAST if how.fast else {}) | dict(how.settings) | {"unix_socket_directories": str(socket)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    initdb = [
        str(programs.program("initdb")), "-U", "tenure", "--encoding=UTF8", "--auth-local=trust", "--auth-host=reject",
        *_locale(programs.major), *(["--no-sync"] if how.fast else []),
    ]  # fmt: skip
    return {
        "folder": str(place.path),
        "cluster": str(place.cluster),
        "socket_lock": str(socket / f".s.PGSQL.{PORT}.lock"),
        "initdb": initdb,
        "single": [str(programs.program("postgres")), "--single", *(["-F"] if how.fast else [])],
        "first_sql": "create database tenure\n",
        "postgres": [str(programs.program("postgres")), *options],
        "masked": guise.masked,
        "become": list(guise.become or ()),
        "linger_seconds": how.linger_seconds,
        "boot_fd": fds[0],
        "report_fd": fds[1],
    }


def _locale(major: int) -> list[str]:
    """Order and case must not depend on the laptop: the built-in C.UTF-8, or the nearest an older server has."""
    if major >= 17:
        return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    try:
        known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.lower().split()
    except OSError:
        known = []
    return ["--locale=C", *(["--lc-ctype=C.UTF-8"] if {"c.utf8", "c.utf-8"} & set(known) else [])]
