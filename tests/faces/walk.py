"""Follow a page as its reader does: type its consoles in order, and hold each answer against the one that is shown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pages import Typed, in_order, typed
from patience import SECONDS_MAX

# What runs until its reader ends it, in a terminal of its own, and the words that say that it is there.
STAYS = {"tenure dev": "Ctrl-C ends all of it", "tenure serve": "good once", "tenure worker": ""}
# They would begin this very test again: it is looked at what they would do.
ONLY_LOOKED_AT = ("make test", "make test-all")
MAY_END_WITH = {"tenure doctor": (0, 1)}  # the folder of a test is no place for data that must last
ROW = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
VARIES = (
    (r"127\.0\.0\.1:\d+", "here"),
    (r"link=[\w-]+", "link"),
    (r" \(\d+:\d\d:\d\d\)", ""),  # pytest tells what took a minute twice
    (r"\b\d+\.\d+(\.\w+)*", "number"),
    (r"\b\d{12,}\b", "fence"),
    (r"-{3,}", "--"),
    (r"_[0-9a-f]{6}\b", "_hash"),
    (r"[ \t]+", " "),
)


class Stayed(NamedTuple):
    """A command in a terminal of its own."""

    line: str
    process: subprocess.Popen[bytes]
    out: Path


class Walk:
    """A reader with an empty home, a folder, and the programs of one virtual environment."""

    def __init__(self, folder: Path, home: Path, programs: Path, env: Mapping[str, str] | None = None) -> None:
        ours = ("PG", "TENURE_", "DATABASE_URL", "PYTEST", "PYTHON", "VIRTUAL_ENV", "XDG_", "MAKE", "MFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        path = f"{programs}:{os.environ['PATH']}"
        self.env = {**kept, **(env or {}), "HOME": str(home), "PATH": path, "COLUMNS": "80"}
        self.start, self.here = folder, folder
        self.row = ""  # stands for the row that a page shows
        self._stayed: list[Stayed] = []

    def follow(self, page: Path, leave: tuple[str, ...] = ()) -> list[str]:
        """Type what the page says, in order, except lines that begin with one of these; what was typed."""
        done: list[str] = []
        for block in in_order(page.read_text()):
            if block.kind == "" and block.follows and self._stayed:
                self._shows(self._stayed[-1], block.text)
            for each in typed(block.text) if block.kind == "console" else ():
                if not each.line.startswith(leave):
                    self._type(each)
                    done.append(each.line)
        return done

    def leave(self) -> None:
        """Ctrl-C in every terminal that is open; each command ends as one that was asked to."""
        for stayed in reversed(self._stayed):
            stayed.process.send_signal(signal.SIGINT)
            code = stayed.process.wait(SECONDS_MAX)
            assert code in (0, 130), f"{stayed.line}: {code}\n{stayed.out.read_text()}"
        self._stayed.clear()

    def kill(self) -> None:
        """End what a red test has left."""
        for stayed in self._stayed:
            stayed.process.kill()
            stayed.process.wait(SECONDS_MAX)

    def run(self, line: str, seconds: float = 10 * SECONDS_MAX) -> subprocess.CompletedProcess[str]:
        """One line of a shell."""
        return subprocess.run(
            ["bash", "--norc", "-c", line], cwd=self.here, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip

    def _type(self, each: Typed) -> None:
        line = ROW.sub(self.row, each.line) if self.row else each.line
        first = " ".join(line.split()[:2])
        if first == "cd " + line.split()[-1]:
            self.here /= line.split()[1]
        elif first in STAYS:
            self._stay(line, STAYS[first])
        elif first in ONLY_LOOKED_AT:
            looked = self.run(line.replace("make", "make --dry-run", 1))
            assert looked.returncode == 0, looked.stderr
            assert "pytest" in looked.stdout
        else:
            self._answer(each._replace(line=line), MAY_END_WITH.get(first, (0,)))

    def _answer(self, each: Typed, codes: tuple[int, ...]) -> None:
        """Its answer is the one that is shown; a row that a worker has yet to work off is waited for."""
        by = time.monotonic() + SECONDS_MAX
        while True:
            ended = self.run(each.line)
            assert ended.returncode in codes, f"{each.line}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
            if not each.shown or self._plain(ended.stdout) == self._plain(each.shown):
                return
            waits = "SELECT" in each.line and time.monotonic() < by
            assert waits, f"{each.line} said\n{ended.stdout}"
            time.sleep(0.1)

    def _stay(self, line: str, words: str) -> None:
        out = self.start.parent / f"terminal-{len(self._stayed)}"
        before = self._alive() if not words else 0
        with out.open("w") as stream:
            process = subprocess.Popen(
                ["bash", "--norc", "-c", f"exec {line}"], cwd=self.here, env=self.env,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        self._stayed.append(Stayed(line, process, out))
        by = time.monotonic() + 2 * SECONDS_MAX
        while not (words in out.read_text() if words else self._alive() > before):
            assert process.poll() is None, f"{line}: {process.returncode}\n{out.read_text()}"
            assert time.monotonic() < by, f"{line} only said\n{out.read_text()}"
            time.sleep(0.1)

    def _alive(self) -> int:
        return self.run("tenure workers --json").stdout.count('"alive"')

    def _shows(self, stayed: Stayed, shown: str) -> None:
        said = iter(self._plain(stayed.out.read_text()))
        for line in self._plain(shown):
            pattern = re.escape(line).replace("…", ".*")
            assert any(re.fullmatch(pattern, each) for each in said), f"{stayed.line} did not say {line!r}"

    def _plain(self, text: str) -> list[str]:
        text = text.replace(str(self.start), "/home/you")
        for pattern, name in VARIES:
            text = re.sub(pattern, name, text)
        return [line.strip() for line in text.splitlines() if line.strip()]
