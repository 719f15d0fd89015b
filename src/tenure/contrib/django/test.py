"""For tests of a Django project: run what is due on Django's own connection, inside the transaction of TestCase.

No worker could see it: its rows are never committed. So these are claimed, run and settled here, by the same verbs.
Limits of queues do not hold.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync
from django.db import connections, transaction

from ...app.handler import Handler
from ...app.job import Job
from ...errors import UnknownHandler
from ...model.outcome import Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ...model.rows import Claimed
from ...postgres import run
from ...verbs import lifecycle, questions, settle
from ...verbs.statement import Statement
from ...worker.outcomes import arguments, outcome_for, said
from . import conf

WORKER = "test-case"
ROUNDS_MAX = 10_000  # a handler that enqueues itself would never end


class Ran(NamedTuple):
    """A row that was run: its kind, its payload, and how the attempt ended."""

    kind: str
    payload: Any
    outcome: Outcome


def run_pending(*, using: str | None = None, raises: bool = True) -> list[Ran]:
    """Run what is due now, and what that enqueues, until nothing is due; what it ran, in order.

    What a handler raises is raised here. With raises=False it ends the attempt, as in a worker.
    """
    alias = using or conf.alias()
    done: list[Ran] = []
    while (claimed := _next(alias)) is not None:
        done.append(_ran(alias, claimed, raises))
        if len(done) >= ROUNDS_MAX:
            raise AssertionError(f"{ROUNDS_MAX} rows were run and more are due: does {claimed.kind!r} enqueue itself?")
    return done


def _ask(alias: str, statement: Statement[Any]) -> Any:
    return run(conf.raw(alias), statement, conf.schema())


def _next(alias: str) -> Claimed | None:
    lanes = _ask(alias, questions.lanes())
    rows = _ask(alias, lifecycle.claim(WORKER, 1, lanes=lanes)) if lanes else []
    if not rows:
        queues = sorted({depth.queue for depth in _ask(alias, questions.depth())})
        rows = _ask(alias, lifecycle.claim_ordered(WORKER, 1, queues=queues)) if queues else []
    return rows[0] if rows else None


def _ran(alias: str, claimed: Claimed, raises: bool) -> Ran:
    from .inbox import inbox

    handler = inbox.handlers.get(claimed.kind)
    if handler is None:
        known = ", ".join(sorted(inbox.handlers)) or "none"
        raise UnknownHandler(f"no handler for kind {claimed.kind!r}: this project has {known}")
    job = Job(claimed, schema=conf.schema(), keep_payload=handler.handling.keep_payload)
    job.seal = handler.seal
    try:
        with _as_in_a_worker(alias):
            outcome = _called(handler, job)
    except (Exception, SystemExit) as error:
        if raises:
            raise
        outcome = Retry(said(error, job.veil))
    if job.completion != "committed":
        _ask(alias, _settling(claimed, outcome))
    return Ran(claimed.kind, claimed.decode(), outcome)


def _called(handler: Handler[..., ..., Any], job: Job) -> Outcome:
    args, fields = arguments(handler, job)
    function = handler.function
    call = async_to_sync(function) if inspect.iscoroutinefunction(function) else function
    return outcome_for(handler, job, call(*args, **fields))


@contextlib.contextmanager
def _as_in_a_worker(alias: str) -> Iterator[None]:
    """Inside TestCase a savepoint, that an error of the handler may undo; it passes for the block of TestCase itself,
    so that `job.fenced(connection)` and atomic(durable=True) work as they do in a worker."""
    if not connections[alias].in_atomic_block:
        yield
        return
    block = transaction.atomic(using=alias)
    block._from_testcase = True
    with block:
        yield


def _settling(claimed: Claimed, outcome: Outcome) -> Statement[Any]:
    held = [claimed]
    match outcome:
        case Completed(result):
            return settle.complete(held, results=None if result is None else [result])
        case Retry(error, after_seconds):
            return settle.retry(held, [error], delays=[after_seconds])
        case Snooze(seconds, error):
            return settle.release(held, errors=[error], delays=[seconds])
        case Fail(error):
            return settle.fail(held, [error])
        case DeadLetter(error):
            return settle.dead_letter(held, [error])
        case Release(error):
            return settle.release(held, errors=[error])
