"""The shapes of the stage: what a drill, a stage and a row on it look like over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from ..drills.stage.scene import Drill, Scene


class StepsShape(msgspec.Struct, frozen=True):
    """A scene: what it shows, and the captions of its steps."""

    shows: str
    steps: list[str]


class DrillShape(msgspec.Struct, frozen=True):
    """A drill, and its control: the same drill without its guard."""

    name: str
    title: str
    story: str
    guard: str
    shows: str
    steps: list[str]
    control: StepsShape | None
    props: dict[str, Any]
    settable: list[str]
    cli: str


class DrillsShape(msgspec.Struct, frozen=True):
    """Every drill, and the limits of a stage."""

    drills: list[DrillShape]
    workers_max: int
    idle_seconds: float


class OpenedShape(msgspec.Struct, frozen=True):
    """A stage, and what plays on it."""

    id: str
    schema: str
    drill: str | None
    control: bool


class StageShape(OpenedShape, frozen=True):
    """A stage now."""

    playing: bool
    seconds: float
    picture: dict[str, Any]


class DoneShape(msgspec.Struct, frozen=True):
    """What was done."""

    done: str


class HeldShape(msgspec.Struct, frozen=True):
    """Who held a row, with which token, from when to when, and how it ended."""

    worker: str | None
    token: int
    claimed_at: datetime | None
    ended_at: datetime | None
    outcome: str


class ShownShape(msgspec.Struct, frozen=True):
    """A row of the stage as psql shows it, and its tape."""

    sql: str
    row: dict[str, str | None]
    tape: list[HeldShape]


def drill_shape(drill: Drill) -> DrillShape:
    """A drill of the book."""
    scene = drill.scene
    return DrillShape(
        name=scene.name,
        title=scene.title,
        story=scene.story,
        guard=drill.guard,
        shows=scene.shows,
        steps=_captions(scene),
        control=StepsShape(drill.control.shows, _captions(drill.control)) if drill.control else None,
        props=asdict(scene.props),
        settable=list(scene.settable),
        cli=f"tenure drill {scene.name}",
    )


def _captions(scene: Scene) -> list[str]:
    return [step.caption for step in scene.steps]
