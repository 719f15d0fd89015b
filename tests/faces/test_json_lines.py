"""`tenure worker --json`: every line of stderr is a JSON object, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crew import Process, processes
from faces.test_fleet_commands import tenure
from tenure.errors import BAD_SETTINGS
from world import World

pytestmark = pytest.mark.one_server


def _lines(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        assert line.startswith("{"), f"not JSON: {line!r}"
        found.append(json.loads(line))
    assert all({"at", "level"} <= set(each) for each in found)
    return found


@pytest.mark.parametrize(("kind", "who"), [("noisy", "thread"), ("far_noisy", "process")])
def test_what_libraries_say_is_json_too(world: World, tmp_path: Path, kind: str, who: str) -> None:
    worker = Process(world, "apps.noisy:inbox", tmp_path, "--health-port", "0", PYTHONWARNINGS="always")
    with processes(worker):
        world.enqueue(kind)
        worker.saw("job_completed")
        worker.end()
    found = _lines(worker.log.read_text())
    (pool,) = [each for each in found if each.get("logger") == "psycopg.pool"]
    assert (pool["level"], pool["message"]) == (
        "warning",
        f"error connecting in '{who}': connection refused\nis it there?",
    )
    assert [each for each in found if each.get("logger") == "py.warnings" and f"{who} is old" in each["message"]]
    (died,) = [each for each in found if "ZeroDivisionError" in each.get("traceback", "")]
    assert f"{who}-thread" in died["message"]
    assert [each for each in found if each.get("event") == "health_served" and each["url"].startswith("http://")]


@pytest.mark.parametrize("app", ["apps.naps:nothing", "apps.nowhere:inbox"])
def test_a_worker_that_does_not_start_says_so_in_json(world: World, app: str) -> None:
    refused = tenure(world, "worker", app, "--json")
    (line,) = _lines(refused.stderr)
    assert refused.returncode == BAD_SETTINGS
    assert (line["event"], line["level"], line["exit_code"]) == ("command_failed", "error", BAD_SETTINGS)
    assert app in line["error"]
