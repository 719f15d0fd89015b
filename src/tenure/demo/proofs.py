"""The five proofs of the tour: asked of the database at the end, with the names and numbers of this run."""

from __future__ import annotations

from ..drills.scenes.ring import EVENING_OUT_MAX
from ..drills.stage.picture import bare
from ..drills.stage.scene import Proof
from ..drills.stage.stage import Stage
from ..model.ring import Ring
from ..model.rows import BUCKETS
from .moves import moves, ring_now

CRASH, PAUSE, TWICE, POISON = 9181, 9182, 9183, 9184  # the orders of the tour

RECEIPTS = "SELECT COALESCE(array_agg(token), '{}') = %s::bigint[] FROM tenure.ledger WHERE order_id = %s"
REFUSED = """
SELECT count(*) > 0 FROM tenure.refusals AS r JOIN tenure.inbox AS i ON i.id = r.row_id
WHERE i.partition_key = 'order:9182' AND r.stale_token = 1 AND r.verb IN ('enter', 'complete') AND r.worker LIKE %s"""
ROWS = "SELECT count(*) = 1 FROM tenure.inbox WHERE partition_key = %s"
NOT_COMPLETED = """
SELECT COALESCE(array_agg(partition_key || ' ' || status || ' ' || attempts), '{}') = %s::text[]
FROM tenure.inbox WHERE status <> 'completed'"""
EACH_ONE_RECEIPT = """
SELECT (SELECT array_agg(id ORDER BY id) FROM tenure.orders WHERE id <> %s)
     = (SELECT array_agg(order_id ORDER BY order_id) FROM tenure.ledger)"""


def proofs(stage: Stage) -> tuple[Proof, ...]:
    """What must be true now, each as one sentence with the names and numbers of this run."""
    killed, paused = _last(stage, "worker_killed"), _last(stage, "worker_paused")
    ((others,),) = stage.sql("SELECT count(*) FROM tenure.orders WHERE id <> %s", POISON)
    return (
        Proof("crash", f"{killed} was killed: order {CRASH} has one receipt, with token 2", taken_over),
        Proof("pause", f"{paused}'s late write was refused: order {PAUSE} has one receipt, with token 2", refused),
        Proof("duplicate", f"order {TWICE} was sent twice: one row, one receipt", once),
        Proof(
            "poison",
            f"order {POISON} is a dead letter after 3 attempts; each of the other {others} has one receipt",
            put_aside,
        ),
        _ring_proof(stage),
    )


def taken_over(stage: Stage) -> bool:
    """Its one receipt was written with token 2."""
    return _yes(stage, RECEIPTS, [2], CRASH)


def refused(stage: Stage) -> bool:
    """The database has refused a write of the paused worker, and nothing that it wrote is there."""
    return _yes(stage, REFUSED, f"{_last(stage, 'worker_paused')}-%") and _yes(stage, RECEIPTS, [2], PAUSE)


def once(stage: Stage) -> bool:
    """As if it had been sent once."""
    sent = [said for said in stage.reported("enqueue_deduplicated") if said.fields["order"] == TWICE]
    return bool(sent) and _yes(stage, ROWS, f"order:{TWICE}") and _yes(stage, RECEIPTS, [1], TWICE)


def put_aside(stage: Stage) -> bool:
    """It is the only row that is not completed, and every other order has its receipt."""
    alone = [f"order:{POISON} dead_letter 3"]
    return _yes(stage, NOT_COMPLETED, alone) and _yes(stage, EACH_ONE_RECEIPT, POISON)


def _ring_proof(stage: Stage) -> Proof:
    """Compares the ring with the ring before the last worker joined."""
    now, joined = ring_now(stage), _last(stage, "worker_hired")
    before = Ring(worker for worker in now.workers if bare(worker) != joined)
    if not before.workers or before == now:
        return Proof("ring", f"{joined} joined the ring", lambda _: False)
    moved, needless = moves(before, now)
    fair = BUCKETS / len(now.workers)
    return Proof(
        "ring",
        f"{joined} joined {len(before.workers)} others: moved {moved} of {BUCKETS} buckets, {needless} needless",
        lambda _: needless <= EVENING_OUT_MAX and fair / 2 < moved < fair * 1.5,
    )


def _yes(stage: Stage, question: str, *params: object) -> bool:
    return stage.sql(question, *params) == [(True,)]


def _last(stage: Stage, event: str) -> str:
    """The worker to which this happened last."""
    reported = stage.reported(event)
    return str(reported[-1].fields["worker"]) if reported else "nobody"
