"""One mutant on its bench: the tests run against a copy of the package, and the verdict is read from what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql as identifiers

from .guards import Mutant

SECONDS_A_TEST = 120  # far more than any needs: a slow machine must not pass for a test that noticed

# A statement that does not even run is killed by nobody: these say the mutant, not the guard, is broken.
BROKEN = re.compile(
    r"SyntaxError|UndefinedColumn|UndefinedFunction|AmbiguousColumn|IndeterminateDatatype|DatatypeMismatch"
)
# ... except this one: ON CONFLICT (...) names the constraint, and Postgres refuses the statement without it.
NAMED = re.compile(r"no unique or exclusion constraint matching the ON CONFLICT")
# ... and this: a text that a function makes of what it found does not fit what the guard would have kept out.
MADE = re.compile(r"PL/pgSQL function .* at EXECUTE$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    word: str
    why: str

    @property
    def fine(self) -> bool:
        """True unless the guard went unnoticed."""
        return self.word in ("killed", "implied")

    @property
    def by(self) -> str:
        """The test that noticed."""
        return self.why.split(" ")[0]


class Bench:
    """Where mutants are tried: a copy of package, tests and docs as they are now, and places for one trial each."""

    def __init__(self, project: Path, folder: Path, urls: Sequence[str]) -> None:
        self.root = folder / "root"  # what is edited meanwhile does not disturb the run
        self.package = self.root / "src/tenure"
        for name in ("src", "tests", "mutants", "docs"):
            shutil.copytree(project / name, self.root / name)
        shutil.copy(project / "pyproject.toml", self.root)
        self.free = [Place(self, folder / str(n), url) for n, url in enumerate(urls)]
        self.places = list(self.free)

    def warm_up(self, files: Iterable[str]) -> None:
        """Import these tests, and begin to wait for trials."""
        for place in self.places:
            place.warm_up(files)

    def close(self) -> None:
        """End the processes."""
        for place in self.places:
            place.close()


class Place:
    """A server, a copy of the package, and a process that has imported the tests and forks for each trial."""

    def __init__(self, bench: Bench, tree: Path, url: str) -> None:
        self.bench, self.tree, self.url = bench, tree, url
        self.output, self.ended = tree / "output", tree / "ended"
        shutil.copytree(bench.package, tree / "tenure")
        self.process: subprocess.Popen[str] | None = None

    def warm_up(self, files: Iterable[str]) -> None:
        command = [sys.executable, "-m", "mutants.warm", str(self.tree), *files]
        env = {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the plugins of others take four fifths of a short run
            "TENURE_TEST_DATABASE_URL": self.url,
            "TENURE_TEST_STEPS": "1000",
            "TENURE_TEST_SECONDS": "20",
            "TENURE_TEST_SHRINK": "no",
        }
        self.process = subprocess.Popen(
            command, cwd=self.bench.root, env=env, stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def begin(self, url: str, stages: list[list[str]], seconds: int, reach: str) -> None:
        """Have the tests run in a fork, stage after stage until one is red."""
        assert self.process
        assert self.process.stdin
        self.ended.unlink(missing_ok=True)
        options = ["--maxfail=1", "-q", f"--timeout={SECONDS_A_TEST}", "--timeout-method=signal", "--tb=short", "-rfE"]
        common = ["-p", "pytest_timeout", *options, f"--basetemp={self.tree / 'temp'}"]
        asked = {"url": url, "stages": [[*common, *stage] for stage in stages], "seconds": seconds, "reach": reach}
        print(json.dumps(asked), file=self.process.stdin, flush=True)

    @property
    def over(self) -> bool:
        """True when the tests have ended, or have had their time."""
        assert self.process
        if self.process.poll() is not None:
            raise RuntimeError(f"the process that forks for trials ended with {self.process.returncode}")
        return self.ended.exists()

    def close(self) -> None:
        """End the process, which waits for more."""
        if self.process and self.process.stdin:
            self.process.stdin.close()
            self.process.wait()


class Trial:
    """One mutant at its place: its line is changed there, and the tests run on a database of their own."""

    def __init__(
        self, bench: Bench, mutant: Mutant | None, stages: list[list[str]], seconds: int, reach: str = ""
    ) -> None:
        Trial.count += 1
        self.bench, self.place, self.name = bench, bench.free.pop(), f"mutant_{os.getpid()}_{Trial.count}"
        self.mutant = mutant
        if mutant:
            self._write(mutant.apply(self._text(bench.package, mutant)))
        self._sql("CREATE DATABASE {}")
        url = urlunsplit(urlsplit(self.place.url)._replace(path=f"/{self.name}"))
        self.place.begin(url, stages, seconds, reach)

    count = 0

    @property
    def over(self) -> bool:
        """True when the tests have ended, or have had their time."""
        return self.place.over

    def end(self) -> tuple[int, str]:
        """The exit code of the tests and what they said; what the trial took is given back."""
        while not self.over:
            time.sleep(0.05)
        output = self.place.output.read_text(encoding="utf-8", errors="replace")
        code = int(self.place.ended.read_text())
        self._sql("DROP DATABASE {} WITH (FORCE)")
        if self.mutant:
            self._write(self._text(self.bench.package, self.mutant))
        self.bench.free.append(self.place)
        return code, output

    def _text(self, package: Path, mutant: Mutant) -> str:
        return (package / "sql" / mutant.file).read_text(encoding="utf-8")

    def _write(self, text: str) -> None:
        assert self.mutant
        (self.place.tree / "tenure/sql" / self.mutant.file).write_text(text, encoding="utf-8")

    def _sql(self, statement: LiteralString) -> None:
        with psycopg.connect(self.place.url, autocommit=True) as conn:
            conn.execute(identifiers.SQL(statement).format(identifiers.Identifier(self.name)))


def verdict_of(mutant: Mutant, code: int, output: str) -> Verdict:
    """Read off how the tests ended, and what they said."""
    if code == -signal.SIGKILL:
        return Verdict(mutant, "SURVIVED", "no test missed it in the time they had")
    if code == -signal.SIGSEGV:
        return Verdict(mutant, "CRASHED", "the interpreter itself fell over, which says nothing of the guard")
    if code == 0:
        return Verdict(mutant, "SURVIVED", "")
    found = re.search(r"^(?:FAILED|ERROR) \S*?([\w.]+::\w+)", output, re.MULTILINE)
    if not found:
        return Verdict(mutant, "BROKEN", f"the run itself: {output[-600:]}")
    by = found.group(1)
    if NAMED.search(output):
        return Verdict(mutant, "killed", f"{by} (ON CONFLICT names this constraint: Postgres refuses the statement)")
    if code == 1 and MADE.search(output) and "EXECUTE" not in mutant.before:
        return Verdict(mutant, "killed", by)
    if code != 1 or BROKEN.search(output):
        broken = BROKEN.search(output)
        return Verdict(mutant, "BROKEN", f"{broken.group() if broken else output[-300:]} in {by}")
    return Verdict(mutant, "killed", by)
