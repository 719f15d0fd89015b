"""A worker in its own process that restarts when a file is saved, and ends with the process that started it.

                  a file is saved: drain, restart
              ┌────────────────────────────────────┐
              ▼                                    │
    start ▶ runs ──────────────────────────────────┘
              │ it ends by itself
              ├── drained, or bad settings ──▶ waits for the next save ───────────────▶ start
              ├── any other exit code ───────▶ pauses, longer each time, or a save ───▶ start
              └── bad settings, no reload ───▶ over: the command ends with this code

The end of the block leads from each state to over: the worker drains, or is killed if it does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from ..console.signals import die_with_parent
from ..console.terminal import echo
from ..errors import BAD_SETTINGS
from .file_notes import file_notes

LOOK_SECONDS = 0.25
NOTE_SECONDS = 0.05  # between two looks whether a note has come, which costs nothing
SETTLE_SECONDS = 0.1  # some editors save in two steps: the file may be half-written after the first
SETTLE_ROUNDS_MAX = 20
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 30.0
STEADY_SECONDS = 60.0  # a worker that ran this long did not fail at its start: the pause begins anew
LAST_SECONDS = 12.0  # the most a worker needs after its drain, see `Worker._drain`
SUFFIX, SETTINGS = ".py", ("pyproject.toml", "tenure.toml")
OTHERS = {"__pycache__", "node_modules", "venv"}  # and whatever begins with a dot: .venv, .git, an editor's .#app.py
CHILD = "from tenure.cli.reload import child; child({parent})"

Seen = dict[str, tuple[int, int]]


class Watch:
    """The Python files and the settings files below some folders."""

    def __init__(self, roots: Sequence[Path], over: threading.Event | None = None) -> None:
        self._roots, self._seen, self._over = roots, _seen(roots), over or threading.Event()

    def saved(self) -> list[str]:
        """The files that are new, changed or gone since the last call, once they no longer change.

        A file that changes all the time is not waited for, and at the end of the block no file is.
        """
        before = self._seen
        for _ in range(SETTLE_ROUNDS_MAX):
            last, self._seen = self._seen, _seen(self._roots)
            if last == self._seen or self._over.wait(SETTLE_SECONDS):
                break
        now = self._seen
        return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _seen(roots: Sequence[Path]) -> Seen:
    found: Seen = {}
    folders = [str(root) for root in roots]
    while folders:
        for entry in _entries(folders.pop()):
            with suppress(OSError):  # it is being renamed or removed, or is a broken link: the other files still count
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(SUFFIX) or entry.name in SETTINGS:
                    facts = entry.stat()
                    found[entry.path] = (facts.st_mtime_ns, facts.st_size)
    return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of this folder that may be the user's code; none if it is gone or not readable."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name not in OTHERS and not entry.name.startswith(".")]
    return []


class Reloader(threading.Thread):
    """Keeps one worker running while the block lasts, even if its code fails."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], roots: Sequence[Path], drain_seconds: float):
        super().__init__(name="tenure-reload", daemon=True)
        self._words, self._environ, self._drain_seconds = words, environ, drain_seconds
        self._over = threading.Event()
        self._watch = Watch(roots, self._over) if roots else None
        self._notes = file_notes(roots, self._over) if roots else None
        self.code = 0  # the exit code of the command; not 0 if a save could not correct the error

    def __enter__(self) -> Reloader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Run worker after worker. They are started on this thread: on Linux the kernel ends them with it."""
        pause = PAUSE_SECONDS
        while not self._over.is_set():
            began = time.monotonic()
            with self._worker() as worker:
                saved = self._look(partial(_has_ended, worker))
            if time.monotonic() - began > STEADY_SECONDS:
                pause = PAUSE_SECONDS
            if not saved and not self._over.is_set():
                saved = self._wait_after(worker.returncode, pause)
                pause = PAUSE_SECONDS if saved else min(2 * pause, PAUSE_SECONDS_MAX)

    def _look(self, fact: Callable[[], bool]) -> bool:
        """Whether a file was saved before the fact was true, and before the end of the block."""
        rest = self._rest_seconds
        while not self._over.wait(rest) and not fact():
            if self._notes is not None and not self._notes.taken():
                continue
            began = time.monotonic()
            if self._watch is not None and (saved := self._watch.saved()) and not self._over.is_set():
                _say(f"{_named(saved)} saved, the worker restarts")
                return True
            # A large tree is scanned less often; with notes, it is scanned after one.
            rest = max(self._rest_seconds, 10 * (time.monotonic() - began))
        return False

    @property
    def _rest_seconds(self) -> float:
        return NOTE_SECONDS if self._notes is not None and self._notes.works else LOOK_SECONDS

    def _wait_after(self, code: int, pause: float) -> bool:
        """Say how the worker ended, and wait until it may restart; whether a save is the reason."""
        if code == 0:  # an operator has drained it
            _say("the worker was drained, it restarts at the next save")
            return self._look(lambda: False)
        if code == BAD_SETTINGS and self._watch is not None:  # it has said why itself
            _say("waiting for the next save")
            return self._look(lambda: False)
        if code == BAD_SETTINGS:
            self.code = code
            os.kill(os.getpid(), signal.SIGTERM)
            return not self._over.wait()
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        _say(f"the worker ended with {how}, it restarts at the next save or in {pause:.0f} s")
        by = time.monotonic() + pause
        return self._look(lambda: time.monotonic() > by)

    @contextmanager
    def _worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that has ended when the block ends: by itself, by draining, or by force."""
        # In a session of its own: Ctrl-C goes to the command, which then ends the worker.
        worker = subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD.format(parent=os.getpid()), *self._words],
            env=self._environ,
            start_new_session=True,
        )
        try:
            yield worker
        finally:
            worker.terminate()
            try:
                worker.wait(self._drain_seconds + LAST_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def child(parent: int) -> None:
    """The process of a worker: `tenure` with its arguments; it ends when its parent does."""
    from . import main

    _die_with(parent)
    # Python compares bytecode and source by whole seconds and size: a second save could look like the first.
    sys.dont_write_bytecode = True
    sys.argv[0] = "tenure"
    main()


def _die_with(parent: int) -> None:
    """On Linux the kernel ends this process with its parent; elsewhere a thread does."""
    die_with_parent()
    if sys.platform != "linux":
        threading.Thread(target=_watch_parent, args=[parent], daemon=True).start()
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _has_ended(worker: subprocess.Popen[bytes]) -> bool:
    return worker.poll() is not None


def _named(saved: Sequence[str]) -> str:
    names = [os.path.relpath(path) for path in saved]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _say(words: str) -> None:
    echo(f"tenure: {words}", err=True)
