"""How an actor talks to its drill: one word a line on stdin, one JSON object a line on stdout."""

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
    """What an actor needs to know. It comes over stdin: a URL may contain a password, and arguments are public."""

    name: str
    url: str
    schema: str


def part_of(kind: type[P]) -> P:
    """The part from the first line; from now on this process ends with its drill."""
    die_with_parent()
    return kind(**json.loads(hear()))


def hear(word: str = "") -> str:
    """The next line, which must be this word if one is given; the process exits if the drill is gone."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the drill is gone")
    assert not word or line.strip() == word, f"expected {word!r}, heard {line!r}"
    return line


def say(fields: dict[str, Any]) -> None:
    """Write one line; call it from any thread."""
    line = json.dumps(fields, default=str)
    with _lock:
        print(line, flush=True)
