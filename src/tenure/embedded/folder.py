"""The folder of an embedded server: its paths, and the two locks that decide who starts it and when it stops."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .. import settings
from ..errors import BadSettings, NoDatabase
from .guardian import BOOT, CLIENTS, LOG, PINNED
from .project import SHARED

if sys.platform != "win32":
    import fcntl

PORT = 5432  # names the socket file only; written out so that a PGPORT of the caller cannot change it
LOOKS_TO_BELIEVE_IN_A_USER = 3
SOCKET_BYTES_MAX = 100  # the kernel allows 107 (103 on macOS) for the whole path


@dataclass(frozen=True)
class Folder:
    """Paths inside one server's folder; reading them creates nothing."""

    path: Path

    def __post_init__(self) -> None:
        """Refuse a path that fits neither into a URL nor into the server's settings."""
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            raise BadSettings(
                f"{str(self.path)!r} is not UTF-8: name another folder with TENURE_HOME=/your/folder"
            ) from None

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def pinned(self) -> Path:
        return self.path / PINNED

    @property
    def place_note(self) -> Path:
        """Holds the path of the cluster's folder, if that is another one (see `disguise`)."""
        return self.path / "place"

    @property
    def socket_note(self) -> Path:
        """Holds the path of the socket's folder, if that is another one."""
        return self.path / "socket"

    @property
    def place(self) -> Path:
        return _noted(self.place_note) or self.path

    @property
    def cluster(self) -> Path:
        return self.place / "data"

    @property
    def url(self) -> str:
        """Where the server listens while it runs; the same for every user of the folder."""
        socket = _noted(self.socket_note) or self.path
        return f"postgresql://tenure@/{SHARED}?host={quote(str(socket), safe='')}&port={PORT}"

    def make(self) -> None:
        """Make the folder, private to its owner; BadSettings if that fails."""
        try:
            if not self.path.is_dir():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.mkdir(mode=0o700, exist_ok=True)
                if self.path.parent.name == ".tenure":
                    (self.path.parent / ".gitignore").write_text("*\n")
            os.close(self._open(CLIENTS))
        except OSError as error:
            raise BadSettings(
                f"{self.path} cannot be written ({error.strerror}): name another folder with TENURE_HOME=/your/folder"
            ) from error

    def _open(self, name: str) -> int:
        return os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)

    def _try(self, name: str, operation: int) -> int | None:
        fd = self._open(name)
        try:
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def join(self, deadline: float) -> int:
        """Take the clients' lock, shared; waits only while a guardian stops its server for lack of users."""
        while time.monotonic() < deadline:
            fd = self._try(CLIENTS, fcntl.LOCK_SH)
            if fd is not None:
                return fd
            time.sleep(0.01)
        raise NoDatabase(f"the server in {self.path} does not stop: read `cat {self.log}`")

    def in_use(self) -> bool:
        """Whether anybody but a stopping guardian holds the clients' lock, or the server is pinned."""
        if self.pinned.exists():
            return True
        shared, alone = self._try(CLIENTS, fcntl.LOCK_SH), None
        if shared is not None:
            os.close(shared)
            alone = self._try(CLIENTS, fcntl.LOCK_EX)
        if alone is not None:
            os.close(alone)
        return shared is not None and alone is None

    def claim_boot(self) -> int | None:
        """The boot lock, the right to start a server, for a guardian to take over; None while one holds it."""
        return self._try(BOOT, fcntl.LOCK_EX)

    def guardian_pid(self) -> int | None:
        """The pid of the guardian, None without one: the holder of the boot lock has written its pid into it."""
        if not (self.path / BOOT).exists():
            return None
        fd = self._try(BOOT, fcntl.LOCK_SH)
        if fd is not None:
            os.close(fd)
            return None
        text = (self.path / BOOT).read_text().strip()
        return int(text) if text.isdigit() else 0

    def choose_socket(self) -> Path:
        """The folder for the socket: this one, or a short private one if the path is too long; the choice is noted."""
        here = self.place
        fits = len(os.fsencode(here / f".s.PGSQL.{PORT}")) <= SOCKET_BYTES_MAX
        # libpq and the server both read a comma here as "and another host".
        socket = here if fits and not set(str(here)) & set(',"') else _short_folder(self.path)
        if socket == self.path:
            self.socket_note.unlink(missing_ok=True)
        else:
            self.socket_note.write_text(str(socket))
        return socket


def _noted(note: Path) -> Path | None:
    try:
        return Path(note.read_text())
    except FileNotFoundError:
        return None


def _short_folder(path: Path) -> Path:
    mark = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for root in (runtime, tempfile.gettempdir(), "/tmp"):  # noqa: S108  (what is made there is checked to be ours)
        folder = Path(root) / f"tenure-{os.geteuid()}-{mark}"
        if root and len(os.fsencode(folder)) <= SOCKET_BYTES_MAX - 16 and _is_private(folder):
            return folder
    raise BadSettings(f"{path} is too long for a socket: name a shorter folder with TENURE_HOME=/your/folder")


def _is_private(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077


def home_root() -> Path:
    """Where the servers of this user are: TENURE_HOME, XDG_DATA_HOME or the home folder."""
    named, shared = settings.find("TENURE_HOME"), os.environ.get("XDG_DATA_HOME")
    if named:
        root = Path(named.value).expanduser()
    elif shared and Path(shared).is_absolute():
        root = Path(shared) / "tenure"
    else:
        try:
            root = Path.home() / ".local" / "share" / "tenure"
        except RuntimeError as error:
            raise BadSettings(
                "HOME is not set and this user has no home folder: name one with TENURE_HOME=/your/folder"
            ) from error
    return root.absolute()


def here_root() -> Path:
    """Where a server is that belongs to the current project."""
    return Path.cwd() / ".tenure"


def home_folder(major: int) -> Path:
    """The folder of the server of this version that this user's projects share."""
    return home_root() / f"pg{major}"


def here_folder(major: int) -> Path:
    """The folder of the server of this version that belongs to the current project."""
    return here_root() / f"pg{major}"


def wait_for_end(path: Path, seconds: float = 40.0) -> None:
    """Return when the server here has stopped; soon if somebody else still uses it."""
    place, deadline, looks = Folder(path), time.monotonic() + seconds, 0
    while place.guardian_pid() is not None and time.monotonic() < deadline:
        # The guardian takes the clients' lock for a moment now and then: one look may take that for a user.
        looks = looks + 1 if place.in_use() else 0
        if looks == LOOKS_TO_BELIEVE_IN_A_USER:
            return
        time.sleep(0.05)
