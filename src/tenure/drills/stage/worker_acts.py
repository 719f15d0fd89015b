"""What is done to worker processes on a stage: start, pause, resume, kill, drain, and the words a racer waits for."""

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
