"""One database for each project in the embedded server, so that no project runs another's rows."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import settings
from ..errors import BadSettings

SHARED = "tenure"  # the database of all projects together in 0.1.0; drills and the demo still play in it
MARKS = ("tenure.toml", "pyproject.toml", ".git")  # what the top folder of a project has
ROWS_COUNTED = 10_000
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_RESERVED = ("postgres", "template0", "template1")


@dataclass(frozen=True)
class Project:
    """Which database is ours, and why."""

    database: str
    source: str  # the setting that names it, or the folder it is named after


@dataclass(frozen=True)
class Known:
    """A database of the embedded server, the folder it is named after, and its size."""

    database: str
    source: str
    size_bytes: int


def project(folder: Path | None = None) -> Project:
    """The project of the working folder: named by TENURE_PROJECT, or after its top folder."""
    named = settings.find("TENURE_PROJECT")
    if named:
        if not _NAME.fullmatch(named.value) or named.value in _RESERVED:
            raise BadSettings(
                f"TENURE_PROJECT={named.value!r} is not a plain name: use a-z, 0-9 and _, at most 63, no digit first "
                f"(correct it in {named.source})"
            )
        return Project(named.value, named.source)
    top = _top(folder or Path.cwd())
    word = re.sub(r"[^a-z0-9]+", "_", top.name.lower()).strip("_")[:40] or "project"
    mark = hashlib.sha256(os.fsencode(top)).hexdigest()[:6]
    return Project(f"{word if word[0].isalpha() else f'p_{word}'}_{mark}", str(top))


def _top(here: Path) -> Path:
    """The nearest folder from here upward that looks like the top of a project; here, if none does."""
    here = here.resolve()
    home = Path(os.environ.get("HOME", "/")).resolve()
    for folder in (here, *here.parents):
        if folder == home and folder != here:
            break
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return here


def ensure(server_url: str, ours: Project) -> str:
    """The address of the project's database, which is made if need be. `server_url` names any of the server."""
    import psycopg
    from psycopg import errors, sql

    with psycopg.connect(server_url, autocommit=True, client_encoding="UTF8") as conn:
        if not _exists(conn, ours.database):
            name = sql.Identifier(ours.database)
            try:
                # From template0, which nobody can be connected to: from template1 two at once would disturb each other.
                conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
                # The role is called as our schema: the tables of the project would be made among ours.
                conn.execute(sql.SQL("ALTER DATABASE {} SET search_path = public").format(name))
                conn.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, sql.Literal(ours.source)))
            except (errors.DuplicateDatabase, errors.UniqueViolation):
                pass  # another command of this project was first
    return in_database(server_url, ours.database)


def in_database(server_url: str, database: str) -> str:
    """The address of another database of the same server."""
    return re.sub(r"^(postgresql://[^/]*/)[^?]*", lambda found: found[1] + database, server_url)


def known(server_url: str) -> list[Known]:
    """The databases of a running server, each with what it is named after."""
    import psycopg

    with psycopg.connect(server_url, autocommit=True, client_encoding="UTF8") as conn:
        found = conn.execute(
            "SELECT datname, COALESCE(shobj_description(oid, 'pg_database'), ''), pg_database_size(oid)"
            " FROM pg_database WHERE datname <> ALL (%s) ORDER BY 1",
            [list(_RESERVED)],
        ).fetchall()
    return [Known(*each) for each in found]


def rows_of_all(server_url: str) -> int:
    """How many rows wait or failed in the database that all projects shared in 0.1.0, up to ROWS_COUNTED of each."""
    import psycopg

    try:
        with psycopg.connect(in_database(server_url, SHARED), autocommit=True, client_encoding="UTF8") as conn:
            counted = conn.execute(
                "SELECT (SELECT count(*) FROM (SELECT FROM tenure.live LIMIT %(n)s) AS l)"
                " + (SELECT count(*) FROM (SELECT FROM tenure.dead LIMIT %(n)s) AS d)",
                {"n": ROWS_COUNTED},
            ).fetchone()
    except psycopg.Error:
        return 0  # it has no inbox
    return int(counted[0]) if counted else 0


def _exists(conn: Any, database: str) -> bool:
    return bool(conn.execute("SELECT FROM pg_database WHERE datname = %s", [database]).fetchone() is not None)
