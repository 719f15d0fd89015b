"""Guarantee 12: a crash at any point converges: after expiry and sweep another worker finishes, with one effect."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from guarantees.facts import until
from tenure import verbs
from tenure.app.fence import fenced
from tenure.model.rows import Lease
from tenure.verbs import questions
from world import World

WORKER = """
import sys
from tenure import postgres, verbs
from tenure.verbs import settle
from tenure.app.fence import fenced
url, schema, fatal = sys.argv[1:]

def reach(point):
    if point == fatal:
        print(point, flush=True)
        sys.stdin.read()

conn = postgres.connect(url, application_name="crasher " + schema)
(job,) = postgres.run(conn, verbs.claim("crasher", 1), schema)
reach("after_claim")
tx = fenced(conn, job.lease, schema=schema)
tx.__enter__()
reach("before_effect")
assert postgres.run(conn, verbs.once(job.lease, "receipt"), schema)
conn.execute(f"INSERT INTO {schema}.receipts VALUES (%s, %s)", [job.id, job.lease.generation])
reach("after_effect_before_complete")
(done,) = postgres.run(conn, settle.complete([job.lease]), schema)
assert done.ok
reach("during_commit")
conn.execute("COMMIT")
reach("after_commit")
"""
POINTS = ["after_claim", "before_effect", "after_effect_before_complete", "during_commit", "after_commit"]


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_point_leaves_one_effect_and_a_completed_row(
    world: World, point: str, ordered: bool
) -> None:
    world.sql("CREATE TABLE receipts (row_id uuid, token bigint)")
    id = world.enqueue(key="order:1", ordered=ordered)
    worker = WORKER.replace("verbs.claim(", "verbs.claim_ordered(") if ordered else WORKER
    child = subprocess.Popen(
        [sys.executable, "-c", worker, world.url, world.schema, point], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline().decode().strip() == point
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    name = f"crasher {world.schema}"
    until(
        lambda: not world.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", name),
        "the killed worker's backend is gone",
    )
    committed = point == "after_commit"
    assert world.count("receipts") == int(committed)
    assert world.status(id) == ("completed" if committed else "processing")

    world.sql("UPDATE live SET lease_expires_at = clock_timestamp()")
    assert [each.id for each in world.run(verbs.sweep_pages())] == ([] if committed else [id])
    world.due()
    jobs = world.claim_ordered("B") if ordered else world.claim("B")
    assert [job.id for job in jobs] == ([] if committed else [id])
    for job in jobs:
        _finish(world, job.lease)

    row = world.row(id)
    assert (row.status, row.finished_by) == ("completed", "crasher" if committed else "B")
    assert row.attempts == row.lease_generation == (1 if committed else 2)
    assert world.sql("SELECT row_id, token FROM receipts") == [(id, row.lease_generation)]
    assert world.count("effects") == 1
    assert not world.keys_taken()
    outcomes = [attempt.outcome for attempt in world.run(questions.tape(id))]
    assert outcomes == (["completed"] if committed else ["expired", "completed"])


def _finish(world: World, lease: Lease) -> None:
    with fenced(world.conn, lease, schema=world.schema) as tx:
        if world.run(verbs.once(lease, "receipt")):
            tx.execute("INSERT INTO receipts VALUES (%s, %s)", [lease.id, lease.generation])
