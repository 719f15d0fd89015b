"""An application whose worker ends by SIGKILL at the point named in TENURE_TEST_CRASH; without it, it just works.

Two handlers with one effect each: `plain` writes it to the ledger on its own, `fenced` in the transaction that also
completes its row. Some points lie inside the worker: its own functions are wrapped, none is changed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection
from psycopg.waiting import Wait

from apps.ledger import note
from tenure.app import fence
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.worker import claimer

POINTS = ("after_claim", "before_effect", "after_effect", "during_commit", "after_complete")
FATAL = os.environ.get("TENURE_TEST_CRASH")

inbox = Inbox()


@inbox.handler("plain")
def plain(job: Job) -> None:
    """The effect is outside: it may happen again."""
    reach("before_effect")
    note("effect", job)
    reach("after_effect")


@inbox.handler("fenced")
async def fenced(job: Job) -> None:
    """The effect and the completion are one."""
    async with job.fenced() as tx:
        reach("before_effect")
        await tx.execute(f"INSERT INTO {job.schema}.receipts VALUES (%s, %s)".encode(), [job.id, job.token])
        reach("after_effect")
    reach("after_complete")


def reach(point: str) -> None:
    """Here the process ends, if this is the point."""
    if point == FATAL:
        os.kill(os.getpid(), signal.SIGKILL)


def before(point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with the point in front of it."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        reach(point)
        return function(*args, **kwargs)

    return wrapped


def sent(gen: Any) -> None:
    """Run a psycopg generator until all is sent and only the answer is missing; then the process ends."""
    wanted = next(gen)
    while wanted != Wait.R:
        wanted = gen.send(Wait.W)
    reach("during_commit")


def dies_asking(conn: Any, statement: Any, *rest: Any) -> Any:
    """In the place of the claimer's `run`: a completion is sent, its answer never read."""
    if statement.name == "complete":
        conn.wait = lambda gen, *_: sent(gen)  # on this connection alone: other threads have theirs
    return run(conn, statement, *(each for each in rest if isinstance(each, str)))


def dies_committing(settled: Any) -> None:
    """In the place of the fence's last check: the COMMIT that follows is sent, its answer never read."""

    async def wait(_self: Any, gen: Any, *_: Any, **__: Any) -> None:
        sent(gen)

    AsyncConnection.wait = wait  # type: ignore[assignment, method-assign]


run: Callable[..., Any] = claimer.run  # type: ignore[attr-defined]
if FATAL == "after_claim":
    claimer.Claimer._begin = before("after_claim", claimer.Claimer._begin)  # type: ignore[method-assign]
elif FATAL == "after_complete":
    claimer.Claimer._settled = before("after_complete", claimer.Claimer._settled)  # type: ignore[method-assign]
elif FATAL == "during_commit":
    claimer.run = claimer.run_both = dies_asking  # type: ignore[attr-defined, assignment]
    fence._require_applied = dies_committing
