"""The lines of a flow: its branches, what waits for their ends, and what one of them waits for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ...verbs.steps import Step, Wait
from .recorder import Done
from .undoing import Root

SOON_SECONDS = 0.05  # until a wait beside somebody who works is written down: mostly all wait by then, and are parked
LOOK_SECONDS = 0.5  # between two looks for a signal or for children
TIMED = ("sleep", "retrying")  # what only the time ends


class Branch:
    """One line of steps: the function itself, or a branch of parallel."""

    def __init__(self, path: str, owner: object, depth: int = 0) -> None:
        self.path, self.owner, self.depth = path, owner, depth
        self.n = 0  # the next number
        self.open = 0  # calls that have begun and not ended
        self.walk: Any = None  # it had lost a race in an attempt before: only its records are walked through
        self.beside: Sequence[Root] = ()  # where its steps are that are not on its path

    @property
    def roots(self) -> list[Root]:
        """Where its steps are."""
        return [(self.path, None), *self.beside]


class Join:
    """What waits for branches: for all of them, or for the first. Once met it is at work, before it has run on."""

    def __init__(self, branch: Branch, left: int) -> None:
        self.branch, self.left, self.met = branch, left, False


class Held:
    """What is waited for, who is told, since when, and when it is to be looked at if somebody still works then."""

    def __init__(self, wait: Wait, done: Done) -> None:
        self.wait, self.done, self.since = wait, done, time.monotonic()
        self.look_at = self.since + SOON_SECONDS

    def left(self) -> Wait:
        """What is left of it now."""
        of = self.wait
        if of.seconds is None:
            return of
        seconds = max(0.0, of.seconds + self.since - time.monotonic())
        return Wait(of.path, of.n, of.name, of.state, of.args_hash, of.tries, seconds, of.at, of.error)

    def seen(self, step: Step, moment: float) -> None:
        """It is written down, and not met at this moment."""
        seconds = max(SOON_SECONDS, (step.until or moment) - moment)
        timed = self.wait.name in TIMED or self.wait.state in TIMED
        self.look_at = time.monotonic() + (seconds if timed else min(seconds, LOOK_SECONDS))


def as_it_stands(wait: Wait, step: Step, moment: float) -> Step:
    """What is waited for, as the database found it at this moment."""
    place = (wait.path, wait.n, wait.name, step.state, wait.args_hash, wait.tries)
    return Step(*place, step.result, wait.error, moment, step.over, step.until)


BRANCH: ContextVar[Branch] = ContextVar("tenure_branch")  # whose code runs here
