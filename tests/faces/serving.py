"""`tenure serve` as a real process, for tests."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from faces.web_tools import TOKEN
from world import World


class Serving:
    """`tenure serve` as a real process, which lets in who shows the token of the tests."""

    def __init__(self, world: World, *options: str, files: int | None = None, **env: str) -> None:
        place = {"TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tenure.cli import main; main()", "serve", *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None,
            env={**os.environ, **place, "TENURE_WEB_TOKEN": TOKEN, **env},
        )
        assert self.process.stderr is not None
        self.said: list[str] = []
        while not self.said or not self.said[-1].startswith("http"):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said.append(line.strip())
        self.address = self.said[-1].split()[0].rstrip("/")

    def end(self, number: int) -> tuple[int, float, str]:
        """Exit code, seconds it took, and what it said at the end."""
        began = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(90)
        assert self.process.stderr is not None
        return code, time.monotonic() - began, self.process.stderr.read()


@contextmanager
def serving(world: World, *options: str, files: int | None = None, **env: str) -> Iterator[Serving]:
    """A real process, ended at the end; with `files`, it may open only so many."""
    made = Serving(world, *options, files=files, **env)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait(90)
