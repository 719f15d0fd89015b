"""Drills over HTTP: the same verdicts as elsewhere, the explorer and the tuner."""

from __future__ import annotations

import pytest

from faces.stage_tools import Log, did, opened
from faces.web_tools import served
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage.scene import perform
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize(("name", "control"), [("receipt", False), ("lease-race", True)])
def test_a_drill_played_over_http_has_the_verdict_of_the_same_drill_played_alone(
    world: World, name: str, control: bool
) -> None:
    drill = BOOK[name]()
    scene = drill.control if control else drill.scene
    assert scene is not None
    with served(world, drills=True) as web:
        stage = opened(web, drill=name, control=control)
        log = Log(web, stage)
        assert did(web, stage, "start").status_code == 409
        alone = perform(world.url, scene, lambda _said: None)
        verdict = log.heard("verdict")
        assert verdict["ok"]
        for field in ("drill", "ok", "shown", "assertions"):
            assert verdict[field] == alone.fields()[field]
        assert [(each["name"], each["sentence"]) for each in verdict["checks"]] == [
            (check.name, check.sentence) for check in alone.checks
        ]
        steps = [(said["step"], said["of"], said["caption"]) for said in log.said if said["event"] == "step"]
        assert steps == [(n, len(scene.steps), step.caption) for n, step in enumerate(scene.steps, 1)]
        assert did(web, stage, "enqueue", order=1).status_code == 200  # the stage is its guest's now


def test_the_explorer_says_what_stopped_the_stale_write(world: World) -> None:
    with served(world, drills=True) as web:
        asked = {"lease_seconds": 0.3, "stall_seconds": 0.6}
        with_it, without = (Log(web, opened(web, explore={**asked, "guard": guard})) for guard in ("fence", "none"))
        verdict = with_it.heard("verdict")
        assert (verdict["ok"], verdict["stopped_by"]) == (True, "fence")
        assert verdict["explanation"].endswith(".")
        assert verdict["written"] == [{"worker": "worker-B", "token": 2}]
        assert without.heard("verdict")["stopped_by"] is None


def test_the_tuner_measures_and_names_what_held_it_up(world: World) -> None:
    with served(world, drills=True) as web:
        log = Log(web, opened(web, tune={"backlog": 20, "slots": 5, "handler_seconds": 0.01, "seconds": 10}))
        tuned = log.heard("tuned")
        assert (tuned["rows"], "trouble" in tuned) == (20, False)
        assert tuned["bottleneck"]
        assert tuned["explanation"].endswith(".")
