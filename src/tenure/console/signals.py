"""What signals do to a command and its children: end them in good order, and never during the clean-up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = [
    number for name in ("SIGTERM", "SIGHUP") if isinstance(number := getattr(signal, name, None), signal.Signals)
]


@contextmanager
def endable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block like an exception, so that it cleans up."""
    with _handled(_ENDING, _leave):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """No signal but SIGKILL ends the block: a second Ctrl-C must not interrupt the clean-up."""
    with _handled([signal.SIGINT, *_ENDING], signal.SIG_IGN):
        yield


def die_with_parent() -> None:
    """On Linux, have the kernel kill this process with its parent: a stopped one cannot see that its stdin ended."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


@contextmanager
def _handled(
    numbers: list[signal.Signals], handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python gives signals to the main thread only
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)
