"""The family of a row: who waits for it and for whom it waits, also when one of them is gone."""

from __future__ import annotations

from uuid import UUID

from faces.web_tools import served
from tenure.model.rows import NewRow
from tenure.verbs import batches, results
from tenure.web.access import Access
from world import World


def open_family(world: World) -> tuple[UUID, list[UUID]]:
    """A row that waits for three others, one of them completed, and one of a group for which nobody waits."""
    parent = world.enqueue("import", queue="flows")
    rows = [NewRow("page", {"n": n}, queue="flows") for n in range(3)]
    opened = world.run(batches.open_group(rows, then_row=parent))
    world.run(batches.open_group([NewRow("alone")]))
    ((members,),) = world.sql("SELECT members FROM groups WHERE id = %s", opened.id)
    return parent, list(members)


def test_a_parent_knows_its_children_and_each_of_them_its_parent(world: World) -> None:
    parent, children = open_family(world)
    found = world.run(results.family(parent))
    assert [(each.relation, each.id, each.kind) for each in found] == [("child", id, "page") for id in children]
    for child in children:
        (above,) = world.run(results.family(child))
        assert (above.relation, above.id, above.kind, above.status) == ("parent", parent, "import", "pending")
    ((alone,),) = world.sql("SELECT id FROM live WHERE kind = 'alone'")
    assert world.run(results.family(alone)) == []
    assert [each.id for each in world.run(results.family(parent, 2))] == children[:2]


def test_children_of_other_queues_leave_room_for_those_that_may_be_seen(world: World) -> None:
    parent = world.enqueue("import", queue="flows")
    rows = [NewRow("page", {"n": n}, queue="flows" if n > 54 else "other") for n in range(58)]
    world.run(batches.open_group(rows, then_row=parent))
    some = Access("ann", "read", queues=frozenset({"flows"}))
    with served(world, access=lambda _: some) as narrow:
        told = narrow.get(f"/api/rows/{parent}/family").json()
        assert ([each["queue"] for each in told["children"]], told["more"]) == (["flows"] * 3, False)
    with served(world) as web:
        told = web.get(f"/api/rows/{parent}/family").json()
        assert (len(told["children"]), told["more"]) == (50, True)


def test_of_a_row_that_is_gone_the_id_is_told_and_of_other_queues_nothing(world: World) -> None:
    parent, children = open_family(world)
    world.sql("DELETE FROM live WHERE id = %s", children[1])
    some = Access("ann", "read", queues=frozenset({"flows"}))
    with served(world) as web, served(world, access=lambda _: some) as narrow:
        told = web.get(f"/api/rows/{parent}/family").json()
        assert [each["status"] for each in told["children"]] == ["pending", None, "pending"]
        assert (told["parents"], told["more"]) == ([], False)
        assert web.get(f"/api/rows/{children[0]}/family").json()["parents"][0]["id"] == str(parent)
        assert len(narrow.get(f"/api/rows/{parent}/family").json()["children"]) == 2
        assert web.get(f"/api/rows/{children[1]}/family").status_code == 404
