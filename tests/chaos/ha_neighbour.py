"""Another inbox, on a server of its own, and one worker that serves it beside the cluster that fails over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from chaos.own_server import own_server
from crew import Hired, eventually
from tenure import postgres, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.worker.config import Terms

QUEUE, SCHEMA = "beats", "tenure"
GROUP, SPACE_SECONDS = 10, 0.1  # rows of one call, and the time between two calls: to each inbox
CALM_SECONDS = 5.0
LAST_SECONDS = 60.0


class Neighbour:
    """Both inboxes get rows all the time; what counts is how many of the neighbour's are run in some seconds."""

    def __init__(self, cluster: str, own: str) -> None:
        self._urls = {"cluster": cluster, "neighbour": own}
        self._ran: dict[str, list[float]] = {name: [] for name in self._urls}
        self._sent = dict.fromkeys(self._urls, 0)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(name,), daemon=True) for name in self._urls]

    def begin(self) -> None:
        """Send and work."""
        inbox = self._inbox()
        self._hired = Hired(inbox, Terms(shards=self._urls, schema=SCHEMA, queues=inbox.queues, poll_seconds=0.25))
        for thread in self._threads:
            thread.start()

    def rate(self, began: float, ended: float) -> float:
        """Rows of the neighbour that ran in a second of this time."""
        return sum(began <= at < ended for at in self._ran["neighbour"]) / (ended - began)

    def calm(self) -> float:
        """Its rate while nothing happens."""
        began = time.monotonic()
        threading.Event().wait(CALM_SECONDS)
        return self.rate(began, time.monotonic())

    def hush(self) -> None:
        """No more rows; those that were sent are run."""
        self._over.set()
        for thread in self._threads:
            thread.join(LAST_SECONDS)
        eventually(lambda: all(len(self._ran[name]) >= sent for name, sent in self._sent.items()), seconds=LAST_SECONDS)

    def end(self) -> None:
        """The worker goes."""
        self._over.set()
        self._hired.stop()

    def _inbox(self) -> Inbox:
        inbox = Inbox(schema=SCHEMA)

        @inbox.handler("beat", queue=QUEUE)
        async def beat(job: Job) -> None:
            self._ran[job.claimed.lease.worker.rpartition("@")[2]].append(time.monotonic())

        return inbox

    def _send(self, name: str) -> None:
        """Rows at an even pace; what is not acknowledged is not counted."""
        due = time.monotonic()
        while not self._over.is_set():
            with (
                suppress(psycopg.Error),
                postgres.connect(self._urls[name], application_name="tenure drill", writes=True) as conn,
            ):
                while not self._over.wait(max(0.0, due - time.monotonic())):
                    due = max(due + SPACE_SECONDS, time.monotonic() - 1.0)
                    postgres.run(conn, verbs.enqueue_many([NewRow("beat", {}, queue=QUEUE)] * GROUP), SCHEMA)
                    self._sent[name] += GROUP
            self._over.wait(SPACE_SECONDS)


@contextmanager
def neighbour(cluster: str) -> Iterator[Neighbour]:
    """One beside this cluster, which has Tenure's tables."""
    with TemporaryDirectory() as folder, own_server(Path(folder) / "neighbour") as server:
        with postgres.connect(server.url, application_name="tenure drill", writes=True) as conn:
            migrate.apply(conn, SCHEMA)
        made = Neighbour(cluster, server.url)
        made.begin()
        try:
            yield made
        finally:
            made.end()
