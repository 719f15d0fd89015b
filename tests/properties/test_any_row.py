"""Readers survive any row: every reading route and command, over the oddest values that the tables can hold."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import httpx
import pytest

import warm
from faces.web_tools import served
from slices import slice_of
from tenure.web import audit, dead, export, overview, queues, ring, rows, schedules, workers
from world import World

TIMES = ["infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "2026-01-01 00:00:00+00"]
TEXTS = ["", " ", "k" * 100_000, "\x1b[2J\u202e\n\t", "ü", "💥" * 300, "'; DROP TABLE live; --", "<b>", "..", "%2f"]
LONGS = [0, 1, -1, 2**63 - 1, -(2**63)]
TOKENS = [0, 1, 2**62]  # what the table of waiting rows takes
INTS = [0, 1, -1, 2**31 - 1, -(2**31)]
SHORTS = [0, -(2**15), 2**15 - 1]
DEEP = ["[" * 1500 + "]" * 1500, '{"a":' * 900 + "1" + "}" * 900]
JSONS = [
    "{}",
    "null",
    "7",
    '"x"',
    "[]",
    "[[[1]]]",
    "true",
    '{"a": null}',
    '{"": ""}',
    *DEEP,
    "9" * 6000,
    "1e-9000",
    "-0.0",
]
JSONS += [json.dumps("x" * 200_000), json.dumps({"a\x1b": "\u202e\x7f"}), json.dumps(list(range(3000)))]
COLUMNS: dict[str, list[Any]] = {
    "created_at": TIMES, "available_at": TIMES, "lease_generation": TOKENS, "fence_token": LONGS, "attempts": INTS,
    "max_attempts": INTS, "priority": SHORTS, "ordered": [True, False], "kind": TEXTS, "queue": TEXTS[:4] + TEXTS[6:],
    "partition_key": [None, *TEXTS[:2], *TEXTS[3:]], "payload": JSONS, "last_error": [None, *TEXTS],
    "idempotency_key": [None, *TEXTS], "headers": [None, *JSONS],
}  # fmt: skip
CLAIM: dict[str, list[Any]] = {"claimed_at": TIMES, "lease_expires_at": TIMES, "claim_id": LONGS, "claimed_by": TEXTS}
METADATA: list[Any] = [
    {}, [], None, 7, {"queues": [None, 1]},
    {"queues": 7, "kinds": "x", "slots": [], "slots_used": {}, "version": None, "host": 7, "pid": "x"},
    {"queues": {"a": 1}, "kinds": {}, "slots": "9e999", "slots_used": None, "weights": [], "buckets": "all"},
]  # fmt: skip

READING = [
    route.path
    for room in (audit, dead, export, overview, queues, ring, rows, schedules, workers)
    for route in room.ROUTES
    if route.method == "GET" and "{" not in route.path
]
COMMANDS = [
    "rows", "rows --jsonl", "rows --json", "dead", "dead --json", "queues", "queues --json", "queues blocked",
    "workers", "ring", "schedules", "audit", "top --once", "top --once --json", "doctor", "workers --json",
]  # fmt: skip
OF_A_ROW = ["row ID", "row ID --json", "why ID", "why ID --json"]


class Odd:
    """Odd rows in every table where one can stand."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._chance = world, Random(seed)
        self.ids: list[str] = []

    def fill(self) -> None:
        """A row in every state, its attempts, a worker, a schedule and a line of the audit."""
        one, ended = self._chance.choice, self._chance.choice(TIMES)
        by = one(TEXTS)
        past = {"claimed_at": one(TIMES), "finished_by": by}
        self._put("live", self._drawn(COLUMNS))
        self._put("live", {**self._drawn(COLUMNS), **self._drawn(CLAIM), "status": "processing"})
        bad = {"status": one(["failed", "dead_letter", "cancelled"]), "seq": one(LONGS), "hold": True, "blocks": True}
        self._put("dead", {**self._drawn(COLUMNS), **past, **bad, "finished_at": ended})
        self._put("archive", {**self._drawn(COLUMNS), **past, "completed_at": ended})
        for id in self.ids:
            taken = {"row_id": id, "fence_token": one(LONGS), "lease_generation": one(LONGS), "worker": by}
            times = {"claimed_at": one(TIMES), "ended_at": ended}
            self._insert("attempts", {**taken, **times, "outcome": "expired", "error": one(TEXTS)})
        seen = {"last_seen_at": one(TIMES), "started_at": ended, "status": one(["alive", "draining", "dead"])}
        self._insert("workers", {"id": by, **seen, "metadata": json.dumps(one(METADATA))})
        when = {"cron": one(TEXTS), "zone": one([*TEXTS[:2], "Mars/Olympus"]), "next_at": ended, "misfire": "once"}
        what = {"kind": by, "payload": one(JSONS), "queue": by, "priority": one(SHORTS), "max_attempts": one(INTS)}
        self._insert("schedules", {"name": by, **when, **what, "ordered": True})
        texts = dict.fromkeys(("actor", "via", "verb", "target", "reason"), by)
        self._insert("audit", {"at": ended, **texts, "rows": one(LONGS)})

    def _drawn(self, columns: dict[str, list[Any]]) -> dict[str, Any]:
        return {name: self._chance.choice(values) for name, values in columns.items()}

    def _put(self, table: str, row: dict[str, Any]) -> None:
        id = str(self._world.sql("SELECT new_id()")[0][0])
        self._insert(table, {"id": id, **row})
        self.ids.append(id)

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join(["%s"] * len(row))
        self._world.sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())


def _wrong_over_http(web: httpx.Client, ids: list[str]) -> dict[str, str]:
    asked = [*READING, *(f"/api/rows/{id}" for id in ids), "/api/rows/export?format=csv", "/metrics"]
    wrong = {}
    for path in asked:
        answer = web.get(path)
        if answer.status_code != 200 or "Infinity" in answer.text or "NaN" in answer.text:
            wrong[path] = f"{answer.status_code} {answer.text[:300]}"
    return wrong


def _wrong_at_the_terminal(world: World, commands: list[str]) -> dict[str, str]:
    wrong = {}
    for command in commands:
        answer = warm.run(*command.split(), "--database-url", world.url, "--schema", world.schema)
        if "Traceback" in answer.stderr or answer.returncode not in (0, 1) or "Infinity" in answer.stdout:
            wrong[command] = answer.stderr[-700:] or answer.stdout[:300]
    return wrong


@pytest.mark.parametrize("seed", slice_of(range(30), (0, 1, 2, 4, 7)))
def test_every_reading_route_and_command_answers(world: World, seed: int) -> None:
    odd = Odd(world, seed)
    with world.unguarded():
        odd.fill()
    with served(world) as web:
        wrong = _wrong_over_http(web, odd.ids)
    commands = COMMANDS + [command.replace("ID", id) for id in odd.ids for command in OF_A_ROW]
    assert wrong | _wrong_at_the_terminal(world, commands) == {}
