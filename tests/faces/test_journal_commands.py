"""`tenure journal` and `tenure projections`, and the example of both."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from crew import eventually, working
from tenure.cli import tenure
from tenure.model.journal import NewEvent
from tenure.model.rows import Lane
from tenure.verbs import cancel
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection, stop_shard
from tenure.verbs.rebuild import ask_rebuild
from world import World

pytestmark = pytest.mark.one_server
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/order_totals/app.py"


def call(world: World, *words: str) -> Result:
    return CliRunner().invoke(tenure, [*words, "--database-url", world.url, "--schema", world.schema])


def test_the_journal_is_read_by_stream_and_in_order_and_a_stream_is_erased(world: World) -> None:
    for stream in ("order:1", "order:2", "order:1"):
        world.run(append(stream, [NewEvent("order.paid", {"amount": 3})]))
    world.run(append("user:1", [NewEvent("user.left")]))
    said = json.loads(call(world, "journal", "--json").stdout)
    assert [event["stream"] for event in said["events"]] == ["order:1", "order:2", "order:1", "user:1"]
    assert "order.paid" in call(world, "journal", "order:1", "--after", "1").output
    assert len(json.loads(call(world, "journal", "--of", "user.*", "--json").stdout)["events"]) == 1
    assert "erased 2 events" in call(world, "journal", "order:1", "--erase", "--yes").output
    assert "no events" in call(world, "journal", "order:1").output
    assert call(world, "journal", "order:1", "--erase", "--yes").exit_code == 1
    assert call(world, "journal", "--erase").exit_code == 2
    assert "for 90 days" in call(world, "journal", "--keep-days", "90").output
    assert "for ever" in call(world, "journal", "--keep-days", "0").output
    assert world.sql("SELECT verb FROM audit ORDER BY id LIMIT 1") == [("erase_stream",)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keep-days", "-1"), "'--keep-days': -1 must be 0 (for ever), or from an hour (0.042) to ten years (3652)"),
        (("--keep-days", "nan"), "'--keep-days': nan must be"),
        (("--keep-days", "1e9"), "'--keep-days': 1e+09 must be"),
        (("--limit", "0"), "'--limit': 0 is not in the range 1<=x<=10000"),
        (("--after", "99999999999999999999"), "'--after': 99999999999999999999 is not in the range"),
        (("--after", "-1"), "'--after': -1 is not in the range"),
    ],
)
def test_a_number_that_cannot_be_is_a_usage_error_in_the_words_of_the_option(
    world: World, words: tuple[str, ...], said: str
) -> None:
    ran = call(world, "journal", *words)
    assert ran.exit_code == 2, ran.output
    assert said in " ".join(ran.output.split())


def test_projections_are_listed_paused_resumed_and_forgotten(world: World) -> None:
    assert "no projections" in call(world, "projections").output
    world.run(plan_projection("p", shards=2, like=None))
    world.run(append("order:1", [NewEvent("order.paid")]))
    assert call(world, "projections", "pause", "p").output == "paused p\n"
    shards = json.loads(call(world, "projections", "--json").stdout)["projections"]
    assert [(each["shard"], each["behind"], each["paused"]) for each in shards] == [(0, 1, True), (1, 1, True)]
    assert "0 of 2" in call(world, "projections").output
    assert call(world, "projections", "resume", "p").exit_code == 0
    assert call(world, "projections", "rebuild", "p").exit_code == 0
    for verb, said in (
        ("skip", "no shard of it has stopped"),
        ("reapply", "skipped nothing"),
        ("pause", "there is none"),
    ):
        name = "nobody" if verb == "pause" else "p"
        refused = call(world, "projections", verb, name)
        assert refused.exit_code == 1
        assert said in refused.output
    assert call(world, "projections", "forget", "p", "--yes").exit_code == 0
    assert call(world, "projections", "pause").exit_code == 2


def test_the_error_of_a_projection_is_shown_to_its_end(world: World) -> None:
    error = "ValueError: order 9182 has no customer since the import of May: run tools/mend_customers.py first"
    world.run(plan_projection("p", shards=1, like=None))
    held = world.claim_one("A", lanes=[Lane("projection:p")])
    position = world.run(append("order:1", [NewEvent("order.paid")])).position
    assert world.run(stop_shard("p", 0, 0, position, error + "\nin order:1", held))
    assert call(world, "projections").output.endswith(f"\t{error}\n")


def test_a_list_shows_what_an_open_append_holds_back_and_why_a_rebuild_does_not_get_on(world: World) -> None:
    world.run(plan_projection("p", shards=1, like=None))
    asked = world.run(ask_rebuild("p"))
    world.sql("UPDATE live SET attempts = 3, last_error = 'no such table' WHERE id = %s", asked)
    with world.connect() as writer, writer.transaction():
        world.run(append("order:1", [NewEvent("order.paid")]), writer)
        world.run(append("order:2", [NewEvent("order.paid")]))
        rebuild, shard = json.loads(call(world, "projections", "--json").stdout)["projections"]
        lines = call(world, "projections").output.splitlines()
    assert (shard["shard"], shard["behind"], shard["lag_seconds"] > 0, shard["error"]) == (0, 2, True, None)
    assert (rebuild["shard"], rebuild["state"], rebuild["error"]) == (-1, "no_worker", "no such table")
    assert [line for line in lines if "rebuild" in line and "no such table" in line]
    world.run(cancel([asked]))
    assert "cancelled" in call(world, "projections").output


def test_the_example_makes_its_table(world: World) -> None:
    app = runpy.run_path(str(EXAMPLE))
    world.sql(app["TABLE"].replace("EXISTS ", "EXISTS public."))
    world.sql("TRUNCATE public.order_totals")

    async def sell() -> None:
        app["inbox"].use_schema(world.schema)
        async with await psycopg.AsyncConnection.connect(world.url, autocommit=True) as conn:
            for order_id, customer, amount in ((1, "ann", 4200), (2, "bob", 999), (3, "ann", 100)):
                await app["sell"](conn, order_id, customer, amount)

    asyncio.run(sell())
    with working(world, app["inbox"]):
        expected = [("ann", 2, 4300), ("bob", 1, 999)]
        eventually(lambda: world.sql("SELECT * FROM public.order_totals ORDER BY 1") == expected)
    world.sql("DROP TABLE public.order_totals")
