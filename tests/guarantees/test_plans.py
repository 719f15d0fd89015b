"""Each hot statement has exactly one index to take, whatever the statistics say or do not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from plans import Plans
from slices import slice_of
from tenure import verbs
from tenure.model.rows import Lane
from tenure.verbs import capacity, lately, questions, queues, settle
from tenure.verbs.statement import Statement
from world import World

OURS = tuple(range(0, 1024, 2))
HELD = 20

_FILL = """
INSERT INTO live (kind, payload, partition_key, queue, available_at)
SELECT 'send_receipt', '{}', NULL, CASE WHEN k %% 3 = 0 THEN 'mail' ELSE 'default' END,
       statement_timestamp()
FROM generate_series(1, %s) AS k
"""


@pytest.fixture
def still(world: World) -> World:
    """A world whose hot table is analysed by nobody but the test."""
    world.sql("ALTER TABLE live SET (autovacuum_enabled = false)")
    return world


def _claim(n: int, buckets: Sequence[int] | None = None, *, in_crowd: bool = False) -> Statement[Any]:
    return verbs.claim("A", n, lanes=[Lane(), Lane("mail")], buckets=buckets, in_crowd=in_crowd)


def _hot(world: World) -> dict[str, tuple[Callable[[], Statement[Any]], set[str]]]:
    """Each statement that runs in every round of a worker or every few seconds, with how it may read the hot table.

    Those that end attempts look for the other rows of an ordered key, by live_heads; an unordered row has none.
    """
    world.sql("DELETE FROM live WHERE status = 'processing'")
    leases = [job.lease for job in world.run(_claim(2 * HELD))]
    half = len(leases) // 2
    return {
        "claim": (lambda: _claim(5), {"live_due", "Tid Scan"}),
        "claim of some buckets": (lambda: _claim(5, OURS), {"live_due", "Tid Scan"}),
        "claim_in_crowd": (lambda: _claim(5, in_crowd=True), {"live_due", "Tid Scan"}),
        "board": (lambda: questions.board(["default", "mail"]), {"live_due"}),
        "renew": (lambda: verbs.renew(leases), {"live_pkey"}),
        "complete": (lambda: settle.complete(leases[:half], ordered=False), {"live_pkey", "live_heads"}),
        "retry": (lambda: settle.retry(leases[half:], ["boom"] * (len(leases) - half)), {"live_pkey", "live_heads"}),
        "sweep": (verbs.sweep, {"live_pkey", "live_heads"}),
        "sweep_pages": (lambda: verbs.sweep_pages(0, 2000), {"Tid Range Scan", "live_pkey", "live_heads"}),
    }


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
@pytest.mark.parametrize("rows", [0, 400, slice_of(100_000, 20_000)])
def test_every_hot_statement_takes_its_own_index(still: World, rows: int, analysed: bool) -> None:
    still.sql(_FILL, rows)
    if analysed:
        still.sql("ANALYZE live")
    hot = _hot(still)
    plans = Plans(still)
    wrong = {name: used for name, (make, right) in hot.items() if (used := plans.of(make())) != right}
    assert not wrong


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
@pytest.mark.parametrize("rows", [400, 20_000])
def test_the_other_claims_and_what_people_ask_have_their_indexes_too(still: World, rows: int, analysed: bool) -> None:
    still.sql(_FILL, rows)
    still.run(queues.limit("mail", max_running=10, max_per_key=1))
    if analysed:
        still.sql("ANALYZE live")
    by_time = {"live_due", "live_heads", "live_pkey"}
    asked: dict[str, tuple[Statement[Any], set[str]]] = {
        "claim_limited": (queues.claim_limited("A", 5, "mail"), {*by_time, "live_keyed"}),
        "claim_ordered": (verbs.claim_ordered("A", 5), {"live_heads", "live_pkey"}),
        "lanes": (questions.lanes(), {"live_due"}),
        "queue_lags": (questions.queue_lags(), by_time),
        "oldest_runnable": (questions.oldest_runnable(), by_time),
        "busy_queues": (capacity.busy_queues(), by_time),
        "backlog": (capacity.backlog(), by_time),
        "note_backlog": (lately.note_backlog(), {"live_due", "live_heads"}),
        "ring_depth": (questions.ring_depth(["default", "mail"]), by_time),
    }
    plans = Plans(still)
    wrong = {name: used for name, (statement, may) in asked.items() if not (used := plans.of(statement)) <= may}
    assert not wrong
