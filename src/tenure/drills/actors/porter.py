"""A real worker on an address of several servers: each of its rows leaves one line, in a fenced transaction."""

from __future__ import annotations

from dataclasses import dataclass

from ... import events, sql
from ...app.inbox import Inbox
from ...app.job import Job
from ...worker.config import Terms
from ...worker.worker import Worker
from . import protocol
from .at_work import heed, work

WRITE = "INSERT INTO tenure.carried (row_id, worker, fence) VALUES (%s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a porter needs to know."""

    lease_seconds: float = 6.0


def main() -> None:
    """Work until told to stop."""
    part = protocol.part_of(Part)
    heed(lambda _: None)
    bus = events.Bus()
    bus.subscribe(_say)
    terms = Terms(
        part.url,
        schema=part.schema,
        slots=10,
        lease_seconds=part.lease_seconds,
        drain_seconds=3.0,
        poll_seconds=0.5,
        heartbeat_seconds=1.0,
        ttl_seconds=10.0,
        name=part.name,
    )
    work(Worker(_inbox(part), terms, bus))


def _inbox(part: Part) -> Inbox:
    inbox = Inbox(schema=part.schema)
    write = sql.in_schema(WRITE, part.schema).encode()

    @inbox.handler("carry")
    async def carry(job: Job, n: int) -> None:
        del n
        async with job.fenced() as tx:
            await tx.execute(write, [job.id, part.name, job.fence])

    return inbox


def _say(event: events.Event) -> None:
    """What tells of the database, and of trouble: not each row."""
    if event.news and event.level != "debug":
        protocol.say(event.fields())


if __name__ == "__main__":
    main()
