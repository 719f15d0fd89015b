"""A worker in a process of its own that starts anew when a file is saved, and never outlives whoever started it."""

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

import click

from ..console.signals import die_with_parent
from ..errors import BAD_SETTINGS

LOOK_SECONDS = 0.25
SETTLE_SECONDS = 0.1  # some editors save in two steps: the first alone may be no Python at all
SETTLE_ROUNDS_MAX = 20
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 30.0
STEADY_SECONDS = 60.0  # who ran for so long does not die of how it starts
LAST_SECONDS = 12.0  # what a worker may take beyond its drain, see `Worker._drain`
SUFFIX, SETTINGS = ".py", ("pyproject.toml", "tenure.toml")
OTHERS = {"__pycache__", "node_modules", "venv"}  # and whatever begins with a dot: .venv, .git, an editor's .#app.py
CHILD = "from tenure.cli.reload import child; child({parent})"

Seen = dict[str, tuple[int, int]]


class Watch:
    """The Python files and the settings below some folders."""

    def __init__(self, roots: Sequence[Path], over: threading.Event | None = None) -> None:
        self._roots, self._seen, self._over = roots, _seen(roots), over or threading.Event()

    def saved(self) -> list[str]:
        """The files that are new, changed or gone since it was last asked, once they hold still.

        A file that never does is not waited for, nor is anything once it is all over.
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
            with suppress(OSError):  # it is being renamed or removed, or leads nowhere: the others count all the same
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(SUFFIX) or entry.name in SETTINGS:
                    facts = entry.stat()
                    found[entry.path] = (facts.st_mtime_ns, facts.st_size)
    return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is theirs in this folder; nothing of one that is gone or closed to us."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name not in OTHERS and not entry.name.startswith(".")]
    return []


class Reloader(threading.Thread):
    """Keeps one worker running while the block lasts, whatever becomes of the code it runs.

    A save ends the worker, which drains, and begins the next. One that cannot start as the code is now waits for the
    next save; one that died of something else is also tried again after a pause that grows.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], roots: Sequence[Path], drain_seconds: float):
        super().__init__(name="tenure-reload", daemon=True)
        self._words, self._environ, self._drain_seconds = words, environ, drain_seconds
        self._over = threading.Event()
        self._watch = Watch(roots, self._over) if roots else None
        self.code = 0  # what the command should end with, where nobody can mend what is wrong by a save

    def __enter__(self) -> Reloader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Worker after worker. They are begun on this thread: the kernel ends them should it end."""
        pause = PAUSE_SECONDS
        while not self._over.is_set():
            began = time.monotonic()
            with self._worker() as worker:
                saved = self._look(partial(_has_ended, worker))
            if time.monotonic() - began > STEADY_SECONDS:
                pause = PAUSE_SECONDS
            if not saved and not self._over.is_set():
                saved = self._mourn(worker.returncode, pause)
                pause = PAUSE_SECONDS if saved else min(2 * pause, PAUSE_SECONDS_MAX)

    def _look(self, fact: Callable[[], bool]) -> bool:
        """Whether a file was saved before the fact came about, or the end of it all."""
        rest = LOOK_SECONDS
        while not self._over.wait(rest) and not fact():
            began = time.monotonic()
            if self._watch is not None and (saved := self._watch.saved()) and not self._over.is_set():
                _say(f"{_named(saved)} saved, the worker starts anew")
                return True
            rest = max(LOOK_SECONDS, 10 * (time.monotonic() - began))  # a large tree is looked at less often
        return False

    def _mourn(self, code: int, pause: float) -> bool:
        """Say that the worker has ended by itself, and wait for a reason to try again."""
        if code == 0:  # an operator has drained it
            _say("the worker was drained, the next save starts it anew")
            return self._look(lambda: False)
        if code == BAD_SETTINGS and self._watch is not None:  # it has said why itself
            _say("waiting for the next save")
            return self._look(lambda: False)
        if code == BAD_SETTINGS:
            self.code = code
            os.kill(os.getpid(), signal.SIGTERM)
            return not self._over.wait()
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        _say(f"the worker ended with {how}, it starts anew with the next save or in {pause:.0f} s")
        by = time.monotonic() + pause
        return self._look(lambda: time.monotonic() > by)

    @contextmanager
    def _worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that has ended when the block has: by itself, by draining, or if it does not obey by force."""
        # Its session is its own: Ctrl-C is for the command, which then ends the worker.
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
    """The process of a worker: `tenure` with the words it was given, for no longer than its parent lives."""
    from . import main

    _die_with(parent)
    # Bytecode is told from its source by whole seconds and size: a second save could be taken for the first.
    sys.dont_write_bytecode = True
    sys.argv[0] = "tenure"
    main()


def _die_with(parent: int) -> None:
    """The kernel sees to it on Linux; elsewhere a thread does."""
    die_with_parent()
    if sys.platform != "linux":
        threading.Thread(target=_watch_parent, args=[parent], daemon=True).start()
    if os.getppid() != parent:  # it died before anybody was asked
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
    click.echo(f"tenure: {words}", err=True)
