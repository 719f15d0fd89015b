"""What else the Drills page does: recordings without a server, the explorer, the tuner, and being readable."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faces.browser.conftest import Visit, faults, serious
from faces.browser.shop import TENURE, served
from faces.browser.stagehand import PLAYED_MS, Theatre, button, end, start, verdict_of
from faces.browser.stagehand import shop_as_theatre as shop_as_theatre
from faces.browser.stagehand import theatre_as_shop as theatre_as_shop

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect


def test_a_recording_is_saved_and_played_again_when_the_server_is_gone(
    visit: Visit, theatre: Theatre, tmp_path: Path
) -> None:
    file = tmp_path / "race.json"
    with served(theatre.world, "--drills") as url:
        page = start(visit, "lease-race", url=url, expect="ERR_")
        verdict_of(page)
        with page.expect_download() as saved:
            button(page, "Save recording").click()
        assert saved.value.suggested_filename == "tenure-lease-race.json"
        saved.value.save_as(file)
    expect(page.locator(".life")).to_have_text("Connection lost, retrying")
    page.get_by_label("Recording to open").set_input_files(file)
    moment = page.get_by_role("slider", name="Moment")
    expect(page.get_by_text("This is a recording: its buttons were pressed already.")).to_be_visible()
    moment.press("End")
    expect(verdict_of(page)).to_contain_text("5 of 5 assertions hold")
    expect(page.get_by_role("img", name=re.compile("then a stale write blocked"))).to_be_visible()
    moment.press("Home")
    expect(page.get_by_role("status", name="Verdict")).to_have_count(0)
    expect(page.get_by_text("No event yet.")).to_be_visible()
    button(page, "4×", "Recording").click()
    button(page, "Play", "Recording").click()
    verdict_of(page)
    button(page, "Close the recording").click()
    expect(page.get_by_role("navigation", name="Scenes")).to_be_visible()
    said = json.loads(file.read_text())["said"]
    assert {"picture", "step", "verdict", "stale_write_blocked"} <= {each["event"] for each in said}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "it is not JSON"),
        ("{}", "it has no list of events"),
        ('[{"at": 1, "who": "drill"}]', "entry 1 lacks at, who or event"),
        ('[{"at": 1, "who": "stage", "event": "picture", "rows": []}]', "or is a picture with parts missing"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_in_a_sentence(
    visit: Visit, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "notes.json").write_text(text)
    page = visit("drills")
    page.get_by_label("Recording to open").set_input_files(tmp_path / "notes.json")
    expect(page.get_by_role("alert")).to_contain_text("notes.json is not a recording")
    expect(page.get_by_role("alert")).to_contain_text(why)
    expect(page.get_by_role("navigation", name="Scenes")).to_be_visible()


def watch(visit: Visit, **options: Any) -> Any:
    """The recording that is shipped, held in the middle of its race."""
    page = visit("drills", **options)
    button(page, "Watch a recording").click()
    moment = page.get_by_role("slider", name="Moment")
    moment.fill(str(float(moment.get_attribute("max") or 0) * 0.6))
    return page


def test_everybody_can_read_it(visit: Visit) -> None:
    page = watch(visit)
    expect(page.get_by_text("holds order:9182 with token 1")).to_be_visible()
    assert faults(page) == []
    page.get_by_role("slider", name="Moment").press("End")
    verdict_of(page)
    assert faults(page) == []
    button(page, "Close the recording").click()
    for scene in ("crash", "free", "explore", "tune"):
        page.goto(f"{page.url.split('?')[0]}?scene={scene}")
        expect(page.get_by_role("button", name=re.compile("^(Play|Open a stage|Run)$"))).to_be_visible()
        assert faults(page) == []


@pytest.mark.parametrize("scene", ["crash&control=1", "lease-race", "explore", "tune"])
def test_what_is_copied_for_the_terminal_is_understood_there(visit: Visit, scene: str) -> None:
    page = visit(f"drills?scene={scene}")
    if scene == "lease-race":
        page.get_by_role("slider", name="Lease").fill("2")
    command = button(page, "Copy as CLI").get_attribute("title") or ""
    assert ("--control" in command, "--lease-seconds 2" in command) == ("control" in scene, scene == "lease-race")
    words = shlex.split(command)
    assert words[0] == "tenure"
    parsed = [*TENURE, *words[1:], "--help"]
    said = subprocess.run(parsed, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


def test_keys_lead_to_the_drills(visit: Visit) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name="Drills")).to_be_visible()


def test_the_explorer_says_which_guard_stopped_the_stale_write(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=explore")
    answer = page.get_by_role("status", name="What stopped it")
    for guard, said, written in [
        ("none", "Nothing stopped it", "worker-A with token 1, worker-B with token 2"),
        ("all (Tenure)", "Stopped by: all (Tenure)", "Written: worker-B with token 2"),
    ]:
        page.get_by_role("radio", name=guard).check()
        button(page, "Run").click()
        expect(answer).to_contain_text(said, timeout=PLAYED_MS)
        expect(answer).to_contain_text(written)
    runs = page.get_by_role("table").get_by_role("row")
    expect(runs).to_have_count(3)
    expect(runs.nth(1)).to_contain_text("all (Tenure)")
    expect(runs.nth(2)).to_contain_text("duplicate shown")
    expect(page.get_by_role("img", name=re.compile("then a stale write blocked"))).to_be_visible()
    assert serious(page) == []
    end(page, theatre)


def test_the_tuner_measures_and_names_the_bottleneck(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=tune")
    page.get_by_role("slider", name="Backlog").fill("60")
    page.get_by_role("slider", name="Run for").fill("2")
    button(page, "Run").click()
    expect(page.get_by_text("Bottleneck:")).to_be_visible(timeout=PLAYED_MS)
    expect(page.locator(".drill-neck")).not_to_be_empty()
    expect(page.get_by_text(re.compile(r"^60 rows in "))).to_be_visible()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
    expect(page.locator(".chart canvas")).to_be_visible()
    assert serious(page) == []
    end(page, theatre)
