"""What a stage is opened for: a drill, a run of the explorer or the tuner, or nothing, so that the caller acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..errors import BadSettings
from .explore import Explore
from .scenes.book import BOOK
from .stage.line_acts import LeaseSeconds, Seconds
from .stage.props import Props
from .stage.scene import Drill, Scene
from .stage.verdict import Verdict
from .tune import Tune

Name = Annotated[str, Meta(extra_json_schema={"enum": list(BOOK)})]


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """What the caller sets differently from the drill."""

    lease_seconds: LeaseSeconds | None = None
    handler_seconds: Seconds | None = None
    dedupe: bool | None = None


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """What to play, how slowly, and with which settings."""

    drill: Name | None = None
    control: bool = False
    pace_seconds: Annotated[float, Meta(ge=0, le=5)] = 0.0
    props: Setting = Setting()
    explore: Explore | None = None
    tune: Tune | None = None

    @property
    def scene(self) -> Scene | None:
        """The scene to play, None for the tuner and for free play; BadSettings for a wrong plan."""
        if sum(each is not None for each in (self.drill, self.explore, self.tune)) > 1:
            raise BadSettings("a stage has one plan: give drill, explore or tune, or none of them")
        if self.control and self.drill is None:
            raise BadSettings("control: true needs a drill: name one that has a control")
        if self.explore is not None:
            return self.explore.scene().with_props(**self._given)
        return self._of_book(self.drill).with_props(**self._given) if self.drill is not None else None

    @property
    def setting(self) -> Props:
        """The props of the stage: the scene's, with the caller's changes."""
        scene = self.scene
        return scene.props if scene else replace(Props(), **self._given)

    @property
    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in msgspec.structs.asdict(self.props).items() if value is not None}

    def _of_book(self, name: str) -> Scene:
        drill = drill_of(name)
        if drill.missing:
            raise BadSettings(f"drill {name!r} cannot be played here: {drill.missing}")
        scene = drill.control if self.control else drill.scene
        if scene is None:
            raise BadSettings(f"drill {name!r} has no control, because it takes no guard away: leave control out")
        return scene


def drill_of(name: str) -> Drill:
    """The drill with this name; BadSettings lists the names."""
    if name not in BOOK:
        raise BadSettings(f"there is no drill {name[:60]!r}: there are {', '.join(BOOK)}")
    return BOOK[name]()


def in_full(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its sentences, for the page."""
    checks = [{"name": each.name, "sentence": each.sentence, "ok": each.ok} for each in verdict.checks]
    return {**verdict.fields(), "checks": checks}
