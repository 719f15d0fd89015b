"""A worker beside a web app, in a thread of its process: started before the first request, drained after the last one.

One process is enough for a small service. A process of its own, `tenure worker`, keeps handlers and requests apart;
both may serve the same queues.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ..app.inbox import Inbox
from ..embedded.default_database import address
from ..events import Bus, WorkerStarted
from ..worker.config import Terms
from ..worker.worker import Worker


class Beside:
    """`async with Beside(inbox):` in a lifespan, or `with`; what the worker needs otherwise is given as to Terms."""

    def __init__(self, inbox: Inbox, url: str | None = None, *, bus: Bus | None = None, **terms: Any) -> None:
        self._bus, self._settled = bus or Bus(), threading.Event()  # it has started, or it has failed to
        self.worker = Worker(
            inbox, Terms(address(url), schema=inbox.schema, **{"queues": inbox.queues, **terms}), self._bus
        )
        self._error: BaseException | None = None
        self._code = 0
        self._thread = threading.Thread(target=self._run, name="tenure-beside", daemon=True)

    def start(self) -> Worker:
        """Return once it claims; what keeps it from that is raised here."""
        self._bus.subscribe(self._heard, each_job=False)
        self._thread.start()
        self._settled.wait()
        if self._error is not None:
            raise self._error
        return self.worker

    def stop(self) -> int:
        """Drain it. 0 if no row is left behind, as the exit code of `tenure worker` says it; a bug is raised."""
        self.worker.stop()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._code

    def _run(self) -> None:
        try:
            self._code = self.worker.run()
        except BaseException as error:
            self._error = error
        finally:
            self._settled.set()

    def _heard(self, event: Any) -> None:
        if isinstance(event, WorkerStarted):
            self._settled.set()

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Worker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)
