"""Which version of PostgreSQL a folder has: chosen once, when its first server starts, and kept from then on."""

from __future__ import annotations

from pathlib import Path

from ..errors import BadSettings
from .binaries import Binaries, all_programs, binaries

NOTE = "version"


def locate(root: Path) -> tuple[Path, Binaries]:
    """The server's folder below a root, and its programs: of the version chosen there, or the first ones found.

    BadSettings if programs of the chosen version are not here: a newer version cannot read its files, and to begin in
    a new folder would look as if the rows were gone.
    """
    major = chosen(root)
    programs = binaries() if major is None else _of_version(root, major)
    return root / f"pg{programs.major}", programs


def chosen(root: Path) -> int | None:
    """The version that was chosen here; in a folder of 0.1.0, which noted none, the one that has rows."""
    try:
        return int((root / NOTE).read_text())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise BadSettings(f"{root / NOTE} cannot be read ({error}): write the version into it, like 18") from None
    majors = made(root)
    if len(majors) > 1 and (first := binaries().major) in majors:
        return first  # as 0.1.0 chose each time
    return majors[-1] if majors else None


def made(root: Path) -> list[int]:
    """The versions that have rows here."""
    found = (folder.name.removeprefix("pg") for folder in root.glob("pg*") if (folder / "data").exists())
    return sorted(int(name) for name in found if name.isdigit())


def choose(root: Path, major: int) -> None:
    """From now on this version; the rows of others stay where they are."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / NOTE).write_text(f"{major}\n")
    except OSError as error:
        raise BadSettings(
            f"{root} cannot be written ({error.strerror}): name another folder with TENURE_HOME=/your/folder"
        ) from None


def keep(root: Path, major: int) -> None:
    """Note the version with which the first server here was started."""
    if not (root / NOTE).exists():
        choose(root, major)


def _of_version(root: Path, major: int) -> Binaries:
    here = list(all_programs())
    for programs in here:
        if programs.major == major:
            return programs
    first = here[0] if here else binaries()  # raises if there are none at all
    raise BadSettings(
        f"{root} holds a PostgreSQL {major}, and the programs here are {first.version} ({first.source}): install "
        f"PostgreSQL {major} or name it with TENURE_PG_BIN=/its/bin, or begin anew with "
        f"`tenure pg choose {first.major}`, which keeps the rows in {root / f'pg{major}'}"
    )
