"""The relay: sends one claimed row, and says with an outcome what the broker answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from psycopg import Error

from ...app.job import Job
from ...app.lifespan import Host
from ...events import BrokerAway, BrokerBack, Bus, MessagePublished, MessageRefused
from ...model.outcome import Outcome, Retry, Snooze
from ...verbs.operators import POSTPONED_MAX, postpone
from ...verbs.outboxes import unsent
from ...verbs.questions import clock
from .circuit import Circuit
from .transport import Answer, Away, Duplicate, Fenced, Message, Refused, Transport, Unfit, brief, checked_answer

CONFIRM_SECONDS = 10.0
FENCED_SECONDS = 1.0  # after it the row is claimed with a higher fence, or another relay has it
CLOSE_SECONDS = 1.0
IDLE_SECONDS = 5.0  # so long after its pause no event has come to probe: the relay probes by itself


class Relay:
    """One for each outbox and worker. It is opened by the worker before its first claim."""

    def __init__(self, name: str, kind: str, queue: str, transport: Transport, lease_seconds: float, bus: Bus) -> None:
        self.name, self.kind, self.queue, self.transport, self._bus = name, kind, queue, transport, bus
        self._lease_seconds = lease_seconds
        self._circuit = Circuit()
        self._opening = asyncio.Lock()
        self._open = self._cut_off = False  # cut off: the last try to open it failed
        self._host: Host | None = None
        self._away_since: str | None = None

    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """A broker that is away keeps no worker from starting; one that is not fit does."""
        self._host = host
        try:
            await asyncio.wait_for(self._connect(), CONFIRM_SECONDS)
        except Unfit:
            raise
        except Exception as error:
            await self._away(brief(error))
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching], timeout=CLOSE_SECONDS)  # it may be about to open what is closed here
            self._open = False
            with suppress(Exception):
                await asyncio.wait_for(self.transport.close(), CLOSE_SECONDS)

    async def _connect(self) -> None:
        async with self._opening:
            if self._open:
                return
            self._cut_off = True
            try:
                await self.transport.open(self._lease_seconds)
            except (OSError, Unfit):
                raise
            except asyncio.CancelledError:
                if _asked_to_end():
                    raise
                raise ConnectionError("the connection was closed while it was opened") from None  # by the client
            except Exception as error:  # whatever it is, no event has caused it
                raise ConnectionError(brief(error)) from error
            self._open, self._cut_off = True, False

    async def _watch(self) -> None:
        """Probe where no event does, so that what is told stays true: another worker may have sent all that waited."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 2)
            told = self._cut_off or self._away_since is not None
            if told and self._circuit.overdue_seconds >= IDLE_SECONDS and await self._circuit.enter():
                await self._probe()

    async def _probe(self) -> None:
        """Ask the broker without an event. That it can be opened is an answer only if it could not be."""
        was_cut_off = self._cut_off
        try:
            await asyncio.wait_for(self._connect(), CONFIRM_SECONDS)
        except asyncio.CancelledError:
            self._circuit.leave()
            raise
        except Exception as error:
            await self._away(str(error) if isinstance(error, Unfit) else brief(error))
            return
        if was_cut_off:
            self._answered()
        else:
            self._circuit.leave()
            await self._forget_if_all_is_sent()

    async def _forget_if_all_is_sent(self) -> None:
        """It took no event from us: only the next event can tell whether it does now. If none waits, say nothing."""
        if self._host is None:
            return
        with suppress(Error):  # the database is away too: ask again later
            waits = await self._host.run(unsent(self.queue, self.kind))
            if not waits and self._circuit.overdue_seconds > 0:  # no event has failed meanwhile
                self._away_since = None
                self._tell(None)

    async def send(self, job: Job, message: Message) -> Outcome | None:
        """Send it once, and wait for the confirm."""
        if not await self._circuit.enter():
            return Snooze(self._circuit.seconds_left + 0.1, "the broker is away")
        return await self._settle(job, message, await self._answer(job, message))

    async def _answer(self, job: Job, message: Message) -> Answer:
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await self._connect()
                job.check()  # directly before it is sent: a lease that is lost sends nothing
                return checked_answer(self.transport, await self.transport.send(message))
        except TimeoutError:
            return Away(f"no confirm within {CONFIRM_SECONDS:g} s")
        except OSError as error:
            return Away(brief(error))
        except Unfit as error:
            return Away(str(error))
        except asyncio.CancelledError:
            if _asked_to_end():
                self._circuit.leave()
                raise
            return Away("the connection was closed while it was sent")  # by the client, which cancels what waits for it
        except BaseException:
            self._circuit.leave()  # the probe must not be waited for
            raise

    async def _settle(self, job: Job, message: Message, answer: Answer) -> Outcome | None:
        if isinstance(answer, Away):
            await self._away(answer.error)
            return Snooze(self._circuit.seconds_left + 0.1, f"the broker is away: {answer.error}")
        self._answered()
        worker = self._worker
        if isinstance(answer, Fenced):
            return Snooze(FENCED_SECONDS, f"a newer relay has written for this key: {answer.error}")
        if isinstance(answer, Refused):
            self._bus.emit(
                MessageRefused(worker, job.id, job.token, self.name, message.attributes["type"], answer.error)
            )
            return Retry(f"the broker refused it: {answer.error}")
        if self._bus.each_job:
            outcome = "duplicate" if isinstance(answer, Duplicate) else "sent"
            self._bus.emit(MessagePublished(worker, job.id, job.token, self.name, message.attributes["type"], outcome))
        return None

    def _answered(self) -> None:
        away_seconds = self._circuit.succeed()
        if away_seconds is not None:
            self._away_since = None
            self._tell(None)
            self._bus.emit(BrokerBack(self._worker, self.name, away_seconds))

    async def _away(self, error: str) -> None:
        """Open the circuit; whoever opens it says why now, and postpones what waits, with one statement."""
        self._open = False
        pause = self._circuit.fail()
        if pause is None:
            return
        self._bus.emit(BrokerAway(self._worker, self.name, error, pause))
        if self._host is None:
            return
        with suppress(Error):  # the database is away too: each row is put off by itself
            now = await self._host.run(clock())
            if self._circuit.is_open:  # nobody was answered meanwhile
                self._away_since = self._away_since or now.isoformat()
                self._tell({"away_since": self._away_since, "asked_at": now.isoformat(), "error": error})
            until = now + timedelta(seconds=self._circuit.seconds_left)
            while await self._host.run(postpone(self.queue, None, until, kind=self.kind)) >= POSTPONED_MAX:
                pass

    def _tell(self, fact: Any) -> None:
        if self._host is not None:
            self._host.tell(self.kind, fact)

    @property
    def _worker(self) -> str:
        return self._host.worker() if self._host is not None else ""


def _asked_to_end() -> bool:
    """Whether this attempt was cancelled by its worker, and not by a client that leaves its broker."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
