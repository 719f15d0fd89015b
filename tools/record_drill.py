"""Record a real run of a drill for the Drills page: `tools/record_drill.py lease-race FILE [URL]`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tenure.drills.plan import in_full
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage.picture import picture
from tenure.drills.stage.said import Said
from tenure.drills.stage.scene import Drill, Scene, play
from tenure.drills.stage.stage import Stage
from tenure.embedded import attach

LOOK_SECONDS = 0.1
PACE_SECONDS = 0.8  # a reader wants to see each step stand for a moment
LEASE_SECONDS = 3.0


class Recorder:
    """Keeps what a stage says, and takes a picture whenever something has changed."""

    def __init__(self, url: str, scene: Scene) -> None:
        self.said: list[dict[str, Any]] = []
        self.stage = Stage(url, self._keep, props=scene.props)
        self._seen: dict[str, Any] = {}
        self._looked = 0.0

    def _keep(self, said: Said) -> None:
        fields = {**said.fields, "at": round(said.at, 3), "who": said.who, "event": said.event}
        if "schema" not in said.fields:  # its name is of no use to whoever watches
            self.said.append(json.loads(json.dumps(fields, default=str)))

    def look(self) -> None:
        """A picture, not too often."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        seen = picture(self.stage)
        if seen != self._seen:
            self._seen = seen
            self.stage.say("stage", "picture", **seen)

    def rest(self) -> None:
        """Between two steps."""
        by = time.monotonic() + PACE_SECONDS
        while time.monotonic() < by:
            self.stage.hear()


def record(url: str, drill: Drill) -> dict[str, Any]:
    """Play it on a stage of its own; what was said, and what it is called."""
    scene = drill.scene
    scene = scene.with_props(lease_seconds=LEASE_SECONDS if "lease_seconds" in scene.settable else None)
    recorder = Recorder(url, scene)
    with recorder.stage as stage:
        stage.build()
        stage.at_leisure = recorder.look
        verdict = play(stage, scene, recorder.rest)
        recorder.rest()
        stage.say("drill", "verdict", **in_full(verdict))
    if not verdict.ok:
        sys.exit(f"{scene.name} did not hold: nothing is recorded")
    steps = [step.caption for step in scene.steps]
    about = {"drill": scene.name, "control": False, "title": scene.title, "story": scene.story}
    return {"recording": 1, **about, "steps": steps, "said": recorder.said}


def main() -> None:
    """Record one drill into a file."""
    name, file, *url = sys.argv[1:]
    if url:
        found = record(url[0], BOOK[name]())
    else:
        with attach(linger_seconds=0.1) as server:
            found = record(server.url, BOOK[name]())
    Path(file).write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{file}: {len(found['said'])} entries, {found['said'][-1]['at']} s")


if __name__ == "__main__":
    main()
