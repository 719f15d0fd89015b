"""The load of a failover: producers that note what was acknowledged, one that claims and keeps, and real workers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from ... import postgres, sql, verbs
from ...model.rows import Lane, Lease, NewRow
from ..actors import porter
from ..stage.actor import Actor, DrillFailed
from ..stage.said import Said, said_by

KEPT = "kept"  # the queue whose rows are claimed and never completed: no worker serves it
SPACE_SECONDS = {"producer": 0.008, "holder": 0.03}  # between two calls of one
AGAIN_SECONDS = 0.05
STOCK = 20  # rows to keep that were there before: a claim that is lost leaves its row
PRODUCERS = 2
WORKERS = ("worker-A", "worker-B")
TABLE = "CREATE TABLE tenure.carried (row_id uuid NOT NULL, worker text NOT NULL, fence bigint NOT NULL)"
BROKEN = (psycopg.OperationalError, psycopg.InternalError)


class Ack(NamedTuple):
    """An enqueue that the server acknowledged: when it was sent, and when the answer came."""

    id: UUID
    sent: float
    answered: float


class Load:
    """Runs while the block lasts, against one address; what it was told stays readable after a server has died."""

    def __init__(self, url: str, schema: str, tell: Callable[[Said], None]) -> None:
        self.url, self.schema = url, schema
        self.acks: list[Ack] = []
        self.leases: list[tuple[float, Lease]] = []  # when each was answered
        self._tell, self._telling, self._began = tell, threading.Lock(), time.monotonic()
        self._sent: Counter[str] = Counter()  # by producer
        self._quiet = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(f"producer-{n}", self._produce), daemon=True)
            for n in range(PRODUCERS)
        ] + [threading.Thread(target=self._repeat, args=("holder", self._hold), daemon=True)]
        self._actors: list[Actor] = []

    def __enter__(self) -> Load:
        for name in WORKERS:
            part = asdict(porter.Part(name, self.url, self.schema))
            self._actors.append(Actor(name, "porter", part, self._heard))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hush()
        for actor in self._actors:
            actor.end()

    def hush(self) -> None:
        """No more rows; workers go on."""
        self._quiet.set()
        for thread in self._threads:
            thread.join(30.0)

    def stock(self) -> None:
        """Put some rows before the holder."""
        with self.connect() as conn:
            postgres.run(conn, verbs.enqueue_many([NewRow("keep", {}, queue=KEPT)] * STOCK))

    def connect(self) -> postgres.QueueConnection:
        """To the server that takes writes now."""
        return postgres.connect(self.url, application_name="tenure drill", schema=self.schema, writes=True)

    def check_workers(self) -> None:
        """DrillFailed if a worker has ended."""
        for actor in self._actors:
            if actor.state == "gone":
                raise DrillFailed(f"{actor.name} ended ({actor.last_words()})")

    def say(self, who: str, event: str, **fields: Any) -> None:
        """Report something, with the time since the load was made."""
        with self._telling:
            self._tell(Said(time.monotonic() - self._began, who, event, fields))

    def _heard(self, actor: Actor, fields: dict[str, Any] | None) -> None:
        if fields is None:
            actor.silent = True
        else:
            with self._telling:
                self._tell(said_by(actor.name, time.monotonic() - self._began, fields))

    def _repeat(self, who: str, use: Callable[[str, postgres.QueueConnection], None]) -> None:
        """Use a connection until it breaks, then the next one."""
        while not self._quiet.is_set():
            try:
                with self.connect() as conn:
                    use(who, conn)
            except BROKEN:
                self._quiet.wait(AGAIN_SECONDS)

    def _produce(self, who: str, conn: postgres.QueueConnection) -> None:
        """Enqueue one row after the other; one without an answer is sent again under the same key."""
        while not self._quiet.wait(SPACE_SECONDS["producer"]):
            n, sent = self._sent[who], time.monotonic()
            done = postgres.run(conn, verbs.enqueue(NewRow("carry", {"n": n}, idempotency_key=f"{who}-{n}")))
            self.acks.append(Ack(done.id, sent, time.monotonic()))
            self._sent[who] += 1

    def _hold(self, who: str, conn: postgres.QueueConnection) -> None:
        """Claim rows that nobody completes: their tokens are tried after the failover."""
        while not self._quiet.wait(SPACE_SECONDS["holder"]):
            postgres.run(conn, verbs.enqueue(NewRow("keep", {}, queue=KEPT)))
            claim = verbs.claim(who, 1, buckets=verbs.ALL_BUCKETS, lanes=[Lane(KEPT)])
            for row in postgres.run(conn, claim):
                self.leases.append((time.monotonic(), row.lease))


def furnish(url: str, schema: str) -> None:
    """Make Tenure's tables, and the one that handlers write to."""
    from ...postgres import migrate

    with postgres.connect(url, application_name="tenure drill", writes=True) as conn:
        migrate.apply(conn, schema)
        conn.execute(sql.in_schema(TABLE, schema).encode())
