"""A small worker in its own process, which a drill can stop in the middle of a job.

It obeys the words on stdin, one a line, and reports on stdout, one JSON object a line. It exits when stdin ends.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from psycopg import Connection, Rollback

from ... import postgres, sql, verbs
from ...app.fence import fenced
from ...errors import StaleFence, StaleLease
from ...events import (
    ExecutionStarted,
    JobCompleted,
    LeaseAcquired,
    LeaseLost,
    LeasesRenewed,
    LeasesSwept,
    StaleWriteBlocked,
    WorkerExit,
)
from ...model.rows import Claimed
from ...verbs.statement import Statement
from . import protocol, shop
from .protocol import hear, say

CLAIM_SECONDS_MAX = 30.0
POLL_SECONDS = 0.01

# What a racer checks before its write counts. `fence` is what Tenure checks; the others check only a part of it.
Guard = Literal["none", "owner", "generation", "lease_time", "downstream", "fence"]

# How the row ends, in the transaction of the write. With a guard, no deleted row means that the write is rolled back.
FINISH: dict[Guard, str] = {
    "none": "DELETE FROM tenure.live WHERE id = %(id)s",
    "owner": "DELETE FROM tenure.live WHERE id = %(id)s AND claimed_by = %(worker)s",
    "generation": "DELETE FROM tenure.live"
    " WHERE id = %(id)s AND claimed_by = %(worker)s AND lease_generation = %(generation)s",
    "lease_time": "DELETE FROM tenure.live WHERE id = %(id)s AND lease_expires_at > clock_timestamp()",
    "downstream": "DELETE FROM tenure.live WHERE id = %(id)s",
}
UNASKED = ("none", "downstream")  # these accept that there was no row to delete

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a racer needs to know."""

    lease_seconds: float = 1.0
    guard: Guard = "fence"
    renews: bool = False
    claims_as: str | None = None  # the name of another, as after a restart with a fixed name


def main() -> None:
    """Play the part from the first line."""
    part = protocol.part_of(Part)
    with _connected(part) as conn, _connected(part) as keeping:
        hear("work")
        Racer(part, conn, keeping).work()


def _connected(part: Part) -> Connection[Any]:
    return postgres.connect(part.url, application_name=f"tenure drill {part.name}")


class Racer:
    """Claims one row and runs it to its end; its last write passes the guard of its part."""

    def __init__(self, part: Part, conn: Connection[Any], keeping: Connection[Any]) -> None:
        self._part, self._conn, self._keeping = part, conn, keeping
        self._worker = part.claims_as or part.name

    def work(self) -> None:
        """One job: claim, start, wait for an answer from outside, write."""
        job = self._claim()
        token = job.lease.generation
        say(LeaseAcquired(self._part.name, job.id, token).fields())
        say(ExecutionStarted(self._part.name, job.id, token).fields())
        with self._kept(job):
            hear("answer")  # like a handler in a slow call: here the drill stops the process
        try:
            self._write(job)
        except StaleLease as stale:
            say(StaleWriteBlocked(self._part.name, job.id, token, stale.current, stale.reason, stale.verb).fields())
            say(WorkerExit(self._part.name, "stale").fields())
        else:
            say({"event": "ledger_written", "worker": self._part.name, "job_id": job.id, "token": token})
            say(JobCompleted(self._part.name, job.id, token).fields())
            say(WorkerExit(self._part.name, "success").fields())

    def _claim(self) -> Claimed:
        """Claim until there is a row; sweep when there is none, as every worker does."""
        deadline = time.monotonic() + CLAIM_SECONDS_MAX
        while time.monotonic() < deadline:
            for job in self._run(verbs.claim(self._worker, 1, lease_seconds=self._part.lease_seconds)):
                return job
            if swept := self._run(verbs.sweep()):
                say(LeasesSwept(self._part.name, len(swept)).fields())
            time.sleep(POLL_SECONDS)
        sys.exit(f"no row could be claimed within {CLAIM_SECONDS_MAX:.0f} s")

    @contextmanager
    def _kept(self, job: Claimed) -> Iterator[None]:
        """Renew its lease in the background, if its part says so."""
        over = threading.Event()
        thread = threading.Thread(target=self._keep, args=[job, over], daemon=True)
        if self._part.renews:
            thread.start()
        yield
        over.set()
        if self._part.renews:
            thread.join()

    def _keep(self, job: Claimed, over: threading.Event) -> None:
        """Renew each third of the lease. A lost lease is only reported: a thread in a call cannot be stopped."""
        while not over.wait(self._part.lease_seconds / 3):
            renew = verbs.renew([job.lease], lease_seconds=self._part.lease_seconds)
            if postgres.run(self._keeping, renew, self._part.schema).lost:
                say(LeaseLost(self._part.name, job.id, job.generation, "lease_expired").fields())
                return
            say(LeasesRenewed(self._part.name, 1).fields())

    def _write(self, job: Claimed) -> None:
        if self._part.guard == "fence":
            with fenced(self._conn, job.lease, schema=self._part.schema) as tx:
                self._write_ledger(tx, job)
        elif not self._written(job):
            raise StaleLease(job.lease, "complete", *self._why(job))

    def _written(self, job: Claimed) -> bool:
        """The write and the end of the row in one transaction, with one guard; False if it was rolled back."""
        guard, named = self._part.guard, {"id": job.id, "worker": self._worker, "generation": job.generation}
        with self._conn.transaction() as both:
            if guard == "downstream":
                self._admit(job)
            self._write_ledger(self._conn, job)
            finished = self._conn.execute(self._sql(FINISH[guard]), named).rowcount
            if not finished and guard not in UNASKED:
                raise Rollback(both)
            return True
        return False

    def _admit(self, job: Claimed) -> None:
        """As a ledger in another store would do it: it knows no leases, only the newest fence that wrote."""
        try:
            self._run(verbs.fence(f"ledger of {job.partition_key}", job.fence))
        except StaleFence as stale:
            raise StaleLease(job.lease, "fence", "newer_token_wrote") from stale

    def _why(self, job: Claimed) -> tuple[str, int | None]:
        """The row's state now, and its token."""
        try:
            self._run(verbs.holding(job.lease))
        except StaleLease as stale:
            return stale.reason, stale.current
        return "guard_refused", job.generation

    def _write_ledger(self, conn: Connection[Any], job: Claimed) -> None:
        order = job.decode()["order_id"]
        conn.execute(self._sql(shop.WRITE), [order, 0, job.id, self._part.name, job.lease.generation])

    def _run(self, statement: Statement[T]) -> T:
        return postgres.run(self._conn, statement, self._part.schema)

    def _sql(self, text: str) -> bytes:
        return sql.in_schema(text, self._part.schema).encode()


if __name__ == "__main__":
    main()
