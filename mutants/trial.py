"""One mutant on its bench: the tests run against a copy of the package, and the verdict is read from what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
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
    """Where mutants are tried: a copy of package, tests and docs as they are now, and servers for one trial each."""

    def __init__(self, project: Path, folder: Path, urls: Sequence[str]) -> None:
        self.folder, self.free = folder, list(urls)
        self.root = folder / "root"  # what is edited meanwhile does not disturb the run
        self.package = self.root / "src/tenure"
        for name in ("src", "tests", "mutants", "docs"):
            shutil.copytree(project / name, self.root / name)
        shutil.copy(project / "pyproject.toml", self.root)


class Trial:
    """One mutant on its bench: a tree, a database, and the tests running in processes of their own."""

    def __init__(self, bench: Bench, mutant: Mutant | None, stages: list[list[str]], seconds: int) -> None:
        Trial.count += 1
        self.bench, self.url, self.name = bench, bench.free.pop(), f"mutant_{os.getpid()}_{Trial.count}"
        self.tree = bench.folder / self.name
        shutil.copytree(bench.package, self.tree / "tenure")
        if mutant:
            file = self.tree / "tenure/sql" / mutant.file
            file.write_text(mutant.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        self._sql("CREATE DATABASE {}")
        url = urlunsplit(urlsplit(self.url)._replace(path=f"/{self.name}"))
        self.process = _start_tests(bench.root, self.tree, url, stages)
        self.deadline = time.monotonic() + seconds

    count = 0

    @property
    def over(self) -> bool:
        """True when the tests have ended, or have had their time."""
        if self.process.poll() is None and time.monotonic() > self.deadline:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return self.process.poll() is not None

    @property
    def crashed(self) -> bool:
        """True when the interpreter itself fell over: that says nothing of the guard."""
        return self.process.returncode == 128 + signal.SIGSEGV

    def end(self) -> tuple[int, str]:
        """The exit code of the tests and what they said; what the trial took is given back."""
        self.process.wait()
        output = (self.tree / "output").read_text(encoding="utf-8", errors="replace")
        self._sql("DROP DATABASE {} WITH (FORCE)")
        shutil.rmtree(self.tree)
        self.bench.free.append(self.url)
        return self.process.returncode, output

    def _sql(self, statement: LiteralString) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(identifiers.SQL(statement).format(identifiers.Identifier(self.name)))


def _start_tests(root: Path, tree: Path, url: str, stages: list[list[str]]) -> subprocess.Popen[bytes]:
    """Stage after stage until one is red, in a process group of its own, the copy shadowing the installed package."""
    env = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the plugins of others take four fifths of a short run
        "TENURE_TEST_DATABASE_URL": url,
        "TENURE_TEST_STEPS": "1000",
        "TENURE_TEST_SECONDS": "20",
        "TENURE_TEST_SHRINK": "no",
    }
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_timeout",
        "--maxfail=1",
        "-q",
        f"--timeout={SECONDS_A_TEST}",
        "--timeout-method=signal",
        "--tb=short",
        "-rfE",
        f"--basetemp={tree / 'temp'}",
    ]
    check = "import sys, tenure; sys.exit(0 if tenure.__file__.startswith(sys.argv[1]) else 70)"
    commands = [[sys.executable, "-c", check, str(tree)], *([*pytest, *stage] for stage in stages)]
    script = tree / "stages"  # a file: all tests by name are more than one argument may be long
    script.write_text(" && ".join(shlex.join(command) for command in commands), encoding="utf-8")
    with (tree / "output").open("wb") as output:
        return subprocess.Popen(
            ["sh", str(script)], cwd=root, env=env, stdout=output, stderr=output, start_new_session=True
        )


def verdict_of(mutant: Mutant, code: int, output: str) -> Verdict:
    """Read off how the tests ended, and what they said."""
    if code < 0:
        return Verdict(mutant, "SURVIVED", "no test missed it in the time they had")
    if code == 0:
        return Verdict(mutant, "SURVIVED", "")
    found = re.search(r"^(?:FAILED|ERROR) \S*?([\w.]+::\w+)", output, re.MULTILINE)
    if not found:
        return Verdict(mutant, "BROKEN", f"the run itself: {output[-600:]}")
    by = found.group(1)
    if NAMED.search(output):
        return Verdict(mutant, "killed", f"{by} (ON CONFLICT names this constraint: Postgres refuses the statement)")
    if code != 1 or BROKEN.search(output):
        broken = BROKEN.search(output)
        return Verdict(mutant, "BROKEN", f"{broken.group() if broken else output[-300:]} in {by}")
    return Verdict(mutant, "killed", by)
