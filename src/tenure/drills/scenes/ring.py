"""The ring: workers that are alive share 1024 buckets; a newcomer takes a share, and that of a dead worker moves."""

from __future__ import annotations

from ...model import ring as engine
from ...model.rows import BUCKETS
from ..stage.acts import Act, Kill, Orders, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step
from ..stage.stage import Stage

A, B, C, D = "worker-A", "worker-B", "worker-C", "worker-D"
EVENING_OUT_MAX = BUCKETS // 50  # what the cap on a worker's share may move between those who stay: 2 %
STORY = (
    "Three workers share 1024 buckets. A fourth one joins: about a quarter of the buckets change hands, and they go to"
    " the newcomer. Then one is killed, and its buckets go to the others. Orders are completed all the while."
)


def ring() -> Drill:
    """The ring spreads work and guards nothing: there is no control."""
    props = Props(lease_seconds=10.0, handler_seconds=0.05)
    return Drill(Scene("ring", "The ring", STORY, "a quarter moved", STEPS, PROOFS, props, crowd=True))


def _dealt(workers: int, *names: str) -> tuple[Event, ...]:
    return tuple(Event("ring_changed", name, {"workers": workers}) for name in names)


class Compare(Act, frozen=True):
    """Report what moved when worker-D joined, by the ids that the workers reported."""

    def do(self, stage: Stage) -> None:
        """Counts what is in the feed."""
        taken = len(_ring(stage, A, B, C, D).buckets_of(_id(stage, D)))
        stage.say("drill", "buckets_moved", to_newcomer=taken, between_others=_needless(stage), of=BUCKETS)


STEPS = (
    Step(
        "Three workers start. Each finds the others and computes the same ring.",
        (Start(A), Start(B), Start(C)),
        _dealt(3, A, B, C),
    ),
    Step(
        "A dozen orders: each falls into a bucket, and so to a worker.",
        (Orders(12),),
        (Fact("12 receipts in the ledger", "SELECT count(*) = 12 FROM tenure.ledger"),),
    ),
    Step("worker-D joins.", (Start(D),), _dealt(4, A, B, C, D)),
    Step(
        "Its share is about a quarter. A dozen more orders, now for four.",
        (Compare(), Orders(12)),
        (Fact("24 receipts in the ledger", "SELECT count(*) = 24 FROM tenure.ledger"),),
    ),
    Step(
        "worker-B is killed. After the grace period its buckets go to the others, and nobody waits for it.",
        (Kill(B), Orders(12)),
        (*_dealt(3, A, C, D), Fact("36 receipts in the ledger", "SELECT count(*) = 36 FROM tenure.ledger")),
    ),
)


def _ring(stage: Stage, *names: str) -> engine.Ring:
    """The ring of these workers, computed by the engine's own rule from their ids."""
    return engine.Ring(said.fields["worker"] for said in stage.reported("worker_started") if said.who in names)


def _told(stage: Stage, what: str, workers: int, *names: str, nth: int = 0) -> list[int]:
    """What each worker reported about a ring of so many members, the first time or the nth; nothing if it did not."""
    told = [[said.fields for said in stage.reported("ring_changed", name)] for name in names]
    those = [[fields[what] for fields in each if fields["workers"] == workers] for each in told]
    return [each[nth] for each in those if each]


def _a_quarter_moved(stage: Stage) -> bool:
    moved = engine.moved(_ring(stage, A, B, C), _ring(stage, A, B, C, D))
    told = _told(stage, "moved", 4, A, B, C)
    return told == [moved] * 3 and BUCKETS / 4 * 0.7 <= moved <= BUCKETS / 4 * 1.1 + EVENING_OUT_MAX


def needless(before: engine.Ring, after: engine.Ring) -> int:
    """Buckets that moved between workers that stayed: the cap on a share moves a few."""
    stayed = {*before.workers} & {*after.workers}
    pairs = ((before.owner_of(n), after.owner_of(n)) for n in range(BUCKETS if stayed else 0))
    return sum(old != new and {old, new} <= stayed for old, new in pairs)


def _needless(stage: Stage) -> int:
    return needless(_ring(stage, A, B, C), _ring(stage, A, B, C, D))


def _id(stage: Stage, name: str) -> str:
    return next((str(said.fields["worker"]) for said in stage.reported("worker_started", name)), "")


def _to_the_newcomer(stage: Stage) -> bool:
    return bool(_id(stage, D)) and _needless(stage) <= EVENING_OUT_MAX


def _each_bucket_once(stage: Stage) -> bool:
    three = sum(_told(stage, "owned", 3, A, B, C))
    four = sum(_told(stage, "owned", 4, A, B, C, D))
    left = sum(_told(stage, "owned", 3, A, C, D, nth=-1))
    return three == four == left == BUCKETS


def _given_up(stage: Stage) -> bool:
    before, after = _ring(stage, A, B, C, D), _ring(stage, A, C, D)
    moved = engine.moved(before, after)
    return needless(before, after) <= EVENING_OUT_MAX and _told(stage, "moved", 3, A, C, D, nth=-1) == [moved] * 3


PROOFS = (
    Proof("a_quarter_moved", "about a quarter of 1024 buckets moved", _a_quarter_moved),
    Proof("to_the_newcomer", "to worker-D, but for 2 % at most", _to_the_newcomer),
    Proof("each_bucket_once", "every bucket had one owner, each time", _each_bucket_once),
    Proof("given_up", "what worker-B owned went to the others", _given_up),
    Proof(
        "every_order_once",
        "36 orders, one ledger entry each",
        "SELECT count(*) = 36 AND count(DISTINCT order_id) = 36 FROM tenure.ledger",
    ),
)
