"""Tenure's migrations in a revision of Alembic: one transaction with the user's own tables, by two drivers."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import alembic.command
import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from psycopg.conninfo import make_conninfo

from servers import available
from tenure.contrib.alembic import include_name, upgrade
from tenure.errors import BadSettings
from tenure.postgres import migrate

ENV = """
import asyncio
from alembic import context
from sqlalchemy import create_engine, pool
from sqlalchemy.ext.asyncio import create_async_engine

url = context.config.get_main_option("sqlalchemy.url")


def run(connection=None):
    context.configure(connection=connection, url=url, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        context.run_migrations()


async def run_awaiting():
    async with create_async_engine(url, poolclass=pool.NullPool).begin() as connection:
        await connection.run_sync(run)


if context.is_offline_mode():
    run()
elif "asyncpg" in url:
    asyncio.run(run_awaiting())
else:
    with create_engine(url, poolclass=pool.NullPool).begin() as connection:
        run(connection)
"""
REVISION = """
from alembic import op
import sqlalchemy as sa
from tenure.contrib.alembic import upgrade as upgrade_tenure

revision = "a1"
down_revision = None


def upgrade():
    upgrade_tenure(op{more})
    op.create_table("orders", sa.Column("id", sa.Integer, primary_key=True))
    {then}
"""


@pytest.fixture
def database(started: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """An empty database: its address for SQLAlchemy, without the driver, and for psycopg."""
    server, name = started(available()[0]), f"alembic{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"'.encode())
        host, user = conn.info.host, conn.info.user
        path = f"://{user}@/{name}?host={host}&port={conn.info.port}"
        yield path, make_conninfo(server, dbname=name)
        conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def config(folder: Path, url: str, *, more: str = "", then: str = "") -> Config:
    """A project of Alembic with one revision."""
    (folder / "versions").mkdir()
    (folder / "env.py").write_text(ENV)
    (folder / "versions/a1.py").write_text(REVISION.format(more=more, then=then))
    made = Config(stdout=io.StringIO(), output_buffer=io.StringIO())
    made.set_main_option("script_location", str(folder))
    made.set_main_option("path_separator", "os")
    made.set_main_option("sqlalchemy.url", url)
    return made


def tables(address: str) -> tuple[int, int, bool]:
    """How many migrations are recorded, how many of their tables there are, and whether Alembic has its line."""
    with psycopg.connect(address, autocommit=True) as conn:
        asked = "SELECT to_regclass('tenure.migrations') IS NULL, to_regclass('orders'), to_regclass('alembic_version')"
        missing, orders, version = conn.execute(asked).fetchone() or ()
        n = 0 if missing else conn.execute("SELECT count(*) FROM tenure.migrations").fetchall()[0][0]
    return n, int(orders is not None), version is not None


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_a_revision_applies_all_files_and_goes_on_with_its_own_tables(
    database: tuple[str, str], tmp_path: Path, driver: str
) -> None:
    alembic.command.upgrade(config(tmp_path, f"postgresql+{driver}{database[0]}"), "head")
    assert tables(database[1]) == (migrate.newest(), 1, True)
    with psycopg.connect(database[1], autocommit=True) as conn:
        migrate.require(conn)
        assert migrate.apply(conn) == []


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_a_revision_that_fails_leaves_nothing(database: tuple[str, str], tmp_path: Path, driver: str) -> None:
    with pytest.raises(ZeroDivisionError):
        alembic.command.upgrade(config(tmp_path, f"postgresql+{driver}{database[0]}", then="1 / 0"), "head")
    assert tables(database[1]) == (0, 0, False)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_what_is_there_already_is_not_applied_again(database: tuple[str, str], tmp_path: Path, driver: str) -> None:
    with psycopg.connect(database[1], autocommit=True) as conn:
        migrate.apply(conn, to=3)
    alembic.command.upgrade(config(tmp_path, f"postgresql+{driver}{database[0]}", more=", to=4"), "head")
    assert tables(database[1]) == (4, 1, True)


def test_what_alembic_prints_can_be_run_by_somebody_else(database: tuple[str, str], tmp_path: Path) -> None:
    made = config(tmp_path, f"postgresql+psycopg{database[0]}", more=", to=3")
    alembic.command.upgrade(made, "head", sql=True)
    assert isinstance(made.output_buffer, io.StringIO)
    with psycopg.connect(database[1], autocommit=True) as conn:
        conn.execute(made.output_buffer.getvalue().encode())
    assert tables(database[1]) == (3, 1, True)


def test_autogenerate_leaves_our_tables_alone_and_would_drop_them_otherwise(database: tuple[str, str]) -> None:
    with psycopg.connect(database[1], autocommit=True) as conn:
        migrate.apply(conn, to=2)
        conn.execute("ALTER ROLE CURRENT_USER SET search_path = public")  # the role is called tenure, too
    engine = sqlalchemy.create_engine(f"postgresql+psycopg{database[0]}", poolclass=sqlalchemy.pool.NullPool)
    try:
        with engine.connect() as theirs:

            def found(**how: object) -> list[object]:
                context = MigrationContext.configure(theirs, opts={"include_schemas": True, **how})
                return list(compare_metadata(context, sqlalchemy.MetaData()))

            assert found(include_name=include_name) == []
            assert found()
    finally:
        with psycopg.connect(database[1], autocommit=True) as conn:
            conn.execute("ALTER ROLE CURRENT_USER RESET search_path")


def test_another_driver_is_refused_in_one_sentence() -> None:
    class Op:
        """As much of Alembic as is asked."""

        class Bind:
            dialect = type("Dialect", (), {"name": "postgresql", "driver": "psycopg2"})

        def get_context(self) -> object:
            return type("Context", (), {"as_sql": False})

        def get_bind(self) -> object:
            return self.Bind

    with pytest.raises(BadSettings, match=r"by postgresql\+psycopg2: use postgresql\+psycopg or postgresql\+asyncpg"):
        upgrade(Op())
