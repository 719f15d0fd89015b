"""Events of the HTTP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .event import Event


@dataclass(frozen=True, slots=True)
class LoginFailed(Event):
    """Somebody showed a wrong secret: the first time at an address, then at the 10th, 100th, 1,000th … try.

    `n` counts the tries at this address, with those that were refused unheard. `user` is the name that was given, or
    empty; a stranger chose it.
    """

    name: ClassVar[str] = "login_failed"
    level: ClassVar[str] = "warning"
    address: str
    user: str
    n: int
