"""The user the server runs as: PostgreSQL refuses root and uids without a name, and we may not add users."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import BadSettings
from .binaries import Binaries
from .folder import Folder
from .guardian import command_line

PLACES = Path("/var/lib/tenure")
NAMES = ("postgres", "nobody")


@dataclass(frozen=True)
class Disguise:
    """Masked: the same user in a user namespace. Become: another user, a (uid, gid), with a folder of its own."""

    binaries: Binaries
    masked: bool = False
    become: tuple[int, int] | None = None


def disguise(folder: Folder, binaries: Binaries) -> Disguise:
    """The least disguise that works here. The last resort is a folder of another user; its path is noted in ours."""
    if not _is_needed():
        return Disguise(binaries)
    # A cluster that belongs to another user stays with that user, even where namespaces work by now.
    if not folder.place_note.exists() and _can_mask():
        return Disguise(binaries, masked=True)
    if os.geteuid() != 0:
        raise BadSettings(
            f"uid {os.geteuid()} has no passwd entry and user namespaces are blocked here: "
            "set TENURE_DATABASE_URL=postgresql://... to use a server of your own"
        )
    return _as_other_user(folder, binaries)


def _is_needed() -> bool:
    if os.geteuid() == 0:
        return True
    import pwd

    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return True
    return False


def _can_mask() -> bool:
    if sys.platform != "linux":
        return False
    # In a process of its own: a namespace that was entered cannot be left.
    return subprocess.run(command_line("probe"), capture_output=True).returncode == 0


def _as_other_user(folder: Folder, binaries: Binaries) -> Disguise:
    uid, gid = _unprivileged()
    mark = hashlib.sha256(os.fsencode(folder.path)).hexdigest()[:12]
    place = PLACES / mark
    try:
        PLACES.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not place.exists():
            place.mkdir(mode=0o700)
            os.chown(place, uid, gid)
        folder.place_note.write_text(str(place))
        reachable = replace(binaries, bin=_readable_copy(binaries, uid, gid))
    except OSError as error:
        raise BadSettings(
            f"user namespaces are blocked and {PLACES} cannot be prepared for uid {uid} ({error}): "
            "run as an ordinary user, or set TENURE_DATABASE_URL=postgresql://..."
        ) from error
    return Disguise(reachable, become=(uid, gid))


def _unprivileged() -> tuple[int, int]:
    import pwd

    for name in NAMES:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return user.pw_uid, user.pw_gid
    raise BadSettings(
        f"PostgreSQL refuses root, user namespaces are blocked and there is no user {' or '.join(NAMES)}: "
        "run as an ordinary user, or set TENURE_DATABASE_URL=postgresql://..."
    )


def _readable_copy(binaries: Binaries, uid: int, gid: int) -> Path:
    """The bin folder, if that user can run it; else the bin folder of a copy, made once for each version."""
    try:
        subprocess.run(
            [binaries.program("postgres"), "--version"],
            user=uid, group=gid, extra_groups=[], check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pass
    else:
        return binaries.bin
    prefix = binaries.bin.parent
    mark = hashlib.sha256(os.fsencode(prefix)).hexdigest()[:12]
    copy = PLACES / f"programs-{binaries.version}-{mark}"
    if not copy.exists():
        new = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(prefix, new / prefix.parent.name / prefix.name, symlinks=True)
        # Wheels keep their shared libraries beside the package and find them by a relative path.
        libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, new / libraries.name, symlinks=True)
        new.chmod(0o755)
        new.rename(copy)
    return copy / prefix.parent.name / prefix.name / "bin"
