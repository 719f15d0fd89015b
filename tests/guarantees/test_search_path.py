"""Nobody's functions but the server's run on Tenure's connections, wherever else a login looks for names."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tenure import postgres, verbs
from tenure.postgres import migrate
from world import World

# Fits a uuid better than the server's own, which takes anything: so it is taken, though its schema comes last.
TRAP = """
CREATE SCHEMA {trap};
CREATE TABLE {trap}.caught (who text);
CREATE FUNCTION {trap}.note(uuid[], uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN INSERT INTO {trap}.caught VALUES (current_user); RETURN $1 || $2; END $$;
CREATE AGGREGATE {trap}.array_agg (uuid) (sfunc = {trap}.note, stype = uuid[]);
CREATE FUNCTION {trap}.hashtextextended(text, int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN INSERT INTO {trap}.caught VALUES (current_user); RETURN 1; END $$;
CREATE ROLE {trap} LOGIN SUPERUSER;
ALTER ROLE {trap} SET search_path = public, {trap};
"""


class Trap:
    """A login that looks for names where somebody else has made some."""

    def __init__(self, world: World) -> None:
        self.world, self.name = world, f"trap_{world.schema}"
        self.url = psycopg.conninfo.make_conninfo(world.url, user=self.name)
        world.conn.execute(TRAP.format(trap=self.name).encode())

    @property
    def caught(self) -> int:
        ((n,),) = self.world.sql(f"SELECT count(*) FROM {self.name}.caught")
        return int(n)

    def claim(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        self.world.enqueue()
        assert len(postgres.run(conn, verbs.claim("A", 1, buckets=None), self.world.schema)) == 1


@pytest.fixture
def trap(world: World) -> Iterator[Trap]:
    made = Trap(world)
    yield made
    world.sql(f"DROP SCHEMA {made.name} CASCADE")
    world.sql(f"DROP ROLE {made.name}")


def test_a_claim_runs_nobody_elses_function(trap: Trap) -> None:
    with postgres.connect(trap.url) as conn:
        trap.claim(conn)
    assert trap.caught == 0


def test_control_on_a_connection_of_ones_own_it_is_run(trap: Trap) -> None:
    with psycopg.connect(trap.url, autocommit=True) as conn:
        trap.claim(conn)
    assert trap.caught > 0


def test_a_migration_runs_none_on_a_connection_of_ones_own_either(trap: Trap) -> None:
    schema = f"{trap.world.schema}_more"
    try:
        with psycopg.connect(trap.url, autocommit=True) as conn:
            migrate.apply(conn, schema)
            assert conn.execute("SHOW search_path").fetchone() == (f"public, {trap.name}",)
        assert trap.caught == 0
    finally:
        trap.world.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
