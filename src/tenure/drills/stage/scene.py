"""A scene: acts and expected events, step by step, and what they prove; for terminal, page and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psycopg

from ...errors import BadSettings, TenureError
from .act import Act
from .actor import DrillFailed
from .props import Props
from .said import Said
from .shop_acts import SkipBackoff
from .stage import EVENT_SECONDS_MAX, Stage
from .verdict import Check, Verdict

TROUBLE = (TenureError, psycopg.Error, OSError)  # errors a drill may run into; anything else is a bug


@dataclass(frozen=True, slots=True)
class Event:
    """An event that must happen after the step began: who reports it, and with which fields."""

    name: str
    who: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    seconds_max: float = EVENT_SECONDS_MAX

    def met_by(self, said: Said) -> bool:
        """Is this the event?"""
        return (
            said.event == self.name
            and self.who in (None, said.who)
            and all(said.fields.get(name) == value for name, value in self.fields.items())
        )

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.fields.items())])


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that must become true in the database: one value of SQL, written for the schema tenure."""

    words: str
    sql: str
    seconds_max: float = EVENT_SECONDS_MAX


@dataclass(frozen=True, slots=True)
class Step:
    """A caption, the acts, and what must happen before the next step."""

    caption: str
    do: tuple[Act, ...] = ()
    expect: tuple[Event | Fact, ...] = ()

    @property
    def watches(self) -> bool:
        """It starts nothing: what it waits for may have happened since the last step that did.

        A skipped backoff may have run out by itself, while the reader was reading.
        """
        return all(isinstance(act, SkipBackoff) for act in self.do)


@dataclass(frozen=True, slots=True)
class Proof:
    """What must be true at the end of the scene: a boolean of SQL, or a function of the stage."""

    name: str
    sentence: str
    holds: str | Callable[[Stage], bool]

    def check(self, stage: Stage) -> Check:
        """Ask the database, or the feed."""
        if isinstance(self.holds, str):
            ((ok,),) = stage.sql(self.holds)
        else:
            ok = self.holds(stage)
        return Check(self.name, self.sentence, bool(ok))


@dataclass(frozen=True, slots=True)
class Scene:
    """A drill: its steps and its proofs. `shows` is the verdict in two words."""

    name: str
    title: str
    story: str
    shows: str
    steps: tuple[Step, ...]
    proofs: tuple[Proof, ...]
    props: Props = field(default_factory=Props)
    crowd: bool = False  # too many rows for a line about each
    settable: tuple[str, ...] = ()  # the props a reader may set: captions and proofs are true with any value

    def with_props(self, **given: float | bool | None) -> Scene:
        """The same scene with the reader's props; BadSettings for a prop that it depends on."""
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in self.settable:
                can = f"set {' or '.join(self.settable)}, or nothing" if self.settable else "leave it out"
                raise BadSettings(f"{name} cannot be set in {self.name}, which depends on it: {can}")
        return replace(self, props=replace(self.props, **given))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Drill:
    """A scene and, if it needs a guard, its control: the same scene without the guard, which proves the harm."""

    scene: Scene
    control: Scene | None = None
    guard: str = ""  # the guard that the control lacks, in a few words
    missing: str = ""  # what this machine lacks, so that it cannot be played here


def play(stage: Stage, scene: Scene, between: Callable[[], None] = lambda: None) -> Verdict:
    """Play step by step to the verdict; `between` may pause for a reader."""
    began, checks, trouble, since, used = stage.seconds, tuple[Check, ...](), None, 0, list[Said]()
    try:
        for n, step in enumerate(scene.steps, 1):
            stage.say("drill", "step", step=n, of=len(scene.steps), caption=step.caption)
            if not step.watches:
                since = len(stage.log)
            _take(stage, step, since, used)
            between()
        checks = tuple(proof.check(stage) for proof in scene.proofs)
    except TROUBLE as befell:
        trouble = in_a_line(befell)
    return Verdict(scene.name, scene.shows, checks, stage.seconds - began, trouble)


def _take(stage: Stage, step: Step, since: int, used: list[Said]) -> None:
    """One step: events count from the since-th on, in any order, each for one expectation only."""
    for act in step.do:
        act.do(stage)
    for each in step.expect:
        if isinstance(each, Event):
            met_by = partial(_meets, each, used)
            used.append(stage.expect(str(each), each.who, met_by, since=since, seconds=each.seconds_max))
        else:
            stage.seen(each.sql, each.words, each.seconds_max)


def _meets(event: Event, used: list[Said], said: Said) -> bool:
    return event.met_by(said) and not any(said is each for each in used)


def perform(
    url: str, scene: Scene, tell: Callable[[Said], None], then: Callable[[Stage], None] = lambda _: None
) -> Verdict:
    """Play one scene on its own stage, and leave nothing behind; `then` may look at the stage before it ends.

    An error while the stage is built goes to the caller: no drill was played.
    """
    stage = Stage(url, tell, props=scene.props)
    verdict = None
    try:
        with stage:
            stage.build()
            verdict = play(stage, scene)
            if verdict.trouble is None:
                then(stage)
    except DrillFailed as failed:
        checks, first = (verdict.checks, verdict.trouble) if verdict else ((), None)
        return Verdict(scene.name, scene.shows, checks, stage.seconds, first or str(failed))
    return verdict


def in_a_line(trouble: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(trouble).split()) or type(trouble).__name__
