"""How an actor speaks with its drill: a word a line on stdin, a JSON object a line on stdout."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import Any

_lock = threading.Lock()


def die_with_parent() -> None:
    """A stopped process never sees the end of its stdin, so on Linux the kernel is asked to kill it."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


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
