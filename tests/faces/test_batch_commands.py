"""`tenure batches`, `tenure batch` and what `tenure row` and `tenure why` say of a batch, a result and progress."""

from __future__ import annotations

import json

from click.testing import CliRunner

from tenure import verbs
from tenure.cli import tenure
from tenure.model.rows import NewRow
from tenure.verbs import batches, questions, settle
from tenure.verbs.batches import WAITING_SECONDS
from tenure.verbs.results import progress
from world import World


def _say(world: World, *words: str) -> str:
    answer = CliRunner().invoke(tenure, [*words, "--database-url", world.url, "--schema", world.schema])
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_a_batch_is_listed_shown_and_named_by_why(world: World) -> None:
    then = world.enqueue("then", delay_seconds=WAITING_SECONDS)
    assert "no batches" in _say(world, "batches")
    made = world.run(batches.open_group([NewRow("part")] * 3, then_row=then, name="nightly"))
    job = world.claim_one()
    world.fail(job.lease, "broken")
    assert f"It waits for 2 of 3 of its batch; `tenure batch {made.id}`" in world.run(questions.why(then))
    assert "nightly" in _say(world, "batches")
    (listed,) = json.loads(_say(world, "batches", "--json"))["batches"]
    assert (listed["size"], listed["open"], listed["ended"], listed["failed"]) == (3, 2, 1, 1)
    shown = _say(world, "batch", str(made.id))
    assert "2 to go" in shown
    assert f"{job.id}  failed  part  broken" in shown
    assert str(then) in shown
    missing = CliRunner().invoke(tenure, ["batch", "99", "--database-url", world.url, "--schema", world.schema])
    assert missing.exit_code == 1
    assert "there is no batch 99" in missing.output


def test_a_row_that_waits_for_the_batch_before_its_own_says_so(world: World) -> None:
    second = world.run(batches.open_group([NewRow("part", delay_seconds=WAITING_SECONDS)]))
    first = world.run(batches.open_group([NewRow("part")], then_group=second.id))
    assert f"tenure batch {first.id}" in world.run(questions.why(second.ids[0]))
    world.run(verbs.cancel(first.ids))
    assert "batch" not in world.run(questions.why(second.ids[0]))


def test_a_row_shows_its_progress_its_result_and_its_batch(world: World) -> None:
    made = world.run(batches.open_group([NewRow("part")]))
    job = world.claim_one()
    world.run(progress(job.lease, 0.4, "decoding"))
    assert "40% decoding" in _say(world, "row", str(job.id))
    world.run(settle.complete([job.lease], results=['{"width": 640}']))
    told = _say(world, "row", str(job.id))
    assert '{"width": 640}' in told
    assert f"batch             {made.id}" in told
    document = json.loads(_say(world, "row", str(job.id), "--json"))
    assert (document["result"], document["batch"], document["progress"]["share"]) == ({"width": 640}, made.id, 0.4)
    world.enqueue()
    assert json.loads(_say(world, "row", str(world.claim_one().id), "--json"))["result"] is None
