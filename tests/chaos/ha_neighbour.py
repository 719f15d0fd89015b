"""Another inbox, on a server of its own, and one worker that serves it beside the cluster that fails over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psycopg

import tenure
from chaos.own_server import own_server
from crew import Hired, eventually
from tenure import postgres, verbs
from tenure.app.job import Job
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.worker.config import Terms

QUEUE, SCHEMA = "beats", "tenure"
GROUP, SPACE_SECONDS = 10, 0.1  # rows of one call, and the time between two calls: to each inbox
CALM_SECONDS = 5.0
LAST_SECONDS = 60.0


class Inbox(NamedTuple):
    """Where rows are sent, and the key that leads them to their inbox."""

    url: str
    schema: str = SCHEMA
    key: str | None = None


class Neighbour:
    """Both inboxes get rows all the time; what counts is how many of the neighbour's are run in some seconds."""

    def __init__(self, inboxes: Mapping[str, Inbox], name: str, terms: Terms) -> None:
        self._inboxes, self._name, self._terms = inboxes, name, terms
        self._ran: dict[str, list[float]] = {name: [] for name in inboxes}
        self._sent = dict.fromkeys(inboxes, 0)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(name,), daemon=True) for name in inboxes]

    def begin(self) -> None:
        """Send and work."""
        self._hired = Hired(self._handlers(), self._terms)
        for thread in self._threads:
            thread.start()

    def rate(self, began: float, ended: float) -> float:
        """Rows of the neighbour that ran in a second of this time."""
        return sum(began <= at < ended for at in self._ran[self._name]) / (ended - began)

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

    def _handlers(self) -> tenure.Inbox:
        inbox = tenure.Inbox(schema=SCHEMA, citus=bool(self._terms.citus))

        @inbox.handler("beat", queue=QUEUE)
        async def beat(job: Job) -> None:
            self._ran[job.claimed.lease.worker.rpartition("@")[2]].append(time.monotonic())

        return inbox

    def _send(self, name: str) -> None:
        """Rows at an even pace; what is not acknowledged is not counted."""
        due, (url, schema, key) = time.monotonic(), self._inboxes[name]
        while not self._over.is_set():
            with (
                suppress(psycopg.Error),
                postgres.connect(url, application_name="tenure drill", writes=True) as conn,
            ):
                while not self._over.wait(max(0.0, due - time.monotonic())):
                    due = max(due + SPACE_SECONDS, time.monotonic() - 1.0)
                    postgres.run(conn, verbs.enqueue_many([NewRow("beat", {}, queue=QUEUE, key=key)] * GROUP), schema)
                    self._sent[name] += GROUP
            self._over.wait(SPACE_SECONDS)


@contextmanager
def on_own_server(cluster: str) -> Iterator[Neighbour]:
    """One beside this cluster, which has Tenure's tables."""
    with TemporaryDirectory() as folder, own_server(Path(folder) / "neighbour") as server:
        with postgres.connect(server.url, application_name="tenure drill", writes=True) as conn:
            migrate.apply(conn, SCHEMA)
        urls = {"cluster": cluster, "neighbour": server.url}
        try:
            with beside({name: Inbox(url) for name, url in urls.items()}, "neighbour", shards=urls) as made:
                yield made
        finally:
            server.end("immediate")  # before its folder goes


@contextmanager
def beside(inboxes: Mapping[str, Inbox], name: str, **places: Any) -> Iterator[Neighbour]:
    """The inbox of this name, beside the others, while the block lasts."""
    made = Neighbour(inboxes, name, Terms(schema=SCHEMA, queues={QUEUE: 1.0}, poll_seconds=0.25, **places))
    made.begin()
    try:
        yield made
    finally:
        made.end()
