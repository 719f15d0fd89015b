"""A chore of an application: a statement that one worker of the fleet runs every so often."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import BadSettings
from ..verbs.statement import Statement

SECONDS_MIN, SECONDS_MAX = 0.5, 86_400.0
_NAME = re.compile(r"[a-z][a-z0-9_]*[.:][a-z0-9_.:]{1,60}")


@dataclass(frozen=True, slots=True)
class Chore:
    """Its name, how often it is due, and what is run."""

    name: str
    seconds: float
    statement: Statement[Any] | Callable[[], Statement[Any]]

    def made(self) -> Statement[Any]:
        """The statement, made anew if it is a function that makes it."""
        return self.statement if isinstance(self.statement, Statement) else self.statement()


def check_chore(name: Any, seconds: Any, statement: Any) -> Chore:
    """The chore, or BadSettings."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSettings(f"chore {name!r} must be named like 'shop:forget_carts': Tenure's own have names of one word")
    if not isinstance(seconds, int | float) or not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise BadSettings(
            f"chore {name!r} has seconds={seconds!r}: it must be from {SECONDS_MIN:g} to {SECONDS_MAX:.0f}"
        )
    if not (isinstance(statement, Statement) or callable(statement)):
        raise BadSettings(f"chore {name!r} runs {statement!r}: give it a Statement, or a function that makes one")
    return Chore(name, float(seconds), statement)
