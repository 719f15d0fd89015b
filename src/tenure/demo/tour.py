"""The tour: five incidents in a busy shop, each played to its end, and proofs from the database."""

from __future__ import annotations

from typing import NamedTuple

from ..drills.stage.actor import DrillFailed
from ..drills.stage.acts import Act, Enqueue, Kill, Pause, Resume, Set, Start
from ..drills.stage.picture import bare
from ..drills.stage.scene import Event, Fact, Scene, Step, play
from ..drills.stage.shop_acts import Order
from ..drills.stage.stage import Stage
from ..drills.stage.verdict import Verdict
from .opening import PROPS
from .proofs import CRASH, PAUSE, POISON, TWICE, proofs, refused
from .show import Show
from .till import Till

SECONDS_MAX = 60.0  # for any event: long, because a busy machine must not make the tour fail
SLOWLY, AS_USUAL = Set(handler_seconds=4.0), Set(handler_seconds=PROPS.handler_seconds)
THREE = "SELECT count(*) = 3 FROM tenure.workers WHERE status = 'alive'"
HELD = "SELECT claimed_by FROM tenure.live WHERE status = 'processing' AND partition_key = %s"
SETTLED = "SELECT count(*) = 0 FROM tenure.live"


class OfHolder(Act, frozen=True):
    """Something done to the worker that holds this order's receipt."""

    order: Order

    def holder(self, stage: Stage) -> str:
        """Its name; DrillFailed if the receipt is finished already."""
        for (worker,) in stage.sql(HELD, f"order:{self.order}"):
            return str(bare(worker))
        raise DrillFailed(f"nobody holds order {self.order} any more: this machine is too busy, try again later")


class KillHolder(OfHolder, frozen=True):
    """SIGKILL."""

    def do(self, stage: Stage) -> None:
        """It is gone when this returns."""
        Kill(self.holder(stage)).do(stage)


class PauseHolder(OfHolder, frozen=True):
    """SIGSTOP."""

    def do(self, stage: Stage) -> None:
        """It stands still when this returns."""
        Pause(self.holder(stage)).do(stage)


class ResumePaused(Act, frozen=True):
    """SIGCONT, to the worker that was paused last."""

    def do(self, stage: Stage) -> None:
        """It goes on where it stood; when this returns, the refusal of its write is in the database."""
        Resume(stage.reported("worker_paused")[-1].fields["worker"]).do(stage)
        stage.until(lambda: refused(stage), "the refusal of its write", SECONDS_MAX)


class Chapter(NamedTuple):
    """One of the five incidents: its steps, and the order that it is about."""

    order: int
    name: str
    title: str
    steps: tuple[Step, ...]


def _event(name: str, **fields: object) -> Event:
    return Event(name, fields=fields, seconds_max=SECONDS_MAX)


def _receipt(order: int, token: int) -> Event:
    return _event("ledger_written", order=order, token=token)


def _in_the_middle(order: int) -> Step:
    return Step(
        f"The shop takes order {order}. A worker claims its receipt with token 1 and sends the e-mail.",
        (SLOWLY, Enqueue(order)),  # slowly: its holder must still be at work when it is killed or paused
        (_event("mail_sent", order=order),),
    )


CHAPTERS = (
    Chapter(
        CRASH,
        "crash",
        "A worker is killed in the middle of a receipt",
        (
            _in_the_middle(CRASH),
            Step(
                "That worker is killed. Another frees the row, claims it with token 2 and finishes it.",
                (KillHolder(CRASH), AS_USUAL),
                (_receipt(CRASH, 2),),
            ),
            Step(
                "An orchestrator would start another in its place; so does the tour.",
                (Start(),),
                (_event("ring_moved", workers=3),),
            ),
        ),
    ),
    Chapter(
        PAUSE,
        "pause",
        "A worker stands still past its lease, and comes back",
        (
            _in_the_middle(PAUSE),
            Step(
                "It stands still, as a virtual machine may. Its lease runs out, another finishes the row.",
                (PauseHolder(PAUSE), AS_USUAL),
                (_receipt(PAUSE, 2),),
            ),
            Step(
                "It goes on where it stood, and tries to write with token 1.",
                (ResumePaused(),),
                (_event("stale_write_blocked", stale_token=1),),
            ),
        ),
    ),
    Chapter(
        TWICE,
        "duplicate",
        "The shop sends the same order twice",
        (
            Step(
                "Both times with the same idempotency key.",
                (Enqueue(TWICE), Enqueue(TWICE)),
                (_event("enqueue_deduplicated", order=TWICE), _receipt(TWICE, 1)),
            ),
        ),
    ),
    Chapter(
        POISON,
        "poison",
        "A row that fails in every attempt",
        (
            Step(
                "Three attempts, with a pause before each next one; then it is a dead letter, and the shop goes on.",
                (Enqueue(POISON, "poison"),),
                (_event("job_dead_lettered"),),
            ),
        ),
    ),
    Chapter(
        0,
        "ring",
        "A worker joins",
        (
            Step("Three workers share 1024 buckets.", (), (Fact("a fleet of three", THREE, SECONDS_MAX),)),
            Step(
                "A fourth takes about a fourth of them; the others stay where they are.",
                (Start(),),
                (_event("ring_moved", workers=4),),
            ),
        ),
    ),
)


def tour(stage: Stage, till: Till, show: Show) -> Verdict:
    """Play the five incidents on a stage with busy workers; the till closes before the proofs are asked for."""
    try:
        for n, chapter in enumerate(CHAPTERS, 1):
            show.head(n, chapter.title, f"order:{chapter.order}")
            _play(stage, chapter)
        till.open = False
        stage.until_true(SETTLED, "the end of every row", SECONDS_MAX)
        checks = tuple(proof.check(stage) for proof in proofs(stage))
    except DrillFailed as failed:
        return Verdict("tour", "five proofs", (), stage.seconds, str(failed))
    return Verdict("tour", "five proofs", checks, stage.seconds)


def _play(stage: Stage, chapter: Chapter) -> None:
    played = play(stage, Scene(chapter.name, chapter.title, "", "", chapter.steps, ()))
    if played.trouble:
        raise DrillFailed(f"{chapter.name}: {played.trouble}")
