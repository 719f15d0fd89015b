"""A projection under a soak: per stream how many events, their sum, and how often one came out of order."""

from __future__ import annotations

import os
from typing import Any

import psycopg

from tenure.app.inbox import Inbox
from tenure.model.journal import Event
from tenure.shapes.projection import Journal

NAME = os.environ.get("TENURE_TEST_PROJECTION", "sums")
INTO = """
INSERT INTO sums AS s (stream, n, total, last, wrong) VALUES (%s, 1, %s, %s, 0)
ON CONFLICT (stream) DO UPDATE SET n = s.n + 1, total = s.total + EXCLUDED.total, last = EXCLUDED.last,
  wrong = s.wrong + (s.last + 1 <> EXCLUDED.last)::int
"""

inbox = Inbox()
journal = Journal(inbox)


@journal.projection(NAME, of=["order.*"], tables=["sums"], shards=3)
def sums(tx: psycopg.Connection[Any], event: Event) -> None:
    """One more event of its stream."""
    tx.execute(INTO, [event.stream, event.data["amount"], event.version])
