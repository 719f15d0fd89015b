"""The recorder: gathers what the running instances of a worker record, park and recall, and sends it in few statements.

A thread of its own with a connection that the worker lends it. While one statement runs, the next batch gathers. What
is asked for twice after a lost reply is answered twice alike: every statement of it may be sent again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg

from ...app.job import Job
from ...app.lent import Connections
from ...errors import StaleLease
from ...model.rows import Settled
from ...postgres.runner import run
from ...postgres.transactions import blocking
from ...verbs.statement import Rows, Statement
from ...verbs.steps import Parked, Parking, Recording, Saying, park, recall, record, say
from .trouble import FlowStops

BATCH_MAX = 500
PARKS_MAX = 200  # each takes a lock of its own
IDLE_SECONDS = 2.0  # then its connection is given back; at once, if a handler waits for one
LOOK_SECONDS = 0.02  # between two looks whether one does
YIELD_SECONDS = 0.1  # it is let first for so long
AGAIN_SECONDS = 0.02
SAY_SECONDS = 0.2  # between two writes of what is said
SAID_MAX = 65_536  # characters of one instance between two writes; more is cut
GIVE_UP_SECONDS = 600.0  # without a connection
PATIENCE_SECONDS = 2.0  # for an instance that somebody signals just now
RECORD_SECONDS = 10.0  # for a row that somebody has locked: given up, what was done is done again


T = TypeVar("T")
Done = Callable[[Any], object]  # called with the answer, or with an exception


class Request(NamedTuple):
    """What one instance asks for, and who is told: `done`, on its loop or else in the recorder's thread."""

    job: Job
    what: Recording | Parking | Saying | int  # int: recall that run
    done: Done
    loop: AbstractEventLoop | None
    since: float


def settle(future: Any, answer: Any) -> None:
    """Give a future its answer, once."""
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


class Recorder:
    """Takes requests from any thread."""

    def __init__(self, lender: Connections, schema: str) -> None:
        self._lender, self._schema = lender, schema
        self._queue: SimpleQueue[Request] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.on_loop = threading.RLock()  # of all that happens on the loop of a worker: nobody is ever kept waiting
        self._words: dict[UUID, Saying] = {}  # what is to be said, by instance
        self._say_at = 0.0
        self._isolated = False  # statements begin in another isolation here: each has a transaction that says which

    def send(
        self, job: Job, what: Recording | Parking | Saying | int, done: Done, loop: AbstractEventLoop | None = None
    ) -> None:
        """Ask for it; the answer comes on the loop, without one in another thread."""
        self._queue.put(Request(job, what, done, loop, time.monotonic()))
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._live, name="tenure-recorder", daemon=True)
                    self._thread.start()

    def _live(self) -> None:
        while True:
            batch = [self._queue.get()]
            while batch or self._words:
                batch = self._with_connection(batch)
                self._let_others()

    def _with_connection(self, batch: list[Request]) -> list[Request]:
        """Work until there is nothing to do for a while, or the connection is lost: what is to be sent again."""
        try:
            with self._lender.blocking() as conn:
                while True:
                    batch = self._send(conn, batch)
                    batch += self._gathered(AGAIN_SECONDS if batch else SAY_SECONDS if self._words else IDLE_SECONDS)
                    if self._lender.wanted or not (batch or self._words):
                        return batch
        except psycopg.OperationalError as error:
            time.sleep(0.2)
            return _still_wanted(batch, error)
        except Exception as error:  # those who asked are told; the thread goes on, for nobody else would record
            self._words = {}
            _answer((each, error) for each in batch)
            return []

    def _gathered(self, seconds: float) -> list[Request]:
        """What is asked for within this time, or until a handler wants the connection."""
        found: list[Request] = []
        by = time.monotonic() + seconds
        while not found and (left := by - time.monotonic()) > 0 and not self._lender.wanted:
            with suppress(Empty):
                found.append(self._queue.get(timeout=min(left, LOOK_SECONDS)))
                while len(found) < BATCH_MAX:
                    found.append(self._queue.get_nowait())
        return found

    def _let_others(self) -> None:
        """A connection that was given back for a handler is the handler's, also if there is more to record."""
        by = time.monotonic() + YIELD_SECONDS
        while self._lender.wanted and time.monotonic() < by:
            time.sleep(LOOK_SECONDS / 4)

    def _send(self, conn: Any, batch: list[Request]) -> list[Request]:
        """Send these; what was locked is returned, to be sent again."""
        batch = self._heard(batch)
        self._speak(conn, now=any(each.job.id in self._words for each in batch))
        recalls = [each for each in batch if isinstance(each.what, int)]
        records = [each for each in batch if isinstance(each.what, Recording)]
        parks = [each for each in batch if isinstance(each.what, Parking)]
        again: list[Request] = []
        if recalls:
            _answer(zip(recalls, self._run(conn, recalls, _recalled), strict=True))
        for some in _apart(records):
            again += self._tell(some, self._run(conn, some, _recorded))
        for at in range(0, len(parks), PARKS_MAX):
            some = parks[at : at + PARKS_MAX]
            again += self._tell(some, self._run(conn, some, _parked))
        return again

    def _heard(self, batch: list[Request]) -> list[Request]:
        """Keep what is to be said; the rest."""
        for each in batch:
            if isinstance(each.what, Saying):
                before = self._words.get(each.job.id)
                words = (before.chunk if before else "") + each.what.chunk
                self._words[each.job.id] = Saying(each.what.lease, words[:SAID_MAX])
        return [each for each in batch if not isinstance(each.what, Saying)]

    def _speak(self, conn: Any, *, now: bool) -> None:
        """Write what is to be said, a few times a second; now, if one of those is about to end a step or to sleep."""
        if self._words and (now or time.monotonic() >= self._say_at):
            words, self._say_at = list(self._words.values()), time.monotonic() + SAY_SECONDS
            self._words = {}
            with suppress(Exception):  # people miss something; no step fails for it
                run(conn, say(words), self._schema)

    def _ask(self, conn: Any, statement: Statement[T]) -> T:
        try:
            with blocking(conn) if self._isolated else nullcontext():
                answer: T = run(conn, statement, self._schema)
            return answer
        except psycopg.errors.FeatureNotSupported:  # REPEATABLE READ or SERIALIZABLE is the default of this login
            if self._isolated:
                raise
            self._isolated = True
            return self._ask(conn, statement)

    def _run(
        self, conn: Any, some: list[Request], verb: Callable[[list[Request]], Statement[Sequence[Any]]]
    ) -> Sequence[Any]:
        """The answers to these; where that fails, they are asked for one by one, and an error is its own answer."""
        try:
            return self._ask(conn, verb(some))
        except psycopg.OperationalError:
            raise
        except Exception as error:
            if len(some) == 1:
                return [error]
            return [self._run(conn, [each], verb)[0] for each in some]

    def _tell(self, some: list[Request], answers: Sequence[Any]) -> list[Request]:
        told, again = [], []
        for request, answer in zip(some, answers, strict=True):
            locked = isinstance(answer, Parked) and answer.outcome == "locked"
            if (locked or (isinstance(answer, Settled) and answer.reason == "try_again")) and _patient(request):
                again.append(request)
            else:
                told.append((request, answer))
        _answer(told)
        return again


def _recalled(some: list[Request]) -> Statement[Sequence[Any]]:
    asked: Any = [(each.job.id, each.what) for each in some]
    recalling = recall(asked)

    def read(rows: Rows) -> Sequence[Any]:
        found: Any = recalling.read(rows)
        return [found[each.job.id] for each in some]

    return Statement(recalling.name, recalling.params, read)


def _recorded(some: list[Request]) -> Any:
    return record([each.what for each in some])  # type: ignore[misc]


def _parked(some: list[Request]) -> Any:
    return park([each.what for each in some], patient=False)  # type: ignore[misc]


def _patient(request: Request) -> bool:
    most = RECORD_SECONDS if isinstance(request.what, Recording) else PATIENCE_SECONDS
    return not request.job.lost and time.monotonic() - request.since < most


def _apart(records: list[Request]) -> Iterable[list[Request]]:
    """Batches in which no instance is named twice."""
    while records:
        seen: set[Any] = set()
        now: list[Request] = []
        later: list[Request] = []
        for each in records:
            (later if each.job.id in seen else now).append(each)
            seen.add(each.job.id)
        yield now
        records = later


def _still_wanted(batch: list[Request], error: Exception) -> list[Request]:
    """After a lost connection: those whose lease may still be ours."""
    told: list[tuple[Request, Any]] = []
    wanted = []
    for request in batch:
        if request.job.lost:
            told.append((request, StaleLease(request.job.claimed, "record", request.job.lost)))
        elif time.monotonic() - request.since > GIVE_UP_SECONDS:
            told.append((request, error))
        else:
            wanted.append(request)
    _answer(told)
    return wanted


def _answer(told: Iterable[tuple[Request, Any]]) -> None:
    """Tell each; a loop is woken once for all of its own."""
    on_loops: dict[AbstractEventLoop, list[tuple[Done, Any]]] = {}
    for request, answer in told:
        if request.loop is None:
            request.done(answer)
        else:
            on_loops.setdefault(request.loop, []).append((request.done, answer))
    for loop, answers in on_loops.items():
        loop.call_soon_threadsafe(_all_done, answers)


def _all_done(answers: Iterable[tuple[Done, Any]]) -> None:
    for done, answer in answers:
        try:
            done(answer)
        except (Exception, FlowStops) as error:  # the others have answers too
            asyncio.get_running_loop().call_exception_handler({"message": "an answer was lost", "exception": error})
