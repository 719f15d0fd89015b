"""Replay: events of the archive are published again, oldest first, each batch with its count in the audit."""

from __future__ import annotations

from dataclasses import replace as with_
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from ...model.filter import Filter
from ...operate import STEP, Actor, sealed
from ...postgres.runner import run
from ...verbs import operators, outboxes, search
from ...verbs.questions import clock

BATCH = 500
KIND = "outbox:*"


def narrowed(filter: Filter) -> Filter:
    """Completed events alone, of all outboxes unless the filter names one."""
    return with_(filter, statuses=("completed",), kind=filter.kind or KIND)


def matching(conn: Connection[Any], filter: Filter, schema: str) -> list[UUID]:
    """The events that match and can be replayed, the oldest first: originals, or a copy whose original is gone."""
    found, every = search.Ids([], None, 0, False), list[UUID]()
    while not found.done:
        found = run(conn, search.ids(narrowed(filter), before=found.next, n=STEP), schema)
        originals = run(conn, outboxes.originals(found.ids), schema)
        every += originals
    return sorted(every)


def _number(action: int, at: datetime) -> int:
    """Which replay it is: its second and its line of the audit, as no other has them, not even after a restore."""
    return int(at.timestamp()) * 1_000_000 + action % 1_000_000


def replay(
    conn: Connection[Any], ids: list[UUID], filter: Filter, actor: Actor, schema: str, reason: str = ""
) -> tuple[int, int]:
    """Publish these again; the number of the audit line, and how many were. Each batch commits by itself."""
    action = run(conn, operators.begin_audit(actor.name, actor.via, "replay", str(narrowed(filter)), reason), schema)
    n, changed = _number(action, run(conn, clock(), schema)), 0
    for first in range(0, len(ids), BATCH):
        with conn.transaction():
            done = len(run(conn, outboxes.replay(ids[first : first + BATCH], n), schema))
            run(conn, operators.mark(action, done, done=False), schema)
        changed += done
    run(conn, operators.mark(action, 0, done=True), schema)
    sealed(conn, schema)
    return action, changed
