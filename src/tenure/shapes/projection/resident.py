"""Resident rows: the shards of a projection as jobs of an inbox, held for as long as their worker lives."""

from __future__ import annotations

import time

from ...app.inbox import Inbox
from ...app.job import Job
from ...model.outcome import Outcome
from .driving import AsyncDriver, Driver
from .projection import Projection
from .rebuilding import SHADOW, Rebuild
from .shard import Shard
from .tailing import Tail

MAX_ATTEMPTS = 20  # crashes in a row without any progress


def register(projection: Projection, inbox: Inbox, tail: Tail) -> None:
    """A worker of this inbox makes sure of the rows when it starts, and then holds those that it claims."""
    inbox.at_start.append(projection.planned())

    def resident(job: Job, shard: int) -> Outcome:
        held = Shard(projection, shard, job, inbox.bus, time.monotonic)
        return Driver(projection, job, tail).drive(held.steps())

    async def resident_on_loop(job: Job, shard: int) -> Outcome:
        held = Shard(projection, shard, job, inbox.bus, time.monotonic)
        return await AsyncDriver(projection, job, tail).drive(held.steps())

    kind = kind_of(projection.name)
    handler = inbox.handler(kind, queue=projection.queue, max_attempts=MAX_ATTEMPTS, encrypt=False)
    handler(resident_on_loop if projection.awaited else resident)
    _register_rebuild(projection, inbox, tail)


def kind_of(name: str) -> str:
    """The kind of the rows of a projection."""
    return f"projection:{name}"


def _register_rebuild(projection: Projection, inbox: Inbox, tail: Tail) -> None:
    def rebuild(job: Job) -> Outcome:
        held = Rebuild(projection, SHADOW, job, inbox.bus, time.monotonic)
        return Driver(projection, job, tail).drive(held.steps())

    async def rebuild_on_loop(job: Job) -> Outcome:
        held = Rebuild(projection, SHADOW, job, inbox.bus, time.monotonic)
        return await AsyncDriver(projection, job, tail).drive(held.steps())

    kind = f"rebuild:{projection.name}"
    handler = inbox.handler(kind, queue=projection.queue, max_attempts=MAX_ATTEMPTS, encrypt=False)
    handler(rebuild_on_loop if projection.awaited else rebuild)
