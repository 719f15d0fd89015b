"""Acts on worker processes: start, pause, resume, kill, drain, and the words that a racer waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from ...errors import BadSettings
from ..actors.racer import Guard
from .act import Act, Name

if TYPE_CHECKING:
    from .stage import Stage


class Start(Act, frozen=True):
    """Start a worker process, under the next free name unless one is given."""

    worker: Name | None = None
    gated: bool = False  # its handlers wait for `answer`, not for a time

    def do(self, stage: Stage) -> None:
        """A process with a real worker."""
        stage.start(self.worker, gated=self.gated)


class Cast(Act, frozen=True):
    """Start a racer: a small worker whose guards can be removed one by one."""

    worker: Name
    guard: Guard = "fence"
    lease_seconds: Annotated[float, Meta(ge=0.05, le=60)] | None = None  # the stage's
    renews: bool = False
    claims_as: Name | None = None  # the name of another, as after a restart with a fixed name

    def do(self, stage: Stage) -> None:
        """It claims when it is told to `work`."""
        lease_seconds = self.lease_seconds or stage.props.lease_seconds
        part = {"guard": self.guard, "lease_seconds": lease_seconds, "renews": self.renews}
        stage.cast(self.worker, **part, claims_as=self.claims_as)


class OfWorker(Act, frozen=True):
    """An act on one worker process."""

    worker: Name


class Work(OfWorker, frozen=True):
    """Let a racer claim."""

    def do(self, stage: Stage) -> None:
        """Send `work`, once."""
        actor = stage.actor(self.worker)
        if actor.role != "racer" or "work" in actor.told:
            raise BadSettings(f"{actor.name} works already: only a racer waits for `work`, and only once")
        actor.tell("work")


class Answer(OfWorker, frozen=True):
    """Send the answer that its handler waits for; a stopped process reads it when it goes on."""

    def do(self, stage: Stage) -> None:
        """Send `answer`."""
        actor = stage.actor(self.worker)
        if actor.role == "racer" and "work" not in actor.told:
            raise BadSettings(f"{actor.name} waits for nothing yet: let it `work` first")
        if actor.state == "paused" and "answer" in actor.told:
            raise BadSettings(f"{actor.name} has its answer and is stopped: `resume` it, and it reads the answer")
        actor.tell("answer")


class Pause(OfWorker, frozen=True):
    """Stop a process in the middle of its work: SIGSTOP."""

    def do(self, stage: Stage) -> None:
        """It has stopped when this returns."""
        actor = stage.actor(self.worker)
        actor.pause()
        stage.say("drill", "worker_paused", worker=actor.name, signal="SIGSTOP", pid=actor.pid)


class Resume(OfWorker, frozen=True):
    """Let it go on where it stopped: SIGCONT."""

    def do(self, stage: Stage) -> None:
        """It does not notice the time in between."""
        actor = stage.actor(self.worker)
        stage.say("drill", "worker_resumed", worker=actor.name, signal="SIGCONT", pid=actor.pid)
        actor.resume()


class Kill(OfWorker, frozen=True):
    """Kill a process without warning: SIGKILL."""

    def do(self, stage: Stage) -> None:
        """It has ended when this returns."""
        actor = stage.actor(self.worker)
        stage.say("drill", "worker_killed", worker=actor.name, signal="SIGKILL", pid=actor.pid)
        actor.kill()


class Drain(OfWorker, frozen=True):
    """Ask a process to finish what it holds and leave: SIGTERM."""

    def do(self, stage: Stage) -> None:
        """The worker does the rest."""
        actor = stage.actor(self.worker)
        actor.drain()
        stage.say("drill", "worker_asked_to_drain", worker=actor.name, signal="SIGTERM", pid=actor.pid)
