"""How an actor speaks with its drill: a word a line on stdin, a JSON object a line on stdout."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from typing import Any, TypeVar

from ...console.signals import die_with_parent

P = TypeVar("P", bound="Part")

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Part:
    """What an actor has to know; it comes over stdin, because a URL may hold a password and arguments are public."""

    name: str
    url: str
    schema: str


def part_of(kind: type[P]) -> P:
    """The part that the first line gives; from here on this process does not outlive its drill."""
    die_with_parent()
    return kind(**json.loads(hear()))


def hear(word: str = "") -> str:
    """The next line, which must be this word if one is given; without a drill there is nothing left to do."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the drill is gone")
    assert not word or line.strip() == word, f"expected {word!r}, heard {line!r}"
    return line


def say(fields: dict[str, Any]) -> None:
    """One line, from any thread."""
    line = json.dumps(fields, default=str)
    with _lock:
        print(line, flush=True)
