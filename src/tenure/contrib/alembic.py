"""Tenure's migrations inside a revision of Alembic, and autogenerate that leaves its tables alone.

def upgrade() -> None:
    tenure.contrib.alembic.upgrade(op)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadSettings
from ..postgres import migrate, run
from ..settings import DEFAULT_SCHEMA, check_schema_name, find
from ..verbs.questions import migrations, ping


def upgrade(op: Any, *, schema: str | None = None, to: int | None = None, after: int = 0) -> None:
    """Bring Tenure's schema to a version, this package's newest unless given, in the revision's own transaction.

    Where Alembic only prints (`--sql`), `after` says which version the revisions before have reached.
    """
    found = find("TENURE_SCHEMA", schema, "schema")
    name = check_schema_name(found.value if found else DEFAULT_SCHEMA)
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(migrate.within(migrate.script(name, to, after)))
        return
    conn = op.get_bind()
    driver = conn.dialect.driver
    if driver not in ("psycopg", "asyncpg"):
        raise BadSettings(
            f"Alembic reaches the database by {conn.dialect.name}+{driver}: "
            "use postgresql+psycopg or postgresql+asyncpg"
        )
    run(conn, ping())  # begins the revision's transaction, so that ours is a part of it
    if driver == "psycopg":
        migrate.apply(conn.connection.driver_connection, name, to)
    else:
        _by_asyncpg(conn, name, to)


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:  # noqa: ARG001
    """For `context.configure(include_schemas=True, include_name=include_name)`: autogenerate passes Tenure's schema."""
    found = find("TENURE_SCHEMA")
    return not (type_ == "schema" and name == (found.value if found else DEFAULT_SCHEMA))


def _by_asyncpg(conn: Any, schema: str, to: int | None) -> None:
    """asyncpg takes a script of many statements only as such: what is missing, as `tenure migrate --sql` prints it."""
    done = _applied(conn, schema)
    wanted = to or migrate.newest()
    if done < wanted:
        text = migrate.within(migrate.script(schema, wanted, done))
        before = conn.exec_driver_sql("SHOW search_path").scalar_one()
        conn.connection.dbapi_connection.run_async(lambda raw: raw.execute(text))
        conn.exec_driver_sql("SELECT set_config('search_path', $1, true)", (before,))


def _applied(conn: Any, schema: str) -> int:
    """How many are there: 0 if Tenure was never there."""
    there = conn.exec_driver_sql("SELECT to_regclass($1)::text", (f'"{schema}".migrations',)).scalar_one()
    if there is None:
        return 0
    done = run(conn, migrations(), schema)
    migrate.check(done, schema)
    return len(done)
