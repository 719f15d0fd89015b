"""A worker in a process of its own, small enough to read at a glance, so that a drill can stop it in mid-job.

It does what it is told on stdin, a word a line, and says what happened on stdout, a JSON object a line. The end of
stdin is the end of the process.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg import Connection

from .. import db, sql, verbs
from ..errors import StaleLease
from ..events import Event, ExecutionStarted, JobCompleted, LeaseAcquired, LeasesSwept, StaleWriteBlocked, WorkerExit
from ..fence import fenced
from ..model import Claimed
from ..statement import Statement

CLAIM_SECONDS_MAX = 30.0
POLL_SECONDS = 0.01
LEDGER = "INSERT INTO tenure.ledger (job_id, worker, token) VALUES (%s, %s, %s)"
FORGET = "DELETE FROM tenure.live WHERE id = %s"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """What a racer has to know; it comes over stdin, because a URL may hold a password and arguments are public."""

    name: str
    url: str
    schema: str
    lease_seconds: float
    fenced: bool


def main() -> None:
    """Play the part that the first line gives."""
    _die_with_the_drill()
    part = Part(**json.loads(_hear()))
    with db.connect(part.url, application_name=f"tenure drill {part.name}") as conn:
        _hear("work")
        Racer(part, conn).work()


class Racer:
    """Claims one row and carries it to its end, with the fence or, as the control, without."""

    def __init__(self, part: Part, conn: Connection[Any]) -> None:
        self._part, self._conn = part, conn

    def work(self) -> None:
        """One job: claim, start, wait for the world outside, write."""
        job = self._claim()
        token = job.lease.generation
        _say(LeaseAcquired(self._part.name, job.id, token))
        _say(ExecutionStarted(self._part.name, job.id, token))
        _hear("answer")  # a handler in the middle of a slow call: here the drill stops the process
        try:
            self._write_fenced(job) if self._part.fenced else self._write_unfenced(job)
        except StaleLease as stale:
            _say(StaleWriteBlocked(self._part.name, job.id, token, stale.current, stale.reason))
            _say(WorkerExit(self._part.name, "stale"))
        else:
            _print({"event": "ledger_written", "worker": self._part.name, "job_id": job.id, "token": token})
            _say(JobCompleted(self._part.name, job.id, token))
            _say(WorkerExit(self._part.name, "success"))

    def _claim(self) -> Claimed:
        """Ask until there is a row; sweep whenever there is none, as every worker does."""
        deadline = time.monotonic() + CLAIM_SECONDS_MAX
        while time.monotonic() < deadline:
            for job in self._run(verbs.claim(self._part.name, 1, lease_seconds=self._part.lease_seconds)):
                return job
            if swept := self._run(verbs.sweep()):
                _say(LeasesSwept(self._part.name, len(swept)))
            time.sleep(POLL_SECONDS)
        sys.exit(f"no row could be claimed within {CLAIM_SECONDS_MAX:.0f} s")

    def _write_fenced(self, job: Claimed) -> None:
        with fenced(self._conn, job.lease, schema=self._part.schema) as tx:
            tx.execute(self._sql(LEDGER), [job.id, self._part.name, job.lease.generation])

    def _write_unfenced(self, job: Claimed) -> None:
        """As a queue without tokens does it: write the effect, then finish the row by its id, whoever holds it."""
        self._conn.execute(self._sql(LEDGER), [job.id, self._part.name, job.lease.generation])
        self._conn.execute(self._sql(FORGET), [job.id])

    def _run(self, statement: Statement[T]) -> T:
        return db.run(self._conn, statement, self._part.schema)

    def _sql(self, text: str) -> bytes:
        return sql.in_schema(text, self._part.schema).encode()


def _die_with_the_drill() -> None:
    """A stopped process never sees the end of its stdin, so on Linux the kernel is asked to kill it."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _hear(word: str = "") -> str:
    """The next line, which must be this word if one is given; without a drill there is nothing left to do."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the drill is gone")
    assert not word or line.strip() == word, f"expected {word!r}, heard {line!r}"
    return line


def _say(event: Event) -> None:
    _print(event.fields())


def _print(fields: dict[str, Any]) -> None:
    print(json.dumps(fields, default=str), flush=True)


if __name__ == "__main__":
    main()
