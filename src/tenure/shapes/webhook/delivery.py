"""A delivery: one row, one endpoint. Its call is signed anew each time; the log and the outcome commit together.

        5 failures in a row, or "slow down"
closed ───────────────────────────────────▶ open ──── its time is past ──▶ one probe
  ▲                                          ▲                                 │
  │                                          └──────────── fails ──────────────┤
  └───────────────────────────────── succeeds ─────────────────────────────────┘

The circuit is in the endpoint's row: all workers share it. What waits for the endpoint is postponed by one statement.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from uuid import UUID

from psycopg import Error

from ...app.codec import Codec
from ...app.job import Job
from ...app.lifespan import Host
from ...events import Bus, DeliveryMade, EndpointDisabled, EndpointRestored, EndpointTripped
from ...model.outcome import Fail, Outcome, Release, Retry, Snooze
from ...postgres.runner import run
from ...verbs.endpoints import Call, Verdict, begin_delivery, log_delivery
from ...verbs.operators import POSTPONED_MAX, postpone
from ...verbs.questions import clock
from .calling import Called, Caller
from .guard import ForbiddenUrl, Guard
from .sealing import open_body, open_sealed
from .signing import headers

SCHEDULE_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)  # after each failed attempt
ATTEMPTS = len(SCHEDULE_SECONDS) + 1
JITTER = 0.2
RETRY_AFTER_SECONDS_MAX = 86_400.0
SLOW_DOWN = (429, 502, 504)
SLOW_SECONDS = 30.0
PAUSED_SECONDS = 3600.0
CLOSE_SECONDS = 1.0


class Deliverer:
    """One for each worker: its pool of connections is opened before the first claim."""

    def __init__(self, guard: Guard, caller: Caller, queue: str, codec: Codec | None, bus: Bus) -> None:
        self.guard, self._caller, self._queue, self._codec, self._bus = guard, caller, queue, codec, bus
        self._host: Host | None = None

    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """The connections of this process."""
        self._host = host
        try:
            yield
        finally:
            with suppress(Exception):
                await asyncio.wait_for(self._caller.close(), CLOSE_SECONDS)

    async def deliver(self, job: Job, webhook: str, endpoint: str) -> Outcome | None:
        """Call the endpoint once, if it may be called now."""
        assert self._host is not None, "deliveries run in a worker"
        call = await self._host.run(begin_delivery(job.lease, UUID(webhook), UUID(endpoint)))
        if call is None:
            return Release("the lease is over")
        if call.outcome in ("gone", "disabled"):
            return Fail(f"the endpoint or the webhook is {call.outcome}: {call.note or 'set it active and redrive'}")
        if call.outcome != "go":
            paused = call.outcome == "paused"
            seconds = PAUSED_SECONDS if paused else float(call.wait_seconds or 0)
            await self._postpone(job.key, seconds=seconds)
            return Snooze(seconds, "the endpoint is paused" if paused else "the endpoint's circuit is open")
        called = await self._call(job, call, webhook, endpoint)
        return await self._settle(job, UUID(webhook), UUID(endpoint), called, call.moment)

    async def _call(self, job: Job, call: Call, webhook: str, endpoint: str) -> Called:
        assert call.url is not None
        assert call.secret is not None
        assert call.tenant is not None
        assert call.body is not None
        body = open_body(self._codec, bytes(call.body), call.tenant)
        kept = [each for each in (call.secret, call.secret_before) if each is not None]
        secrets = [open_sealed(self._codec, each, "secret", endpoint) for each in kept]
        sent = {**headers(secrets, webhook, int(call.moment), body), "content-type": "application/json"}
        try:
            target = self.guard.target(call.url)
        except ForbiddenUrl as error:
            return Called(None, 0, None, str(error))
        job.check()  # directly before it is sent: a lease that is lost sends nothing
        return await self._caller.post(target, {**sent, "user-agent": "tenure-webhooks"}, body)

    async def _settle(self, job: Job, webhook: UUID, endpoint: UUID, called: Called, moment: float) -> Outcome | None:
        """The log, the health of the endpoint, and of a success the completion, in one fenced transaction."""
        verdict = judged(called.status)
        asked = retry_after(called.retry_after, moment) if verdict == "failed" else 0.0
        slow = max(asked, SLOW_SECONDS) if called.status in SLOW_DOWN or asked else 0.0
        logged = log_delivery(
            job.lease,
            job.attempt,
            webhook,
            endpoint,
            status=called.status,
            ms=called.ms,
            address=called.address,
            note=called.note,
            verdict=verdict,
            slow_seconds=slow,
        )
        async with job.fenced(keep=verdict != "ok") as tx:
            change, open_until = await run(tx, logged, job.schema)
        error = f"answered {called.status}: {called.note}".removesuffix(": ") if called.status else called.note
        await self._tell(job, endpoint, called, change, open_until, error)
        if verdict == "ok":
            return None
        if verdict == "gone":
            return Fail("the endpoint said 410: it is disabled")
        opens = open_until.timestamp() - moment if open_until is not None else 0.0
        return Retry(error, max(asked, opens, after_seconds(job.attempt)))

    async def _tell(
        self, job: Job, endpoint: UUID, called: Called, change: str | None, open_until: datetime | None, error: str
    ) -> None:
        worker, who = job.lease.worker, str(endpoint)
        if self._bus.each_job:
            self._bus.emit(DeliveryMade(worker, job.id, job.token, who, called.status or 0, called.ms / 1000))
        if change == "tripped" and open_until is not None:
            self._bus.emit(EndpointTripped(worker, who, error))
            await self._postpone(job.key, until=open_until)
        elif change == "restored":
            self._bus.emit(EndpointRestored(worker, who))
        elif change == "disabled":
            self._bus.emit(EndpointDisabled(worker, who, error))

    async def _postpone(self, key: str, *, seconds: float = 0.0, until: datetime | None = None) -> None:
        """All that waits for the endpoint; one that is missed is put off by itself."""
        assert self._host is not None
        with suppress(Error):
            when = until or await self._host.run(clock()) + timedelta(seconds=seconds)
            while await self._host.run(postpone(self._queue, key, when)) >= POSTPONED_MAX:
                pass


def judged(status: int | None) -> Verdict:
    """2xx is done, 410 is an endpoint that is gone, all else failed: a redirect too."""
    if status is not None and 200 <= status < 300:
        return "ok"
    return "gone" if status == 410 else "failed"


def after_seconds(attempt: int) -> float:
    """How long to wait after this attempt."""
    planned = SCHEDULE_SECONDS[min(attempt, len(SCHEDULE_SECONDS)) - 1]
    return planned * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311


def retry_after(said: str | None, moment: float) -> float:
    """What an answer asked for, in seconds or as a date, up to a day; 0 if it did not."""
    if said is None:
        return 0.0
    try:
        seconds = float(said) if said.strip().isdigit() else parsedate_to_datetime(said).timestamp() - moment
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)
