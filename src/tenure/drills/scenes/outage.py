"""The outage: the line to the database is cut under a worker that holds a row; nothing is lost, nothing done twice."""

from __future__ import annotations

from ..stage.acts import Answer, Cut, Enqueue, Heal, Orders, Start
from ..stage.props import Props
from ..stage.scene import Drill, Event, Fact, Proof, Scene, Step
from ..stage.stage import Stage
from .lease_race import EXPIRED

A = "worker-A"
STORY = (
    "worker-A holds a row when the line to its database is cut. It cannot renew its lease, so it gives the row up by"
    " its own clock, before anybody else can have it. When the line is whole again it goes on with what is there."
)


def outage() -> Drill:
    """The guard is the worker's own clock, which no setting turns off: there is no control."""
    props = Props(lease_seconds=2.0, handler_seconds=0.1)
    return Drill(Scene("outage", "The outage", STORY, "each once", STEPS, PROOFS, props))


STEPS = (
    Step(
        "worker-A claims a row, sends the e-mail, and is in the middle of it.",
        (Enqueue(), Start(A, gated=True)),
        (Event("mail_sent", A),),
    ),
    Step(
        "The line to the database is cut. worker-A gives its row up by its own clock: nobody has to tell it.",
        (Cut(),),
        (Event("database_unreachable", A), Event("lease_lost", A)),
    ),
    Step(
        "The shop has a line of its own and takes three orders meanwhile. The lease runs out.",
        (Orders(3),),
        (Fact("the lease has run out on the database's clock", EXPIRED),),
    ),
    Step(
        "The line is whole again. worker-A comes back by itself; its handler tries to write, too late, and is refused.",
        (Heal(), Answer(A)),
        (Event("database_back", A), Event("stale_write_blocked", A, {"stale_token": 1})),
    ),
    Step(
        "The row is claimed again with token 2, and everything that waited is done.",
        (),
        (Fact("nothing is left to do", "SELECT count(*) = 0 FROM tenure.live"),),
    ),
)


def _gave_up_by_itself(stage: Stage) -> bool:
    """It gave up before it could reach the database again, so nobody can have told it."""
    lost, back = stage.reported("lease_lost", A), stage.reported("database_back", A)
    return bool(lost and back) and lost[0].at < back[0].at


PROOFS = (
    Proof(
        "every_order_once",
        "four orders, one ledger entry each",
        "SELECT count(*) = 4 AND count(DISTINCT order_id) = 4 FROM tenure.ledger",
    ),
    Proof(
        "written_with_token_2",
        "the row that was held: written with token 2",
        "SELECT array_agg(token) = '{2}' FROM tenure.ledger WHERE order_id = 9182",
    ),
    Proof(
        "one_mail_each",
        "one e-mail each",
        "SELECT count(*) = 4 AND count(DISTINCT order_id) = 4 FROM tenure.mailbox",
    ),
    Proof("gave_up_by_itself", "worker-A gave it up before anybody told it", _gave_up_by_itself),
)
