"""The host of a stage: the thread that runs it, and the limits that end it.

Linux kills the processes of a stage when the thread that started them ends. So one thread does everything, and others
ask it.
"""

from __future__ import annotations

import atexit
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

import psycopg

from ..errors import NO, TenureError
from .explore import explained
from .plan import Plan, in_full
from .stage.actor import DrillFailed
from .stage.acts import AnyAct
from .stage.picture import picture
from .stage.record import Record
from .stage.said import Said
from .stage.scene import TROUBLE, Scene, in_a_line, play
from .stage.stage import Stage
from .stage.verdict import Verdict
from .tune import Tune, tune

STAGES_MAX = 2
IDLE_SECONDS = 300.0
LIFE_SECONDS = 600.0
LOOK_SECONDS = 0.25
END_SECONDS_MAX = 15.0
LAST_SECONDS_MAX = 4.0  # when the server ends: do not wait for a database that is stuck

Reason = Literal["asked", "idle", "time", "trouble"]
T = TypeVar("T")
_LOG = logging.getLogger("tenure.drills")


class NotNow(TenureError):
    """It cannot be done now; the text says when it can."""

    exit_code = NO


class _Enough(Exception):
    """The stage is to end."""


class Host:
    """One stage on its own thread; ask it from any thread, and `close` it from any thread or a signal handler."""

    def __init__(self, url: str, plan: Plan) -> None:
        self.id = secrets.token_hex(4)
        self.schema = f"tenure_drill_{self.id}"
        self.plan, self._scene = plan, plan.scene
        self.begun: Future[None] = Future()  # done when the stage is built; else the error
        self.begun.set_running_or_notify_cancel()
        self.playing = self._scene is not None or plan.tune is not None
        self.over = False
        self.left = ""  # how to drop the schema, if that failed
        self.picture: dict[str, Any] = {}
        self.record = Record()
        self._stage = Stage(url, self._keep, props=plan.setting, schema=self.schema)
        self._asked: queue.SimpleQueue[tuple[Callable[[Stage], Any], Future[Any]]] = queue.SimpleQueue()
        self._reason: Reason | None = None
        self._acted = self._looked = self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"stage {self.id}", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """How long it has been open."""
        return self._stage.seconds

    # -- called from any thread

    def do(self, act: AnyAct) -> Future[None]:
        """Do this act on the stage; refused while a scene plays."""
        return self.ask(lambda stage: self._act(stage, act))

    def ask(self, question: Callable[[Stage], T]) -> Future[T]:
        """The answer of this question, which runs on the stage's thread."""
        answer: Future[T] = Future()
        self._asked.put((question, answer))
        if self.over:
            self._turn_away()
        return answer

    def close(self) -> None:
        """Start to end; `join` waits for it."""
        self._reason = self._reason or "asked"
        self.record.wake()

    def join(self, seconds: float = END_SECONDS_MAX) -> bool:
        """Wait until its processes have ended and its schema is dropped; False if that takes longer."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    # -- on its thread

    def _run(self) -> None:
        error = ""
        try:
            with self._stage as stage:
                stage.build()
                stage.at_leisure = self._at_leisure
                self._look()
                self.begun.set_result(None)
                self._play(stage)
                while True:
                    stage.hear()
        except _Enough:
            pass
        except Exception as trouble:
            self._reason, error = "trouble", in_a_line(trouble)
            if not self.begun.done():
                self.begun.set_exception(trouble)
            elif not isinstance(trouble, TROUBLE):
                _LOG.error("a bug in Tenure: please report it with these lines", exc_info=trouble)
        self._end(error)

    def _end(self, error: str) -> None:
        why = {"reason": self._reason} | ({"error": error} if error else {})
        self._keep(Said(self.seconds, "stage", "stage_closed", why))
        self.over, self.playing = True, False
        self._turn_away()
        self.record.wake()

    def _turn_away(self) -> None:
        while True:
            try:
                _, answer = self._asked.get_nowait()
            except queue.Empty:
                return
            if answer.set_running_or_notify_cancel():
                answer.set_exception(NotNow("this stage has ended: open another"))

    def _at_leisure(self) -> None:
        """Called while the stage waits: end it if its time is up, answer questions, take a picture."""
        now = time.monotonic()
        if self._reason is None and now - self._began > LIFE_SECONDS:
            self._reason = "time"
        if self._reason is None and not self.playing and now - self._acted > IDLE_SECONDS:
            self._reason = "idle"
        if self._reason is not None:
            raise _Enough
        self._answer()
        if now - self._looked >= LOOK_SECONDS:
            self._look()

    def _answer(self) -> None:
        while True:
            try:
                question, answer = self._asked.get_nowait()
            except queue.Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question(self._stage))
            except Exception as error:
                answer.set_exception(error)

    def _act(self, stage: Stage, act: AnyAct) -> None:
        if self.playing:
            raise NotNow("a scene plays on this stage: act after its verdict, or open a stage without a drill")
        self._acted = time.monotonic()
        try:
            act.do(stage)
        except (psycopg.Error, OSError) as error:
            if not stage.conn.closed:
                stage.conn.rollback()
            raise DrillFailed(f"{act.__struct_config__.tag} could not be done: {in_a_line(error)}") from error
        self._look()

    def _look(self) -> None:
        """Take a picture, and keep it if something has changed."""
        self._looked = time.monotonic()
        seen = picture(self._stage)
        if seen != self.picture:
            self.picture = seen
            self._keep(Said(self.seconds, "stage", "picture", seen))

    # -- what is played

    def _play(self, stage: Stage) -> None:
        """Play the plan and report its result; after that the caller may act."""
        if self._scene is not None:
            event, fields = "verdict", self._verdict(stage, self._scene)
        elif self.plan.tune is not None:
            event, fields = "tuned", self._tuned(stage, self.plan.tune)
        else:
            return
        self._look()
        self.playing, self._acted = False, time.monotonic()
        stage.say("drill", event, **fields)

    def _verdict(self, stage: Stage, scene: Scene) -> dict[str, Any]:
        try:
            verdict = play(stage, scene, lambda: self._rest(stage))
            asked = None if verdict.trouble else self.plan.explore
            return {**in_full(verdict), **(explained(stage, asked) if asked else {})}
        except TROUBLE as trouble:
            return in_full(Verdict(scene.name, scene.shows, (), stage.seconds, in_a_line(trouble)))

    def _tuned(self, stage: Stage, asked: Tune) -> dict[str, Any]:
        try:
            return tune(stage, asked)
        except TROUBLE as trouble:
            return {"trouble": in_a_line(trouble)}

    def _rest(self, stage: Stage) -> None:
        """A pause between two steps for the reader; none where the reader set the times."""
        by = time.monotonic() + (self.plan.pace_seconds if self.plan.explore is None else 0.0)
        while time.monotonic() < by:
            stage.hear()

    def _keep(self, said: Said) -> None:
        if said.event == "schema_left":
            self.left = said.fields["remedy"]
        self.record.keep(said)


class Hosts:
    """The stages of one server: a few at a time; all end with it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._hosts: dict[str, Host] = {}
        self.closed = False
        self._told = False  # the schemas left behind have been logged
        atexit.register(self.end)  # for an app whose lifespan is not used

    def open(self, plan: Plan) -> Host:
        """Open a stage for this plan; NotNow if too many are open."""
        if self.closed:
            raise NotNow("the server is about to stop: try again in a moment")
        here = [host.id for host in self._hosts.values() if not host.over]
        if len(here) >= STAGES_MAX:
            raise NotNow(f"{STAGES_MAX} stages are open already ({', '.join(here)}): close one of them first")
        host, self._told = Host(self._url, plan), False
        self._hosts = {id: self._hosts[id] for id in here} | {host.id: host}
        return host

    def find(self, id: str) -> Host | None:
        """The stage with this id, while it is open."""
        host = self._hosts.get(id)
        return None if host is None or host.over else host

    def close(self) -> None:
        """Start to end all of them; call it from any thread or a signal handler."""
        self.closed = True
        for host in list(self._hosts.values()):
            host.close()

    def end(self) -> None:
        """End all stages: no process and no schema is left; a schema that could not be dropped is logged."""
        self.close()
        if self._told:  # this was done before
            return
        by = time.monotonic() + LAST_SECONDS_MAX
        left = [host.schema for host in self._hosts.values() if not host.join(by - time.monotonic()) or host.left]
        if left:
            self._told = True
            _LOG.warning("left behind in the database: %s; `DROP SCHEMA … CASCADE` removes each", ", ".join(left))
