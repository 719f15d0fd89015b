"""The reference of SQL for producers names what there is: each argument, each column, no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from world import World

pytestmark = pytest.mark.one_server
PAGE = (Path(__file__).parents[2] / "docs/reference/sql.md").read_text()
PARTS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
ROLES = (Path(__file__).parents[2] / "src/tenure/sql/roles.sql").read_text()


def _cells(part: str) -> list[str]:
    """Every name in the first column of its tables."""
    return [
        name for cell in re.findall(r"^\| (`.+?) \|", PARTS[part], re.MULTILINE) for name in re.findall(r"\w+", cell)
    ]


def test_enqueue_has_these_arguments_and_columns(world: World) -> None:
    named = "SELECT proargnames FROM pg_proc WHERE pronamespace = %s::regnamespace AND proname = %s"
    ((names,),) = world.sql(named, world.schema, "enqueue")
    assert _cells("tenure.enqueue") == names
    ((many,),) = world.sql(named, world.schema, "enqueue_many")
    listed = re.search(r"one element a row: `(.+?)`", PARTS["tenure.enqueue"], re.DOTALL)
    assert listed is not None
    assert [*re.findall(r"\w+", listed[1]), "row_id", "outcome"] == many


def test_the_view_has_these_columns(world: World) -> None:
    columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'inbox'"
    assert sorted(_cells("tenure.inbox")) == sorted(name for (name,) in world.sql(columns, world.schema))


def test_a_producer_may_copy_these_columns() -> None:
    (granted,) = re.findall(r"GRANT INSERT \((kind, [^)]+)\) ON tenure\.live", ROLES)
    assert f"COPY tenure.live ({granted}) FROM STDIN;" in PARTS["COPY"]
