"""A scene: what is done and what must be seen, step by step, and what that proves; for terminal, page and test."""

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

TROUBLE = (TenureError, psycopg.Error, OSError)  # what may befall a drill; anything else is a bug


@dataclass(frozen=True, slots=True)
class Event:
    """Something that must be said after the step began: by whom, and with which fields."""

    name: str
    who: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    seconds_max: float = EVENT_SECONDS_MAX

    def met_by(self, said: Said) -> bool:
        """Is this it?"""
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
    """A caption, what is done, and what is waited for before the next step."""

    caption: str
    do: tuple[Act, ...] = ()
    expect: tuple[Event | Fact, ...] = ()

    @property
    def watches(self) -> bool:
        """It sets nothing off: what it waits for may have come since the last step that did.

        A backoff that is skipped may have run out by itself, while a reader took their time.
        """
        return all(isinstance(act, SkipBackoff) for act in self.do)


@dataclass(frozen=True, slots=True)
class Proof:
    """What must hold when the scene is over: a boolean of SQL, or a question to the stage."""

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
    """A drill as a list: its steps, and its proofs. `shows` is the verdict in two words."""

    name: str
    title: str
    story: str
    shows: str
    steps: tuple[Step, ...]
    proofs: tuple[Proof, ...]
    props: Props = field(default_factory=Props)
    crowd: bool = False  # too many rows to tell of each in plain lines
    settable: tuple[str, ...] = ()  # the props a reader may set: its captions and proofs hold whatever they are

    def with_props(self, **given: float | bool | None) -> Scene:
        """The same with what its reader sets otherwise; BadSettings for what it rests on."""
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in self.settable:
                can = f"set {' or '.join(self.settable)}, or nothing" if self.settable else "leave it out"
                raise BadSettings(f"{name} is not to be set in {self.name}, which rests on its own: {can}")
        return replace(self, props=replace(self.props, **given))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Drill:
    """A scene and, where it rests on a guard, its control: the same scene without it, which holds when harm is done."""

    scene: Scene
    control: Scene | None = None
    guard: str = ""  # what the control goes without, in a few words


def play(stage: Stage, scene: Scene, between: Callable[[], None] = lambda: None) -> Verdict:
    """Step by step to the verdict; `between` may take its time for a reader."""
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
    """One step: an event counts from the since-th on, in whatever order they come, and for one expectation only."""
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
    """A stage of its own for one scene, and nothing of it left afterwards; `then` looks at what was played to its end.

    A stage that cannot be built is the caller's trouble: there was no drill.
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
    """What it says, whatever it is."""
    return " ".join(str(trouble).split()) or type(trouble).__name__
