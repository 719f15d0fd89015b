"""The plans that a server really used, functions included: auto_explain tells them as notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tenure import postgres
from tenure.verbs.statement import Statement
from world import World

_SETTINGS = (
    "log_min_duration = 0", "log_nested_statements = on", "log_level = notice", "log_format = json",
    "log_analyze = on", "log_timing = off", "log_buffers = on", "log_wal = on",
)  # fmt: skip


class Plans:
    """A connection of its own, as a worker has it, on which statements are run and their plans kept."""

    def __init__(self, world: World) -> None:
        self._world, self.conn = world, world.connect()
        try:
            self.conn.execute("LOAD 'auto_explain'")
        except psycopg.Error:
            pytest.skip("this server has no auto_explain")
        self.conn.prepare_threshold = 0  # as a worker that has run it a few times
        self._told: list[str] = []
        self.buffers = 0  # pages of tables and indexes that the last statement looked at
        self.logged = 0  # bytes that it wrote to the log of the server
        self.looks = 0.0  # at rows, of tables and of anything else, by all nodes of its plans
        self.conn.add_notice_handler(lambda notice: self._told.append(notice.message_primary or ""))
        for setting in _SETTINGS:
            self.conn.execute(f"SET auto_explain.{setting}".encode())

    def of(self, statement: Statement[Any], table: str = "live") -> set[str]:
        """How this statement reads a table: the indexes it takes, and "Seq Scan" or whatever it does without one."""
        self._told.clear()
        postgres.run(self.conn, statement, self._world.schema)
        plans = [json.loads(told[told.index("{") :]) for told in self._told if told.startswith("duration:")]
        assert plans
        self.buffers = max(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in plans)
        self.logged = max(plan["Plan"]["WAL Bytes"] for plan in plans)
        self.looks = sum(_looks(node) for plan in plans for node in _nodes(plan["Plan"]))
        reads = [node for plan in plans for node in _nodes(plan["Plan"]) if node.get("Relation Name") == table]
        return {node.get("Index Name", node["Node Type"]) for node in reads if node["Node Type"] != "ModifyTable"}


def _looks(node: dict[str, Any]) -> float:
    return float((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)
