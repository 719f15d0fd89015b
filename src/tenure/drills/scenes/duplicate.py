"""Sent twice, done once: the same order comes again and again, also at the same moment."""

from __future__ import annotations

from ..stage.acts import Crowd, Enqueue, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step

A = "worker-A"
STORY = (
    "A caller that hears no answer sends its order again; so does a proxy, a browser, a nervous customer. Four copies"
    " come at the same moment and a fifth one later. Their idempotency key makes them one row."
)


def duplicate() -> Drill:
    """With idempotency keys, and without."""
    return Drill(
        _scene(PROOFS, "one receipt", keyed=True), _scene(HARM, "duplicate shown", keyed=False), "idempotency keys"
    )


def _scene(proofs: tuple[Proof, ...], shows: str, *, keyed: bool) -> Scene:
    props = Props(handler_seconds=0.1, dedupe=keyed)
    settable = ("handler_seconds",)
    return Scene("duplicate", "Sent twice, done once", STORY, shows, _steps(keyed), proofs, props, settable=settable)


def _steps(keyed: bool) -> tuple[Step, ...]:
    again = "enqueue_deduplicated" if keyed else "enqueued"
    return (
        Step(
            "Four transactions enqueue the receipt of the same order at the same moment.",
            (Crowd(4, keyed=keyed),),
            (Event("enqueued", "shop"), Event(again, "shop")),
        ),
        Step(
            "The key is known: there is one row, and the others were told so."
            if keyed
            else "Without a key nobody can know that they are the same: there are four rows.",
            (),
            (Fact("one row", ONE_ROW) if keyed else Fact("four rows", "SELECT count(*) = 4 FROM tenure.inbox"),),
        ),
        Step("Later the same order comes once more.", (Enqueue(keyed=keyed),), (Event(again, "shop"),)),
        Step(
            "A worker sends the receipt." if keyed else "A worker does what it was told, five times.",
            (Start(A),),
            (Event("job_completed", A), Fact("nothing is left to do", "SELECT count(*) = 0 FROM tenure.live")),
        ),
    )


ONE_ROW = "SELECT count(*) = 1 FROM tenure.inbox"
PROOFS = (
    Proof("one_row", "one row", ONE_ROW),
    Proof("one_ledger_entry", "one ledger entry", "SELECT count(*) = 1 FROM tenure.ledger"),
    Proof("one_mail", "one e-mail", "SELECT count(*) = 1 FROM tenure.mailbox"),
    Proof(
        "four_were_told",
        "four callers were told that it is there",
        lambda stage: len(stage.reported("enqueue_deduplicated")) == 4,
    ),
)
HARM = (
    Proof("five_rows", "five rows for one order", "SELECT count(*) = 5 FROM tenure.inbox"),
    Proof("five_ledger_entries", "five ledger entries", "SELECT count(*) = 5 FROM tenure.ledger"),
    Proof("five_mails", "five e-mails", "SELECT count(*) = 5 FROM tenure.mailbox"),
)
