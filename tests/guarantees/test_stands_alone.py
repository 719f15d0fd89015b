"""Which table of a projection may be dropped for its rebuilt one: none on which anything hangs that would be lost."""

from __future__ import annotations

import pytest

from world import World

TABLES = """
CREATE TABLE place.sums (n int PRIMARY KEY, amount int);
CREATE INDEX ON place.sums (amount);
CREATE TABLE shadow.sums (LIKE place.sums INCLUDING ALL);
CREATE TABLE place.other (n int PRIMARY KEY, s serial);
CREATE POLICY all_of_it ON place.other;
CREATE PUBLICATION of_other_place FOR TABLE place.other;
"""
HANGS = {
    "grant": "GRANT SELECT ON place.sums TO PUBLIC",
    "grant of a column": "GRANT SELECT (n) ON place.sums TO PUBLIC",
    "row security": "ALTER TABLE place.sums ENABLE ROW LEVEL SECURITY",
    "policy": "CREATE POLICY all_of_it ON place.sums",
    "trigger": "CREATE TRIGGER t BEFORE UPDATE ON place.sums EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "publication": "CREATE PUBLICATION of_place FOR TABLE place.sums",
    "view": "CREATE VIEW place.seen AS SELECT n FROM place.sums",
    "type": "CREATE TABLE place.rows (row_of place.sums)",
    "sequence": "CREATE SEQUENCE place.numbers OWNED BY place.sums.n",
    "index": "CREATE INDEX sums_both ON place.sums (n, amount)",
    "index of the new one": "CREATE INDEX sums_both ON shadow.sums (n, amount)",
}


@pytest.mark.parametrize("hangs", [None, *HANGS])
def test_a_table_stands_alone_if_nothing_but_its_indexes_hangs_on_it(world: World, hangs: str | None) -> None:
    place, shadow = f"p_{world.schema}", f"n_{world.schema}"

    def here(script: str) -> str:
        return script.replace("place", place).replace("shadow", shadow)

    with world.conn.transaction(force_rollback=True):
        world.sql(f"CREATE SCHEMA {place}; CREATE SCHEMA {shadow}")
        for line in [*TABLES.strip().splitlines(), *filter(None, [HANGS.get(hangs or "")])]:
            world.sql(here(line))
        asked = here("SELECT stands_alone('place.sums'::regclass, 'shadow.sums'::regclass)")
        assert world.sql(asked) == [(hangs is None,)]
