"""In order: the steps of one order run one after the other, also when one of them fails at first."""

from __future__ import annotations

from ..stage.acts import Enqueue, SkipBackoff, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step

A = "worker-A"
LONG, SHORT = 9182, 9183
STORY = (
    "Order 9182 is shipped in five steps, each a row, all under one key and ordered. The second one fails at first:"
    " those behind it wait for it. Order 9183 has another key and does not."
)


def order() -> Drill:
    """The same rows ordered, and not."""
    return Drill(
        _scene(PROOFS, "in order", ordered=True), _scene(HARM, "inversion shown", ordered=False), "ordered=True"
    )


def _scene(proofs: tuple[Proof, ...], shows: str, *, ordered: bool) -> Scene:
    return Scene("order", "In order", STORY, shows, _steps(ordered), proofs, Props(handler_seconds=0.05))


def _steps(ordered: bool) -> tuple[Step, ...]:
    rows = (*(_ship(LONG, step, ordered) for step in range(1, 6)), *(_ship(SHORT, step, ordered) for step in (1, 2, 3)))
    waits = (
        "Steps 3 to 5 wait behind it. Order 9183, under its own key, goes on."
        if ordered
        else "Nothing says that steps 3 to 5 have to wait for it, and they do not."
    )
    return (
        Step("Two orders are shipped: 9182 in five steps, 9183 in three.", rows, (Event("enqueued", "shop"),)),
        Step(
            "Step 2 of order 9182 fails at first: the label printer is out of paper.",
            (Start(A),),
            (Event("job_retried", A),),
        ),
        Step(waits, (), (SHORT_DONE if ordered else PASSED_BY,)),
        Step(
            "The wait before its next attempt is skipped: step 2 is tried again and succeeds.",
            (SkipBackoff(),),
            (ALL_DONE,),
        ),
    )


def _ship(order: int, step: int, ordered: bool) -> Enqueue:
    return Enqueue(order, "ship_order", ordered=ordered, step=step, fails=int((order, step) == (LONG, 2)))


SHORT_DONE = Fact("three steps of order 9183", "SELECT count(*) = 3 FROM tenure.ledger WHERE order_id = 9183")
PASSED_BY = Fact("four steps of order 9182", "SELECT count(*) >= 4 FROM tenure.ledger WHERE order_id = 9182")
ALL_DONE = Fact("eight steps in the ledger", "SELECT count(*) = 8 FROM tenure.ledger")
PROOFS = (
    Proof(
        "in_order",
        "9182: steps 1, 2, 3, 4, 5",
        "SELECT array_agg(step ORDER BY n) = '{1,2,3,4,5}' FROM tenure.ledger WHERE order_id = 9182",
    ),
    Proof(
        "other_in_order",
        "9183: steps 1, 2, 3",
        "SELECT array_agg(step ORDER BY n) = '{1,2,3}' FROM tenure.ledger WHERE order_id = 9183",
    ),
    Proof("step_2_failed", "step 2 needed two attempts", "SELECT count(*) = 1 FROM tenure.inbox WHERE attempts = 2"),
    Proof(
        "other_key_not_held_up",
        "9183 was done before step 2 was",
        "SELECT max(n) FILTER (WHERE order_id = 9183) < max(n) FILTER (WHERE order_id = 9182 AND step = 2)"
        " FROM tenure.ledger",
    ),
)
HARM = (
    Proof(
        "inversion",
        "step 3 was done before step 2",
        "SELECT max(n) FILTER (WHERE step = 3) < max(n) FILTER (WHERE step = 2) FROM tenure.ledger"
        " WHERE order_id = 9182",
    ),
    Proof(
        "step_2_was_last",
        "step 2 was the last of all",
        "SELECT (array_agg(step ORDER BY n))[5] = 2 FROM tenure.ledger WHERE order_id = 9182",
    ),
)
