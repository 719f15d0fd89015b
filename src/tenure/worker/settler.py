"""Settles attempts that ended: one statement for each verb, however many attempts there are."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from ..events import (
    Bus,
    Event,
    JobCancelled,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobReleased,
    JobRetried,
    StaleWriteBlocked,
)
from ..model.backoff import delay_for
from ..model.outcome import Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ..model.rows import Settled
from ..verbs import settle
from ..verbs.statement import Statement
from .attempt import Attempt
from .claim_rule import UNORDERED
from .held import HeldAttempts
from .outcomes import said
from .shared import Shared

Batch = tuple[list[Attempt], Statement[list[Settled]]]
_Kind = tuple[type[Outcome], bool, bool, bool]  # its outcome, accepted late, ordered, payload kept

_ENDED: dict[str | None, type[JobRetried]] = {
    "pending": JobRetried,
    "failed": JobFailed,
    "dead_letter": JobDeadLettered,
    "cancelled": JobCancelled,
}


class Settler:
    """Collects ended attempts, turns them into statements, and emits events for what the database answered."""

    def __init__(self, shared: Shared, held: HeldAttempts) -> None:
        self._shared, self._held = shared, held
        self._unsettled: list[Attempt] = []
        self.one_by_one = False  # a row of the batch may be locked: the others must not wait for it

    def add(self, attempts: Sequence[Attempt]) -> None:
        """These attempts ended, or were let go."""
        self._unsettled += attempts

    @property
    def unsettled(self) -> list[Attempt]:
        """Attempts that the database has not answered for yet."""
        return self._unsettled

    @property
    def slots_ending(self) -> int:
        """How many slots will be free once the database has answered."""
        return sum(1 for attempt in self._unsettled if attempt.handler_returned and self._held.uses_slot(attempt))

    def skip_settled(self) -> None:
        """Some need no statement: completed in their own transaction, or lost to another worker."""
        # Asked once each: a handler that was let go may commit at any moment.
        itself = {each for each in self._unsettled if each.completed_itself}
        over = [each for each in self._unsettled if each in itself or each.outcome is None]
        if not over:
            return
        gone = set(over)
        self._unsettled = [each for each in self._unsettled if each not in gone]
        self._end(over)
        completed(self._shared, [each for each in over if each in itself], time.monotonic())

    def batches(self) -> list[Batch]:
        """A statement for each verb; or one for each attempt, in random order, if a locked row blocked the batch."""
        if not self.one_by_one:
            return list(batches(self._unsettled))
        random.shuffle(self._unsettled)
        return [batch for attempt in self._unsettled for batch in batches([attempt])]

    def answered(self, attempts: list[Attempt], answers: Sequence[Settled]) -> bool:
        """The database has answered: emit events, free slots. True if some row is due again later."""
        at, later = time.monotonic(), False
        bus, worker_id = self._shared.bus, self._shared.worker_id
        self._shared.tally.settled(attempts, answers, at)
        for attempt, settled in zip(attempts, answers, strict=True):
            if bus.each_job or settled.standing != "applied" or not isinstance(attempt.outcome, Completed):
                report(bus, worker_id, attempt, settled, at - attempt.started)
                later = later or settled.next_at is not None
        done = set(attempts)
        self._unsettled = [each for each in self._unsettled if each not in done]
        self._end(attempts)
        return later

    def _end(self, attempts: list[Attempt]) -> None:
        """These are settled: stop renewing them, and free the slots of handlers that have returned."""
        for attempt in attempts:
            attempt.settle()
        self._held.drop(attempts)
        self._held.free([attempt for attempt in attempts if attempt.handler_returned])


def batches(attempts: Sequence[Attempt]) -> Iterator[Batch]:
    """The outcomes of these attempts as statements: completions first, then what goes back, then what failed.

    A row that fails ends its run: the rows behind it must be given back before it is.
    """
    groups: dict[_Kind, list[Attempt]] = {}
    for attempt in attempts:
        kind = (type(attempt.outcome), attempt.accept_late, attempt.source != UNORDERED, attempt.keep_payload)
        groups.setdefault(kind, []).append(attempt)
    for (outcome, late, ordered, keep), group in sorted(groups.items(), key=_turn):
        try:
            made = [(group, _statement(outcome, late, group, ordered, keep=keep))]
        except Exception:
            made = [_alone(outcome, late, attempt) for attempt in group]
        yield from made


def _turn(group: tuple[_Kind, list[Attempt]]) -> tuple[int, bool]:
    (kind, _, ordered, _), _ = group
    return (0 if kind is Completed else 1 if kind is Release else 2, not ordered)


def _alone(kind: type[Outcome], late: bool, attempt: Attempt) -> Batch:
    """One attempt of a batch whose statement could not be made: if its outcome is the reason, the attempt failed."""
    try:
        return [attempt], _statement(kind, late, [attempt], keep=attempt.keep_payload)
    except Exception as error:
        attempt.outcome = Retry(said(error))
        return [attempt], _statement(Retry, late, [attempt])


def _statement(
    kind: type[Outcome], late: bool, attempts: list[Attempt], ordered: bool = True, *, keep: bool = True
) -> Statement[list[Settled]]:
    held = [attempt.claimed for attempt in attempts]
    if kind is Completed:
        return settle.complete(held, accept_late=late, ordered=ordered, keep_payload=keep)
    if kind is Retry:
        return settle.retry(held, _errors(attempts), delays=[_delay(attempt) for attempt in attempts])
    if kind is Fail:
        return settle.fail(held, _errors(attempts))
    if kind is DeadLetter:
        return settle.dead_letter(held, _errors(attempts))
    if kind is Snooze:
        return settle.release(held, errors=_errors(attempts), delays=[each.outcome.seconds for each in attempts])
    assert kind is Release
    return settle.release(held, errors=_errors(attempts))


def _errors(attempts: list[Attempt]) -> list[str | None]:
    return [attempt.outcome.error or None for attempt in attempts]


def _delay(attempt: Attempt) -> float | None:
    given = attempt.outcome.after_seconds
    if given is not None or attempt.handler is None:
        return None if given is None else float(given)
    try:
        return delay_for(attempt.handler.handling.backoff, attempt.job.attempt, random.random())  # noqa: S311
    except Exception:
        return None  # an error in the policy must not stop the attempt from ending: use the database's backoff


def report(bus: Bus, worker_id: str, attempt: Attempt, settled: Settled, run_seconds: float) -> None:
    """Emit how an attempt ended, after the database has answered."""
    job = attempt.job
    # Completed under this same token by the handler's own transaction; the reply to its commit may be lost.
    if settled.ok or settled.reason == "already_completed":
        if bus.each_job or not isinstance(attempt.outcome, Completed):
            bus.emit(_ended(worker_id, attempt, settled, run_seconds))
    else:
        reason = settled.reason or settled.standing
        bus.emit(StaleWriteBlocked(worker_id, job.id, job.token, settled.current, reason, settled.verb))


def _ended(worker_id: str, attempt: Attempt, settled: Settled, run_seconds: float) -> Event:
    job = attempt.job
    if settled.verb == "complete" or settled.status == "completed":
        return JobCompleted(worker_id, job.id, job.token, job.kind, job.queue, run_seconds)
    released = settled.verb == "release" and settled.status == "pending"
    event = JobReleased if released else _ENDED.get(settled.status, JobRetried)
    error = getattr(attempt.outcome, "error", "") or type(attempt.outcome).__name__.lower()
    return event(worker_id, job.id, job.token, job.kind, job.queue, run_seconds, error)


def completed(shared: Shared, attempts: Sequence[Attempt], at: float) -> None:
    """Count rows that their handlers completed themselves, and emit an event for each if somebody wants them."""
    shared.tally.completed(attempts, at)
    for attempt in attempts if shared.bus.each_job else ():
        job, run_seconds = attempt.job, at - attempt.started
        shared.bus.emit(JobCompleted(shared.worker_id, job.id, job.token, job.kind, job.queue, run_seconds))
