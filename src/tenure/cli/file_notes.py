"""Notes that a file below some folders has changed, by watchfiles where it is installed: nothing is scanned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

STEP_MS = 50


class FileNotes(threading.Thread):
    """Waits for the operating system's notes on a thread of its own."""

    def __init__(self, watch: Callable[..., Any], roots: Sequence[Path], over: threading.Event) -> None:
        super().__init__(name="tenure-watch", daemon=True)
        self._watch, self._roots, self._over = watch, roots, over
        self._came, self.works = threading.Event(), True

    def run(self) -> None:
        """Note every change until the end. If the system has no notes for us, folders are scanned again."""
        try:
            how = {"step": STEP_MS, "debounce": 2 * STEP_MS, "rust_timeout": 500, "watch_filter": None}
            for _ in self._watch(*map(str, self._roots), stop_event=self._over, raise_interrupt=False, **how):
                self._came.set()
        except (OSError, RuntimeError):
            pass
        self.works = False

    def taken(self) -> bool:
        """True if something has changed since the last call, or if nobody can know."""
        came = self._came.is_set() or not self.works
        self._came.clear()
        return came


def file_notes(roots: Sequence[Path], over: threading.Event) -> FileNotes | None:
    """Notes about these folders; None without watchfiles, which `pip install "tenure[dev]"` brings."""
    try:
        from watchfiles import watch
    except ImportError:
        return None
    notes = FileNotes(watch, roots, over)
    notes.start()
    return notes
