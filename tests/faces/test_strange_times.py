"""Rows whose time no calendar has, written by hand: commands, API and exports show them and all the others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import warm
from faces.web_tools import said, served
from guarantees.test_any_time import make
from world import World

pytestmark = pytest.mark.one_server

COMMANDS = [
    "rows -n 50",
    "rows --jsonl",
    "row ID",
    "why ID",
    "dead",
    "queues",
    "queues blocked",
    "doctor",
    "top --once",
]
COMMANDS += ["rows --json", "row ID --json", "why ID --json", "queues --json", "doctor --json", "top --once --json"]
PAGES = [
    "rows/count",
    "rows/statuses",
    "rows/export",
    "rows/export?format=csv",
    "overview",
    "queues",
    "blocked",
    "workers",
]


def _refused(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def test_every_command_shows_them(world: World) -> None:
    for n, id in enumerate(make(world)):
        for command in COMMANDS if n == 0 else ["row ID", "why ID", "row ID --json"] if n in (4, 8) else []:
            words = [str(id) if word == "ID" else word for word in command.split()]
            words += ["--database-url", world.url, "--schema", world.schema]
            answers = [warm.run(*words, env={"TZ": "UTC", "PATH": ""})]
            if command == "row ID":  # a zone is read when Python starts
                start = [sys.executable, "-m", "tenure", *words]
                for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
                    env = {"TZ": zone, "PATH": ""}
                    answers.append(subprocess.run(start, capture_output=True, text=True, timeout=120, env=env))
            for answer in answers:
                assert answer.returncode in ((0, 1) if "doctor" in command else (0,)), (command, answer.stderr)
                assert "Traceback" not in answer.stderr
                if "--json" in words:
                    json.loads(answer.stdout, parse_constant=_refused)


def test_every_page_shows_them(world: World) -> None:
    ids = list(make(world))
    with served(world) as web:
        assert len(said(web.get("/api/rows"))["rows"]) == len(ids)
        for id in ids:
            assert said(web.get(f"/api/rows/{id}"))["why"].startswith("It ")
        for page in PAGES:
            answer = web.get(f"/api/{page}")
            assert (answer.status_code, "Infinity" in answer.text) == (200, False), (page, answer.text)
        assert web.get("/metrics").status_code == 200
