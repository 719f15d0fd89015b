"""Settles attempts that ended: one statement for each verb, however many attempts there are."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..app.fence import NOT_ITS_TURN
from ..model.backoff import delay_for
from ..model.outcome import Completed, DeadLetter, Fail, Outcome, Release, Retry, Snooze
from ..model.rows import Settled
from ..verbs import settle
from ..verbs.settle import AllCompleted
from ..verbs.statement import Statement
from .attempt import Attempt
from .claim_rule import UNORDERED
from .held import HeldAttempts
from .outcomes import said
from .put_off import PutOff, in_runs
from .reports import completed, report
from .shared import Shared

Batch = tuple[list[Attempt], Statement[Any]]  # its answer: a Settled for each
# The outcome; may it come late, may its row be ordered, is its payload kept?
Kind = tuple[type[Outcome], bool, bool, bool]
Group = tuple[Kind, list[Attempt]]


class Settler:
    """Collects ended attempts, turns them into statements, and emits events for what the database answered."""

    def __init__(self, shared: Shared, held: HeldAttempts) -> None:
        self._shared, self._held = shared, held
        self._unsettled: list[Attempt] = []
        self._put_off = PutOff()
        self.one_by_one = False  # a row of the batch may be locked: the others must not wait for it

    def add(self, attempts: Collection[Attempt]) -> None:
        """These attempts ended, or were let go."""
        self._unsettled += attempts

    @property
    def unsettled(self) -> list[Attempt]:
        """Attempts that the database has not answered for yet."""
        return self._unsettled

    def due(self) -> list[Attempt]:
        """Those to be sent now: all but what was refused for a moment, and what stands behind it in its run."""
        return self._put_off.over(self._unsettled, time.monotonic()) if self._put_off else self._unsettled

    def may_wait(self, most: int) -> bool:
        """True if there is something, less than so much, and nothing but completions that no row of a key waits for."""
        of = self._unsettled
        return 0 < len(of) < most and all(
            each.source == UNORDERED and isinstance(each.outcome, Completed) for each in of
        )

    def next_at(self, at: float) -> float:
        """When the next of those that were refused for a moment is to be sent again."""
        return self._put_off.next_at(at)

    @property
    def slots_ending(self) -> int:
        """How many of those in flight will be over once the database has answered."""
        if not self._unsettled:
            return 0
        ending, _ = self._by_lock()
        return sum(1 for attempt in ending if attempt.handler_returned and self._held.counts(attempt))

    def skip_settled(self) -> None:
        """Some need no statement: completed in their own transaction, or lost to another worker."""
        # Asked once each: a handler that was let go may commit at any moment.
        itself = {each for each in self._unsettled if each.completed_itself}
        over = [each for each in self._unsettled if each.outcome is None or each in itself]
        if not over:
            return
        self._end(over)
        completed(self._shared, [each for each in over if each in itself], time.monotonic())

    def batches(self) -> list[Batch]:
        """A statement for each verb; or one for each attempt, run by run, if a locked row blocked the batch."""
        free, _ = self._by_lock()
        return _each_alone(in_runs(free)) if self.one_by_one else list(batches(free))

    def locked(self) -> list[Batch]:
        """What was locked when it was sent last, and what stands behind it: a statement each, after all others."""
        _, runs = self._by_lock()
        return _each_alone(runs)

    def hand_over(self, least: int) -> Batch | None:
        """So many completions of unordered rows, to be settled elsewhere: they are no longer among these."""
        free, _ = self._by_lock()
        for (outcome, late, ordered, keep), group in _by_kind(free).items() if len(free) >= least else ():
            if outcome is Completed and not ordered and len(group) >= least:
                self._forget(group)
                return group, _statement(outcome, late, group, ordered, keep=keep)
        return None

    def _forget(self, attempts: list[Attempt]) -> None:
        gone = set(attempts)
        self._unsettled = [each for each in self._unsettled if each not in gone]
        self._put_off.forget(attempts)

    def _by_lock(self) -> tuple[list[Attempt], list[list[Attempt]]]:
        """What is due, without the runs that have a row that was locked; and those runs."""
        due = self.due()
        runs = [run for run in in_runs(due) if self._put_off.was_locked(run)] if self._put_off else []
        apart = {attempt for run in runs for attempt in run}
        return [attempt for attempt in due if attempt not in apart] if apart else due, runs

    def turned_away(self, attempts: list[Attempt], *, alone: bool) -> None:
        """The statement for these was refused: one of them is locked, unless something else in it was (not alone)."""
        ours = [attempt for attempt in attempts if not attempt.settled]
        if alone and len(ours) == 1:
            self._put_off.add(ours, locked=True)
        else:
            self.one_by_one = bool(ours)

    def decided(self, attempts: list[Attempt], answers: Sequence[Settled]) -> tuple[list[Attempt], Sequence[Settled]]:
        """Without those for which the database has decided nothing: they are ours as before, and are sent again."""
        if isinstance(answers, AllCompleted) or not any(answer.reason for answer in answers):
            return attempts, answers
        again = [attempt for attempt, answer in zip(attempts, answers, strict=True) if _undecided(attempt, answer)]
        self._put_off.add(again, locked=False)
        kept = set(again)
        ended = [(attempt, answer) for attempt, answer in zip(attempts, answers, strict=True) if attempt not in kept]
        return [attempt for attempt, _ in ended], [answer for _, answer in ended]

    def answered(self, attempts: list[Attempt], answers: Sequence[Settled]) -> bool:
        """The database has answered: emit events, free slots. True if some row is due again later."""
        at, later = time.monotonic(), False
        bus, worker_id = self._shared.bus, self._shared.worker_id
        if isinstance(answers, AllCompleted):
            completed(self._shared, attempts, at)
        else:
            self._shared.tally.settled(attempts, answers, at)
            for attempt, settled in zip(attempts, answers, strict=True):
                if bus.each_job or settled.standing != "applied" or not isinstance(attempt.outcome, Completed):
                    report(bus, worker_id, attempt, settled, at - attempt.started)
                    later = later or settled.next_at is not None
        self._end(attempts)
        return later

    def _end(self, attempts: list[Attempt]) -> None:
        """These are settled: stop renewing them, and free the slots of handlers that have returned."""
        for attempt in attempts:
            attempt.settle()
        self._forget(attempts)
        self._held.end(attempts)


def batches(attempts: Sequence[Attempt]) -> Iterator[Batch]:
    """The outcomes of these attempts as statements: completions first, then what goes back, then what failed.

    A row that fails ends its run: the rows behind it must be given back before it is.
    """
    groups = _by_kind(attempts)
    in_turn = sorted(groups.items(), key=lambda group: _turn(group[0]))
    if sum(_of_runs(kind) for kind in groups) > 1:
        of_runs = [each for each in attempts if isinstance(each.outcome, Completed) and each.source != UNORDERED]
        in_turn = [*_stretches(of_runs), *(group for group in in_turn if not _of_runs(group[0]))]
    for (outcome, late, ordered, keep), group in in_turn:
        try:
            made = [(group, _statement(outcome, late, group, ordered, keep=keep))]
        except Exception:
            made = [_alone(outcome, late, attempt) for attempt in group]
        yield from made


def _by_kind(attempts: Sequence[Attempt]) -> dict[Kind, list[Attempt]]:
    """What they have in common is looked at once for each handler and claim, not for each attempt."""
    alike: dict[tuple[type[Outcome], Any, Any], list[Attempt]] = {}
    for attempt in attempts:
        what = (type(attempt.outcome), attempt.handler, attempt.common)
        if (found := alike.get(what)) is None:
            found = alike[what] = []
        found.append(attempt)
    groups: dict[Kind, list[Attempt]] = {}
    for (outcome, _, common), found in alike.items():
        kind = (outcome, found[0].accept_late, common.source != UNORDERED, found[0].keep_payload)
        groups.setdefault(kind, []).extend(found)
    return groups


def _of_runs(kind: Kind) -> bool:
    outcome, _, ordered, _ = kind
    return outcome is Completed and ordered


def _turn(kind: Kind) -> tuple[int, bool]:
    outcome, _, ordered, _ = kind
    return (0 if outcome is Completed else 1 if outcome is Release else 2, not ordered)


def _stretches(completions: list[Attempt]) -> list[Group]:
    """Runs whose rows differ in how they are completed: the first rows of each up to such a change, then the others."""
    stretches: dict[int, list[Attempt]] = {}
    for run in in_runs(completions):
        n = 0
        for attempt in run:
            how = attempt.accept_late + 2 * (not attempt.keep_payload)
            n += (how - n) % 4  # four ways take turns: the next turn of this one
            stretches.setdefault(n, []).append(attempt)
    return [((Completed, n % 2 == 1, True, n % 4 < 2), stretches[n]) for n in sorted(stretches)]


def _each_alone(runs: list[list[Attempt]]) -> list[Batch]:
    """A statement for each attempt: the runs in random order, so that none is always last; each in its own order."""
    random.shuffle(runs)
    return [
        batch
        for run in runs
        for attempt in sorted(run, key=lambda each: _turn((type(each.outcome), False, True, True)))
        for batch in batches([attempt])
    ]


def _undecided(attempt: Attempt, answer: Settled) -> bool:
    """True if the row is ours as before: one before it in its run is still to be settled, or was at that moment."""
    if answer.verb == "complete" and answer.reason == "lease_expired" and answer.status == "processing":
        return attempt.accept_late  # then the end of its lease was not why
    return answer.reason == NOT_ITS_TURN


def _alone(kind: type[Outcome], late: bool, attempt: Attempt) -> Batch:
    """One attempt of a batch whose statement could not be made: if its outcome is the reason, the attempt failed."""
    try:
        return [attempt], _statement(kind, late, [attempt], keep=attempt.keep_payload)
    except Exception as error:
        attempt.outcome = Retry(said(error))
        return [attempt], _statement(Retry, late, [attempt])


def _statement(
    kind: type[Outcome], late: bool, attempts: list[Attempt], ordered: bool = True, *, keep: bool = True
) -> Statement[Any]:
    held = [attempt.job.claimed for attempt in attempts]
    if kind is Completed:
        results = [attempt.outcome.result for attempt in attempts]
        how = {"results": results} if results.count(None) < len(results) else {}
        return settle.complete_all(held, accept_late=late, ordered=ordered, keep_payload=keep, **how)
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
