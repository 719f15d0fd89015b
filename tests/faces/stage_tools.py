"""The stage for tests: open one over HTTP, act on it, read its events, and look for what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from crew import eventually
from faces.web_tools import Stream
from world import World


def opened(web: httpx.Client, **plan: Any) -> str:
    """The path of a new stage."""
    answer = web.post("/api/stage", json=plan)
    assert answer.status_code == 201, answer.text
    return f"/api/stage/{answer.json()['id']}"


def did(web: httpx.Client, stage: str, verb: str, **fields: Any) -> httpx.Response:
    """What came of an act."""
    return web.post(f"{stage}/do", json={"verb": verb, **fields})


class Log(Stream):
    """Everything said on a stage."""

    def __init__(self, web: httpx.Client, stage: str, last_id: str | None = None) -> None:
        super().__init__(web, last_id, path=f"{stage}/events")

    @property
    def said(self) -> list[dict[str, Any]]:
        """What was said so far."""
        return [event["data"] for event in self.of("said")]

    def heard(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first thing of this name and with these fields, once it was said."""
        return eventually(lambda: self._first(event, fields))

    def _first(self, event: str, fields: dict[str, Any]) -> dict[str, Any]:
        """It, or nothing yet."""
        return next((each for each in self.said if each["event"] == event and fields.items() <= each.items()), {})


def schemas(world: World) -> set[str]:
    """The throw-away schemas that are there."""
    return {name for (name,) in world.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenure\\_drill\\_%'")}


def alive(pid: int) -> bool:
    """True for a process that runs or is stopped; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids(web: httpx.Client, stage: str) -> list[int]:
    """The processes of a stage."""
    return [worker["pid"] for worker in web.get(stage).json()["picture"]["workers"]]
