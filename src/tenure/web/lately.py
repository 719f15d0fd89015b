"""What happened lately by queue and by kind: backlog over time, failures, slow kinds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from .. import postgres
from ..verbs import history, lately, questions
from .answers import utc
from .route import Ask, Asked, Route


class LatelyAsked(Asked, frozen=True):
    """How far back."""

    seconds: Annotated[int, msgspec.Meta(ge=60, le=7 * 86_400)] = 3600


class BacklogShape(msgspec.Struct, frozen=True):
    """Rows of a queue that were due at each time of `at`, or at least so many; the empty name is all other queues."""

    queue: str
    due: list[int]
    more: list[bool]


class BacklogsShape(msgspec.Struct, frozen=True):
    """The backlog over time; left out are times at which no worker counted, and at which nothing was due again."""

    at: list[datetime]
    queues: list[BacklogShape]


class QueueLatelyShape(msgspec.Struct, frozen=True):
    """One queue: rows that wait now, attempts that ended in the period, and the share of them that raised."""

    queue: str
    due: int
    due_more: bool
    processing: int
    oldest_runnable_seconds: float | None
    completed: int
    retried: int
    failed: int
    dead_lettered: int
    failing: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None


class KindLatelyShape(msgspec.Struct, frozen=True):
    """One kind: rows that ended, how many of them badly, and how long their last attempt ran."""

    kind: str
    ended: int
    badly: int
    run_p50: float | None
    run_p95: float | None


class LatelyShape(msgspec.Struct, frozen=True):
    """The period by queue and by kind. Where many rows ended, kinds are those of rows sent since `kinds_since`."""

    seconds: int
    backlog: BacklogsShape
    queues: list[QueueLatelyShape]
    kinds: list[KindLatelyShape]
    kinds_since: datetime | None


async def told(ask: Ask[LatelyAsked, None]) -> LatelyShape:
    """The backlog over time, what each queue did, and the slowest kinds."""
    seconds, schema = ask.query.seconds, ask.site.store.schema
    async with ask.site.store.reading() as conn:
        waited = await postgres.run(
            conn, lately.backlogs(seconds=seconds, step_seconds=history.step_for(seconds)), schema
        )
        ended = await postgres.run(conn, lately.queues_lately(seconds), schema)
        depths = await postgres.run(conn, questions.queue_depths(), schema)
        lags = await postgres.run(conn, questions.queue_lags(), schema)
        found = await postgres.run(conn, lately.kinds_lately(seconds), schema)
    return LatelyShape(
        seconds,
        BacklogsShape(
            [utc(at) for at in waited.at],
            [BacklogShape(each.queue, list(each.due), list(each.more)) for each in waited.queues],
        ),
        _queues(ended, depths, lags),
        [KindLatelyShape(*each) for each in found.kinds],
        utc(found.since),
    )


def _queues(
    ended: list[lately.QueueLately], depths: list[questions.QueueDepth], lags: dict[str, float]
) -> list[QueueLatelyShape]:
    """Those with rows that wait or run first, the longest wait before all, then those that only ended some."""
    of = {each.queue: each for each in ended}
    now = {(each.queue, each.status): each for each in depths if each.status in ("pending", "processing")}
    names = sorted({*of, *(queue for queue, _ in now)}, key=lambda queue: (-lags.get(queue, -1.0), queue))
    return [_shape(name, of.get(name), now, lags) for name in names[: lately.NAMED_MAX]]


def _shape(
    name: str,
    did: lately.QueueLately | None,
    now: dict[tuple[str, str], questions.QueueDepth],
    lags: dict[str, float],
) -> QueueLatelyShape:
    due, held = now.get((name, "pending")), now.get((name, "processing"))
    return QueueLatelyShape(
        queue=name,
        due=due.rows if due else 0,
        due_more=bool(due and due.more),
        processing=held.rows if held else 0,
        oldest_runnable_seconds=lags.get(name),
        completed=did.completed if did else 0,
        retried=did.retried if did else 0,
        failed=did.failed if did else 0,
        dead_lettered=did.dead_lettered if did else 0,
        failing=did.failing if did else None,
        wait_p95=did.wait_p95 if did else None,
        run_p50=did.run_p50 if did else None,
        run_p95=did.run_p95 if did else None,
    )


ROUTES = (Route("GET", "/api/lately", "read", told, {200: LatelyShape}, LatelyAsked),)
