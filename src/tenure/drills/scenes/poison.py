"""The poison row: an order that fails in every attempt blocks no other row, and completes after a repair."""

from __future__ import annotations

from ..stage.acts import Cure, Enqueue, Orders, Redrive, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step
from ..stage.stage import Stage

A = "worker-A"
STORY = (
    "One order always fails. It is tried three times, with longer and longer waits, while other orders pass it by. Then"
    " it is a dead letter, for a person to look at. Its cause is repaired, and after a redrive it completes."
)


def poison() -> Drill:
    """No single guard could be left out here: there is no control."""
    return Drill(Scene("poison", "The poison row", STORY, "set aside, brought back", STEPS, PROOFS, PROPS, crowd=True))


PROPS = Props(handler_seconds=0.1)
STEPS = (
    Step(
        "Order 13 names a product that does not exist, so its handler raises. Five good orders come right behind it.",
        (Enqueue(13, "poison"), Orders(5, first=101), Start(A)),
        (Event("job_retried", A, {"token": 1}),),
    ),
    Step(
        "It waits for its next attempt. A row that waits takes up no slot: the others pass it by.",
        (),
        (Fact("five receipts in the ledger", "SELECT count(*) = 5 FROM tenure.ledger"),),
    ),
    Step(
        "The third attempt was the last one: the row is set aside as a dead letter, with its error.",
        (),
        (Event("job_dead_lettered", A, {"token": 3}),),
    ),
    Step(
        "Somebody repairs the catalogue and redrives the dead letter: it has fresh attempts, and completes.",
        (Cure(), Redrive()),
        (
            Event("job_completed", A, {"token": 4}),
            Fact("order 13 in the ledger", "SELECT count(*) = 1 FROM tenure.ledger WHERE order_id = 13"),
        ),
    ),
)
WAITS = """
SELECT waits[1] >= 1 AND waits[2] >= 2
FROM (
  SELECT array_agg(extract(epoch FROM next.claimed_at - this.ended_at) ORDER BY this.lease_generation)
  FROM tenure.attempts AS this
  JOIN tenure.attempts AS next ON next.row_id = this.row_id AND next.lease_generation = this.lease_generation + 1
) AS each (waits)"""


def _tokens(stage: Stage, event: str) -> list[int]:
    return [said.fields["token"] for said in stage.reported(event)]


PROOFS = (
    Proof(
        "three_attempts",
        "three attempts, then a dead letter",
        lambda stage: _tokens(stage, "job_retried") == [1, 2] and _tokens(stage, "job_dead_lettered") == [3],
    ),
    Proof(
        "waits_climb",
        "it waited a second, then two at least",
        WAITS,
    ),
    Proof(
        "others_passed",
        "five receipts were sent meanwhile",
        "SELECT count(*) = 5 FROM tenure.ledger AS l WHERE l.written_at < (SELECT max(ended_at) FROM tenure.attempts)",
    ),
    Proof(
        "fresh_attempts",
        "completed in its first attempt after the redrive",
        "SELECT count(*) = 1 FROM tenure.inbox WHERE kind = 'poison' AND status = 'completed' AND attempts = 1",
    ),
    Proof(
        "no_token_twice",
        "with token 4: none is used twice",
        "SELECT array_agg(token) = '{4}' FROM tenure.ledger WHERE order_id = 13",
    ),
)
