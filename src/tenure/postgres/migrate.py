"""Migrate a schema to the version of this package: numbered SQL files with checksums, one process at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from psycopg import Connection
from psycopg.errors import InvalidSchemaName, UndefinedColumn, UndefinedTable, WrongObjectType

from .. import postgres, sql
from ..errors import BadSettings, OldWorkersAlive, SchemaMismatch
from ..settings import DEFAULT_SCHEMA, check_schema_name
from ..verbs.questions import Applied, Member, migrations, workers

ROLE_PREFIX = "tenure"
RELEASED = 9  # the newest migration of 0.1.0, whose workers do not say what they know; no release has fewer
SILENT_SECONDS = 30.0  # a worker that shows no session and was not seen for so long is not alive
_KIND = re.compile(r"^-- kind: (expand|contract)$", re.MULTILINE)
_ROLE = re.compile(r"\btenure_(producer|worker|operator|readonly)\b")
_ROLE_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file. An expanding one leaves older workers running; a contracting one does not."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, as the database records it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def kind(self) -> str:
        """expand or contract, as the file itself says."""
        found = _KIND.search(self.text)
        assert found, f"{self.name} does not say `-- kind: expand` or `-- kind: contract`"
        return found.group(1)


@cache
def known() -> tuple[Migration, ...]:
    """Every migration of this package, in order."""
    folder = files(sql) / "migrations"
    shipped = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], (folder / name).read_text(encoding="utf-8")) for name in shipped)


def newest() -> int:
    """The version of this package's schema."""
    return known()[-1].version


def script(schema: str = DEFAULT_SCHEMA, to: int | None = None, after: int = 0, *, force: bool = False) -> str:
    """All migrations, or those after a version, as SQL for somebody else to run; each records itself."""
    check_schema_name(schema)
    wanted = _up_to(to)
    if not 0 <= after < len(wanted):
        raise BadSettings(f"there is nothing to print after migration {after} and up to {len(wanted)}")
    first = _addressed(_text("after"), schema).replace(":'version'", str(after)) if after else _begin(schema)
    parts = ["BEGIN;", first]
    if after >= RELEASED and not force and (removing := _contracting(wanted[after:])):
        parts.append(_addressed(_text("drained"), schema).replace(":'migration'", str(removing[-1].version)))
    for migration in wanted[after:]:
        parts += [sql.in_schema(migration.text, schema), _record(migration, schema)]
    return "\n".join([*parts, _addressed(_text("closed"), schema), "COMMIT;", ""])


def within(script: str) -> str:
    """The same script for a transaction that somebody has begun, with the search path as it was before."""
    return script.removeprefix("BEGIN;\n").removesuffix("COMMIT;\n") + "SET LOCAL search_path TO DEFAULT;\n"


def apply(
    conn: Connection[Any], schema: str = DEFAULT_SCHEMA, to: int | None = None, *, force: bool = False
) -> list[Migration]:
    """Apply missing migrations, up to a version; safe to run twice and by ten processes at once.

    OldWorkersAlive if workers would lose what they use, unless `force` says that it does not matter. In a transaction
    of the caller it is a part of that, and leaves its search path as it was.
    """
    check_schema_name(schema)
    wanted = _up_to(to)
    with conn.transaction(), _path_kept(conn):
        lock(conn, schema)
        done = applied(conn, schema)
        check(done, schema)
        if not done:
            _refuse_others(conn, schema)
            _run_script(conn, _begin(schema))
        missing = [migration for migration in wanted if migration.version > len(done)]
        if not force and (refused := in_the_way(conn, len(done), schema, to)):
            raise refused
        for migration in missing:
            _run_script(conn, sql.in_schema(migration.text, schema))
            _run_script(conn, _record(migration, schema))
        if missing:
            _run_script(conn, _addressed(_text("closed"), schema))
    return missing


def in_the_way(
    conn: Connection[Any], at: int, schema: str = DEFAULT_SCHEMA, to: int | None = None
) -> OldWorkersAlive | None:
    """The error that names the workers to drain first: alive, and using what a migration after `at` removes."""
    removing = _contracting(_up_to(to)[at:])
    if at < RELEASED or not removing:
        return None
    late = [each.id for each in postgres.run(conn, workers(), schema) if _is_old(each, removing[-1].version)]
    return OldWorkersAlive(late, removing[0].version, schema) if late else None


def _is_old(worker: Member, migration: int) -> bool:
    silent = worker.present is False or (worker.present is None and worker.seen_seconds > SILENT_SECONDS)
    return worker.status != "dead" and not silent and int(worker.metadata.get("migration", RELEASED)) < migration


def _contracting(missing: Sequence[Migration]) -> list[Migration]:
    return [migration for migration in missing if migration.kind == "contract"]


def roles(schema: str = DEFAULT_SCHEMA, prefix: str = ROLE_PREFIX) -> str:
    """The SQL that creates the four group roles if they are missing, and grants each the least it needs."""
    check_schema_name(schema)
    return _addressed(prefixed(_text("roles"), prefix), schema)


def prefixed(text: str, prefix: str) -> str:
    """SQL about the roles, with their names as they are here."""
    if not _ROLE_PREFIX.fullmatch(prefix) or prefix.startswith("pg_"):
        raise BadSettings(
            f"--role-prefix {prefix!r} must be a plain name: use a-z, 0-9 and _, at most 48 letters, not pg_ first"
        )
    return _ROLE.sub(rf"{prefix}_\1", text)


def grant(conn: Connection[Any], schema: str = DEFAULT_SCHEMA, prefix: str = ROLE_PREFIX) -> None:
    """Create and grant the roles; safe to run twice and by ten processes at once."""
    with conn.transaction():
        lock(conn, schema)
        _run_script(conn, roles(schema, prefix))


def applied(conn: Connection[Any], schema: str = DEFAULT_SCHEMA) -> Sequence[Applied]:
    """The applied migrations; none if Tenure was never there, BadSettings if the schema is not ours."""
    check_encoding(conn)
    try:
        with conn.transaction():
            return postgres.run(conn, migrations(), schema)
    except (UndefinedTable, InvalidSchemaName):
        return []
    except (UndefinedColumn, WrongObjectType):
        raise not_ours(schema) from None


def check_encoding(conn: Connection[Any]) -> None:
    """Refuse a database that is not UTF-8: it could not store every text. The connection knows the encoding."""
    encoding = conn.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):  # None: a pooler did not tell
        raise BadSettings(
            f"database {conn.info.dbname!r} has encoding {encoding}: create one with ENCODING 'UTF8' TEMPLATE template0"
        )


def not_ours(schema: str) -> BadSettings:
    """The error for a schema with other objects: Tenure would change rights on all of them."""
    example = f"{DEFAULT_SCHEMA}_inbox" if schema == DEFAULT_SCHEMA else DEFAULT_SCHEMA
    return BadSettings(
        f"schema {schema!r} holds other objects: give Tenure a schema of its own, e.g. --schema {example}"
    )


def check(done: Sequence[Applied], schema: str) -> None:
    """Refuse a database whose record differs from our files: a file changed after it was applied, or one is missing."""
    for migration, found in zip(known(), done, strict=False):
        if (found.version, found.checksum) != (migration.version, migration.checksum):
            raise BadSettings(
                f"migration {found.version} of schema {schema!r} was applied with another text: use the "
                "tenure it came from or another schema, or empty the embedded server with `tenure pg reset`"
            )


def require(conn: Connection[Any], schema: str = DEFAULT_SCHEMA, *, since: int | None = None) -> None:
    """Return if this package can work with the schema, else raise SchemaMismatch with the command that fixes it.

    `since`: the migration from which on this works, for what must be done before an upgrade.
    """
    judge(applied(conn, schema), schema, since=since)


def judge(done: Sequence[Applied], schema: str = DEFAULT_SCHEMA, *, since: int | None = None) -> None:
    """A schema is too old below our version, and too new after a contracting migration that we do not know."""
    if len(done) < (since or newest()) or any(found.kind == "contract" for found in done[newest() :]):
        raise SchemaMismatch(len(done), newest(), schema)
    check(done, schema)


def _up_to(to: int | None) -> tuple[Migration, ...]:
    if to is not None and not 1 <= to <= newest():
        raise BadSettings(f"there is no migration {to}: this package has 1 to {newest()}")
    return known()[: to or newest()]


def _text(name: str) -> str:
    """One of the files next to the migrations."""
    return (files(sql) / f"{name}.sql").read_text(encoding="utf-8")


def _begin(schema: str) -> str:
    return _addressed(_text("begin"), schema)


def _addressed(text: str, schema: str) -> str:
    """The same for another schema than tenure, also where the SQL names the schema itself."""
    named = re.sub(r"\bSCHEMA tenure\b", f'SCHEMA "{schema}"', text).replace("('tenure')", f"('\"{schema}\"')")
    return sql.in_schema(named, schema)


def _record(migration: Migration, schema: str) -> str:
    text = _addressed(_text("record"), schema)
    for name in ("version", "name", "checksum", "kind"):
        text = text.replace(f":'{name}'", f"'{getattr(migration, name)}'")
    return text


def lock(conn: Connection[Any], schema: str) -> None:
    """Held to the end of the transaction: the second process waits here, then finds nothing to do."""
    conn.execute("SET LOCAL search_path = pg_catalog, pg_temp")  # nobody's functions but the server's
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"tenure migrate {schema}"])


@contextmanager
def _path_kept(conn: Connection[Any]) -> Iterator[None]:
    """What is set for the transaction outlives our savepoint in it: put it back. After an error the savepoint does."""
    before = conn.execute("SELECT current_setting('search_path')").fetchone()
    yield
    conn.execute("SELECT set_config('search_path', %s, true)", before)


def _refuse_others(conn: Connection[Any], schema: str) -> None:
    if conn.execute(_addressed(_text("others"), schema).encode()).fetchone() is not None:
        raise not_ours(schema)


def _run_script(conn: Connection[Any], text: str) -> None:
    """Several statements in one go, in the open transaction."""
    conn.execute(text.encode())
