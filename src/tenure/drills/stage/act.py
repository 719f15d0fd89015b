"""What can be done on a stage: each act a value, the same for a scene, for a button of the page and for a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from ... import postgres, verbs
from ...errors import BadSettings
from ...model.rows import Enqueued, NewRow
from ...verbs import operators
from ..actors.racer import Guard
from ..actors.shop import CURE
from .crowd import at_once

if TYPE_CHECKING:
    from .stage import Stage

ORDER = 9182
TAKE = "INSERT INTO tenure.orders (id) VALUES (%s) ON CONFLICT DO NOTHING"
WAITING = """
SELECT id, extract(epoch FROM available_at - clock_timestamp())::float8 FROM tenure.live
WHERE status = 'pending' AND available_at > clock_timestamp() LIMIT 1000"""
Kind = Literal["send_receipt", "ship_order", "poison"]
Order = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=60)]
LeaseSeconds = Annotated[float, Meta(ge=1, le=60)]
Name = Annotated[str, Meta(pattern=r"^worker-[A-Z]$")]


class Act(Struct, tag_field="verb", tag=str.lower, frozen=True, forbid_unknown_fields=True):
    """One thing that is done; what it was is said on the stage, and what follows is the engine's to say."""

    def do(self, stage: Stage) -> None:
        """Do it now; DrillFailed or BadSettings say why it cannot be done."""
        raise NotImplementedError


class Enqueue(Act, frozen=True):
    """Take an order and enqueue its row in the order's own transaction; `keyed` sends its idempotency key along."""

    order: Order = ORDER
    kind: Kind = "send_receipt"
    keyed: bool = True
    ordered: bool = False
    step: Annotated[int, Meta(ge=0, le=100)] = 0
    fails: Annotated[int, Meta(ge=0, le=100)] = 0  # how many of its first attempts do

    def do(self, stage: Stage) -> None:
        """The order and its row commit together, or not at all."""
        with stage.conn.transaction():
            stage.sql(TAKE, self.order)
            answer = stage.run(verbs.enqueue(self.row))
        self.tell(stage, answer)

    def tell(self, stage: Stage, answer: Enqueued) -> None:
        """What became of it."""
        event = "enqueued" if answer.outcome == "enqueued" else "enqueue_deduplicated"
        more = {"step": self.step} if self.step else {}
        stage.say(
            "shop", event, key=f"order:{self.order}", job_id=str(answer.id), kind=self.kind, order=self.order, **more
        )

    @property
    def row(self) -> NewRow:
        """What it puts into the inbox."""
        payload = {"order_id": self.order}
        if self.kind == "ship_order":
            payload |= {"step": self.step, "fails": self.fails}
        return NewRow(
            self.kind,
            payload,
            key=f"order:{self.order}",
            idempotency_key=f"{self.kind}-{self.order}-{self.step}" if self.keyed else None,
            ordered=self.ordered,
            max_attempts=3 if self.kind == "poison" else 5,
        )


class Orders(Act, frozen=True):
    """Take several orders at once, each in a transaction of its own."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    first: Order = 1

    def do(self, stage: Stage) -> None:
        """One after the other, from the first number that is free."""
        ((taken,),) = stage.sql("SELECT COALESCE(max(id), 0) FROM tenure.orders WHERE id < %s", ORDER)
        first = max(self.first, taken + 1)
        for order in range(first, first + self.n):
            Enqueue(order).do(stage)
        stage.say("shop", "orders_taken", rows=self.n, first=first, last=first + self.n - 1)


class Crowd(Act, frozen=True):
    """The same order from several transactions at the same moment: callers who heard no answer and try again."""

    n: Annotated[int, Meta(ge=2, le=8)] = 4
    order: Order = ORDER
    keyed: bool = True

    def do(self, stage: Stage) -> None:
        """Each on a connection and a thread of its own, let go together."""
        stage.sql(TAKE, self.order)
        each = Enqueue(self.order, keyed=self.keyed)
        answers = at_once(self.n, stage.connect, lambda conn: postgres.run(conn, verbs.enqueue(each.row), stage.schema))
        for answer in sorted(answers, key=lambda answer: answer.outcome != "enqueued"):
            each.tell(stage, answer)


class Rollback(Act, frozen=True):
    """Take an order, enqueue its row, and roll the order back; `together` is the guard: both in one transaction."""

    order: Order = ORDER
    together: bool = True

    def do(self, stage: Stage) -> None:
        """The shop changes its mind after it has enqueued."""
        row = verbs.enqueue(Enqueue(self.order).row)
        stage.conn.execute("BEGIN")
        stage.sql("INSERT INTO tenure.orders (id) VALUES (%s)", self.order)
        if self.together:
            stage.run(row)
        stage.conn.execute("ROLLBACK")
        if not self.together:
            stage.run(row)  # as with a broker of its own: nobody can roll back what it was told
        stage.say("shop", "order_rolled_back", order=self.order, together=self.together)


class Start(Act, frozen=True):
    """Start a worker process, under the next free name unless one is given."""

    worker: Name | None = None
    gated: bool = False  # its handlers wait for `answer` instead of so many seconds

    def do(self, stage: Stage) -> None:
        """A process of the real worker."""
        stage.start(self.worker, gated=self.gated)


class Cast(Act, frozen=True):
    """Start a racer: a worker small enough to take its guards out one by one."""

    worker: Name
    guard: Guard = "fence"
    lease_seconds: Annotated[float, Meta(ge=0.05, le=60)] | None = None  # the stage's
    renews: bool = False
    claims_as: Name | None = None  # under another's name, as a process restarted with a fixed one does

    def do(self, stage: Stage) -> None:
        """It waits for its word before it claims."""
        lease_seconds = self.lease_seconds or stage.props.lease_seconds
        part = {"guard": self.guard, "lease_seconds": lease_seconds, "renews": self.renews}
        stage.cast(self.worker, **part, claims_as=self.claims_as)


class OfWorker(Act, frozen=True):
    """An act upon one worker process."""

    worker: Name


class Work(OfWorker, frozen=True):
    """Let a racer claim."""

    def do(self, stage: Stage) -> None:
        """Its word, given once."""
        actor = stage.actor(self.worker)
        if actor.role != "racer" or "work" in actor.told:
            raise BadSettings(f"{actor.name} is at work already: only a racer waits for its word, and once")
        actor.tell("work")


class Answer(OfWorker, frozen=True):
    """Let the world outside answer what its handler waits for; a process that stands still hears it later."""

    def do(self, stage: Stage) -> None:
        """Its word."""
        actor = stage.actor(self.worker)
        if actor.role == "racer" and "work" not in actor.told:
            raise BadSettings(f"{actor.name} waits for nothing yet: let it `work` first")
        if actor.state == "paused" and "answer" in actor.told:
            raise BadSettings(f"{actor.name} has its answer and stands still: `resume` it, and it will hear")
        actor.tell("answer")


class Pause(OfWorker, frozen=True):
    """Stop a process in the middle of whatever it does: SIGSTOP."""

    def do(self, stage: Stage) -> None:
        """It stands still when this returns."""
        actor = stage.actor(self.worker)
        actor.pause()
        stage.say("drill", "worker_paused", worker=actor.name, signal="SIGSTOP", pid=actor.pid)


class Resume(OfWorker, frozen=True):
    """Let it go on where it stood: SIGCONT."""

    def do(self, stage: Stage) -> None:
        """It knows nothing of the time between."""
        actor = stage.actor(self.worker)
        stage.say("drill", "worker_resumed", worker=actor.name, signal="SIGCONT", pid=actor.pid)
        actor.resume()


class Kill(OfWorker, frozen=True):
    """End a process without a word: SIGKILL."""

    def do(self, stage: Stage) -> None:
        """It is gone when this returns."""
        actor = stage.actor(self.worker)
        stage.say("drill", "worker_killed", worker=actor.name, signal="SIGKILL", pid=actor.pid)
        actor.kill()


class Drain(OfWorker, frozen=True):
    """Ask a process to finish what it holds and leave: SIGTERM."""

    def do(self, stage: Stage) -> None:
        """The rest is the worker's to do."""
        actor = stage.actor(self.worker)
        actor.drain()
        stage.say("drill", "worker_asked_to_drain", worker=actor.name, signal="SIGTERM", pid=actor.pid)


class Cut(Act, frozen=True):
    """Cut the line between the workers and the database."""

    def do(self, stage: Stage) -> None:
        """Every connection is reset, and no new one comes through."""
        stage.line.refuse()
        stage.line.cut()
        stage.say("drill", "database_cut")


class Heal(Act, frozen=True):
    """Let the workers reach the database again."""

    def do(self, stage: Stage) -> None:
        """Connections come through again."""
        stage.line.heal()
        stage.say("drill", "database_healed")


class Set(Act, frozen=True):
    """Change what the stage is set with; the lease counts for workers that are started from now on."""

    lease_seconds: LeaseSeconds | None = None
    handler_seconds: Seconds | None = None
    dedupe: bool | None = None

    def do(self, stage: Stage) -> None:
        """Handlers read it whenever they begin."""
        stage.set(lease_seconds=self.lease_seconds, handler_seconds=self.handler_seconds, dedupe=self.dedupe)


class SkipBackoff(Act, frozen=True, tag="skip_backoff"):
    """Let rows that wait for their next attempt run now: right for a drill, which has nothing to spare."""

    def do(self, stage: Stage) -> None:
        """As an operator does; said openly, with the seconds that were skipped."""
        waiting = dict(stage.sql(WAITING))
        if stage.run(operators.retry_now(list(waiting))):
            stage.say("drill", "backoff_skipped", seconds=round(max(waiting.values()), 1))


class Redrive(Act, frozen=True):
    """Bring every dead letter back with fresh attempts."""

    def do(self, stage: Stage) -> None:
        """As an operator does."""
        ids = [id for (id,) in stage.sql("SELECT id FROM tenure.dead LIMIT 1000")]
        stage.say("shop", "redriven", rows=len(stage.run(verbs.redrive(ids))))


class Cure(Act, frozen=True):
    """Mend what made orders poison."""

    def do(self, stage: Stage) -> None:
        """From now on its handler can do its work."""
        stage.sql(CURE)
        stage.say("shop", "poison_cured")


AnyAct = (
    Enqueue | Orders | Crowd | Rollback | Start | Cast | Work | Answer | Pause | Resume | Kill | Drain | Cut | Heal
    | Set | SkipBackoff | Redrive | Cure
)  # fmt: skip
