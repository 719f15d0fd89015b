"""What inboxes answered: each by itself, kept until all can be told; who is away, and the exit code of all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import click
from psycopg import errors as pg

from ..console.terminal import Said, sentence
from ..errors import BUG, INTERRUPTED, NO, TRY_LATER, UNREACHABLE, USAGE, NoDatabase, TenureError
from .errors import explain

ANSWER_SECONDS = 30.0  # for all that a reading command asks of one, and for each statement of an act
# Where a no is a finding, and not "it is not in this inbox".
JUDGING = ("doctor", "audit verify", "migrate", "erase")
REFUSALS = (TenureError, pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction, pg.LockNotAvailable)

HERE: ContextVar[str] = ContextVar("tenure_inbox", default="")  # the inbox that is asked now, of several
ACT: ContextVar[str] = ContextVar("tenure_act", default="")  # what the lines of one act have in common, in every audit


class Told(NamedTuple):
    """What one inbox answered: what it said, and its exit code or its error."""

    inbox: str
    said: Sequence[Said]
    code: int = 0
    error: Exception | None = None


Ask = Callable[..., Told]


@contextmanager
def given_up_in_time() -> Iterator[None]:
    """A server that does not answer a statement is given up, also one that waits for a standby at a commit."""
    from ..postgres.connection import ANSWER_SECONDS as SECONDS

    before = SECONDS.set(ANSWER_SECONDS)
    try:
        yield
    finally:
        SECONDS.reset(before)


def side_by_side(asks: Mapping[str, Ask], **more: Any) -> list[Told]:
    """All answers; who has said nothing when the time is over is away."""
    answers: dict[str, Told] = {}

    def keep(name: str) -> None:
        answers[name] = asks[name](**more)

    threads = [threading.Thread(target=keep, args=(name,), daemon=True) for name in asks]
    for each in threads:
        each.start()
    by = time.monotonic() + ANSWER_SECONDS
    for each in threads:
        each.join(max(0.0, by - time.monotonic()))
    late = NoDatabase(f"the database has not answered within {ANSWER_SECONDS:g} s")
    return [answers.get(name) or Told(name, (), error=late) for name in asks]


def raise_mistakes(answers: Sequence[Told]) -> None:
    """A mistake in the question is raised, and so is a bug with its inbox."""
    for each in answers:
        if mistaken(each):
            assert each.error is not None
            raise of_inbox(each) if _is_bug(each.error) else each.error  # a mistake is the same in all


def judged(path: str, answers: Sequence[Told]) -> tuple[list[Told], list[Told]]:
    """Who has an answer, and who is away; if all are, what the first says is raised, and so are mistakes."""
    raise_mistakes(answers)
    away = [each for each in answers if each.error is not None]
    here = [each for each in answers if each.error is None]
    if not here:
        raise of_inbox(away[0])
    if path not in JUDGING:
        here = [each for each in here if each.code != NO] or here
    return here, away


def mistaken(answer: Told) -> bool:
    """Is it a mistake in the question, or a bug? Then it is not that nobody answers."""
    if answer.error is None:
        return False
    return isinstance(answer.error, click.ClickException) or explain(answer.error)[1] in (USAGE, BUG)


def _is_bug(error: Exception) -> bool:
    return not isinstance(error, click.ClickException) and explain(error)[1] == BUG


def of_inbox(answer: Told) -> Exception:
    """Its error, which then says of which inbox it is."""
    assert answer.error is not None
    if isinstance(answer.error, click.ClickException):
        vars(answer.error)["message"] = f"inbox {answer.inbox}: {answer.error.message}"
    else:
        answer.error.add_note(f"inbox {answer.inbox}")
    return answer.error


def why_away(answer: Told) -> str:
    """In a sentence."""
    assert answer.error is not None
    return answer.error.message if isinstance(answer.error, click.ClickException) else explain(answer.error)[0]


def hedged(path: str, here: Sequence[Told], away: Sequence[Told]) -> Sequence[Told]:
    """A no is the word of those that answer: while one is away, what was asked for may be there."""
    if not away or path in JUDGING or any(each.code != NO for each in here):
        return here
    names = [each.inbox for each in here]
    so_far = f"tenure: as far as {', '.join(names)} {'knows' if len(names) == 1 else 'know'}: "
    return [each._replace(said=[_hedged(so_far, said) for said in each.said]) for each in here]


def _hedged(so_far: str, said: Said) -> Said:
    return said._replace(text=so_far + said.text.removeprefix("tenure: ")) if said.err else said


def tell_away(away: Sequence[Told], of: int) -> None:
    """Name on stderr who does not answer, and who answers and refuses."""
    silent = [each for each in away if not _refuses(each)]
    if silent:
        told = "; ".join(f"{each.inbox} says: {why_away(each)}" for each in silent)
        sentence(f"{of - len(silent)} of {of} inboxes answer: {told}", err=True)
    for each in away:
        if _refuses(each):
            sentence(f"{each.inbox} refuses this: {why_away(each)}", err=True)


def in_doubt(answer: Told) -> bool:
    """Was the act sent there, and not answered?"""
    from ..postgres.connection import NoAnswer

    return isinstance(answer.error, NoAnswer)


def tell_in_doubt(away: Sequence[Told]) -> None:
    """Name on stderr where it may have been done."""
    for each in filter(in_doubt, away):
        sentence(f"it may have been done in {each.inbox}: look into `tenure audit --inbox {each.inbox}`", err=True)


def _refuses(answer: Told) -> bool:
    """Does it answer, and not take this?"""
    return isinstance(answer.error, REFUSALS) and not isinstance(answer.error, NoDatabase)


def leave(path: str, here: Sequence[Told], away: Sequence[Told], *, acted: bool) -> None:
    """The exit code of all: a no while somebody is away may be a yes there, and an act there is still to be done."""
    codes = {each.code for each in here}
    if INTERRUPTED in codes:
        code = INTERRUPTED
    elif path in JUDGING and not (acted and away):
        code = (codes.pop() if codes == {UNREACHABLE} else NO) if codes != {0} or away else 0
    else:
        code = 0 if 0 in codes else max(codes)
        code = TRY_LATER if away and (acted or code) else code
    if code:
        raise click.exceptions.Exit(code)
