"""Faults of 0.1.0 put back, each in a few lines, whatever the core is: the search must find every one of them again.

A claim that does not look at a row and a claim that finds it locked are the same to whoever waits. So a fault is a lock
on the rows that the old claim would have missed, taken on another connection while the claim runs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from properties.stepped_fleet import Run, Stage

_DEEP_KEYS = """
SELECT FROM live WHERE ordered AND status = 'pending' AND (queue, partition_key) IN (
  SELECT k.queue, k.partition_key FROM (
    SELECT DISTINCT ON (l.queue, l.partition_key) l.queue, l.partition_key,
           dense_rank() OVER (PARTITION BY l.queue, bucket(l.partition_key) ORDER BY l.partition_key) AS nth
    FROM live AS l WHERE l.ordered) AS k
  WHERE k.nth > 4)
FOR UPDATE SKIP LOCKED
"""
_BEHIND_OTHERS = """
SELECT FROM live WHERE status = 'pending' AND queue = %(queue)s AND id NOT IN (
  SELECT l.id FROM live AS l
  WHERE l.status = 'pending' AND l.queue = %(queue)s AND l.available_at <= statement_timestamp()
  ORDER BY l.priority DESC, l.available_at, l.seq LIMIT %(looks)s)
FOR UPDATE SKIP LOCKED
"""
_RATED = """
SELECT FROM live WHERE status = 'pending' AND queue IN (
  SELECT q.queue FROM queues AS q WHERE q.queue = %s AND q.rate_per_second IS NOT NULL)
FOR UPDATE SKIP LOCKED
"""
_BELOW_FLOOR = """
SELECT FROM live WHERE NOT ordered AND status = 'pending' AND available_at < to_timestamp(%s)
FOR UPDATE SKIP LOCKED
"""
_FIRST_LANES = """
SELECT queue, priority FROM (SELECT DISTINCT queue, priority FROM live) AS lanes ORDER BY priority DESC, queue LIMIT 8
"""
_OTHER_BUCKETS = "SELECT FROM heads WHERE bucket <> %s FOR UPDATE SKIP LOCKED"
_BRACKETS = str.maketrans("{}", "[]")
_OLDEST = """
SELECT extract(epoch FROM min(available_at))::float8 FROM live WHERE NOT ordered AND status = 'pending'
"""


class _Hide:
    """Lets claims run while they do not see the rows of a query."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._conn = stage, stage.connect()

    @contextlib.contextmanager
    def __call__(self, query: str, params: Any = None) -> Iterator[None]:
        self._conn.execute("BEGIN")
        self._conn.execute("SELECT set_config('test.now', %s, true)", (repr(self._stage.clock.database),))
        self._conn.execute(query.encode(), params)
        try:
            yield
        finally:
            self._conn.execute("ROLLBACK")


def deep_keys(stage: Stage) -> Callable[[Run], Run]:
    """D1: a scan of ordered keys ends after four keys of a bucket, and the next one begins at the same place."""

    hide = _Hide(stage)

    def through(run: Run) -> Run:
        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim_ordered":
                return run(conn, statement)
            with hide(_DEEP_KEYS):
                return run(conn, statement)

        return again

    return through


def remembered_clock(stage: Stage) -> Callable[[Run], Run]:
    """D4: a claim begins at a floor that was made of the database's time as it was at the last claim that gave rows."""

    hide = _Hide(stage)

    def through(run: Run) -> Run:
        ahead: list[float] = []

        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim":
                return run(conn, statement)
            ((oldest,),) = conn.execute(_OLDEST).fetchall()
            late = min(0.0, (oldest or stage.clock.database) - stage.clock.database)
            floor = stage.clock.at + ahead[0] + late - 1.0 if ahead else 0.0
            with hide(_BELOW_FLOOR, (floor,)):
                rows = run(conn, statement)
            if rows:
                ahead[:] = [stage.clock.ahead]
            return rows

        return again

    return through


def rate_of_the_old_time(stage: Stage) -> Callable[[Run], Run]:
    """D4 of a rate: after a step back it earns nothing until the time of its last start comes again."""
    hide = _Hide(stage)

    def through(run: Run) -> Run:
        last: dict[str, float] = {}

        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim_limited":
                return run(conn, statement)
            queue, now = statement.params["queue"], stage.clock.database
            with hide(_RATED, (queue if now < last.get(queue, now) else "",)):
                rows = run(conn, statement)
            if rows:
                last[queue] = now
            return rows

        return again

    return through


def board_of_all(stage: Stage) -> Callable[[Run], Run]:
    """D5: the board ends after so many lanes of the whole database (ten thousand then, eight here)."""

    def through(run: Run) -> Run:
        def again(conn: Any, statement: Any) -> Any:
            answer = run(conn, statement)
            if statement.name != "board":
                return answer
            first = set(conn.execute(_FIRST_LANES).fetchall())
            return [offer for offer in answer if (offer.queue, offer.priority) in first]

        return again

    return through


def full_keys_in_front(stage: Stage) -> Callable[[Run], Run]:
    """D8: a claim under limits looks at the first rows that are due (256 then, three here), whatever their keys."""
    return _first_rows_only(stage, lambda _: 3)


def locked_rows_in_front(stage: Stage) -> Callable[[Run], Run]:
    """D8 of locks: it looks at as many rows as it wants to take, and what somebody has locked is one of them."""
    return _first_rows_only(stage, lambda statement: int(statement.params["n"]))


def _first_rows_only(stage: Stage, looks: Callable[[Any], int]) -> Callable[[Run], Run]:
    hide = _Hide(stage)

    def through(run: Run) -> Run:
        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim_limited":
                return run(conn, statement)
            with hide(_BEHIND_OTHERS, {"queue": statement.params["queue"], "looks": looks(statement)}):
                return run(conn, statement)

        return again

    return through


def same_starts(stage: Stage) -> Callable[[Run], Run]:
    """D10: each claim begins share // 8 + 1 buckets after the last, which meets only some of them in many a share."""

    hide = _Hide(stage)

    def through(run: Run) -> Run:
        first = [0]

        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim_ordered" or statement.params["buckets"] is None:
                return run(conn, statement)
            ours = sorted(json.loads(statement.params["buckets"].translate(_BRACKETS)))
            first[0] = (first[0] + len(ours) // 8 + 1) % len(ours)
            with hide(_OTHER_BUCKETS, (ours[first[0]],)):
                return run(conn, statement)

        return again

    return through


def lost_arrivals(stage: Stage) -> Callable[[Run], Run]:
    """A claim that meets a key without rows forgets what has arrived in keys that somebody else has locked."""

    def through(run: Run) -> Run:
        def again(conn: Any, statement: Any) -> Any:
            if statement.name != "claim_ordered":
                return run(conn, statement)
            ((before,),) = conn.execute("SELECT count(*) FROM heads").fetchall()
            rows = run(conn, statement)
            ((after,),) = conn.execute("SELECT count(*) FROM heads").fetchall()
            if after < before:
                stage.world.sql("DELETE FROM arrivals WHERE id IN (SELECT id FROM arrivals FOR UPDATE SKIP LOCKED)")
            return rows

        return again

    return through


FAULTS: dict[str, Callable[[Stage], Callable[[Run], Run]]] = {
    "D1": deep_keys,
    "D4": remembered_clock,
    "D4 rate": rate_of_the_old_time,
    "D5": board_of_all,
    "D8": full_keys_in_front,
    "D8 locked": locked_rows_in_front,
    "lost arrivals": lost_arrivals,
}
