"""A process that has imported the tests once and forks for each trial: of a short run nine tenths are imports.

In: one trial a line, as JSON. Out: what the tests say in the file `output`, then their exit code in the file `ended`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tenure
from tenure import sql


def main(tree: Path, files: list[str]) -> None:
    """Import, then fork for each trial until there are no more."""
    assert tenure.__file__.startswith(str(tree)), "the copy must shadow the installed package"
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main(["--collect-only", "-q", "-p", "pytest_timeout", *files])
    assert code == 0, f"the tests cannot be collected: pytest ended with {code}"
    for asked in sys.stdin:
        code = _in_a_fork(tree, **json.loads(asked))
        (tree / "ending").write_text(str(code))
        (tree / "ending").rename(tree / "ended")


def _in_a_fork(tree: Path, url: str, stages: list[list[str]], seconds: int, reach: str) -> int:
    """The exit code of the tests: 0, or that of the first stage that is red; negative for a signal."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _into(tree / "output")
        os.environ["TENURE_TEST_DATABASE_URL"] = url
        os._exit(_run(stages, [Reach(url, Path(reach))] if reach else []))
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what the tests have left behind
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)


def _into(output: Path) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _run(stages: list[list[str]], plugins: list[Any]) -> int:
    for remembered in _caches():
        remembered.cache_clear()  # of the SQL, which has changed
    code = 0
    for stage in stages:
        code = int(pytest.main(stage, plugins))
        if code:
            break
    sys.stdout.flush()
    return code


def _caches() -> list[Any]:
    kind = type(functools.cache(len))
    return [each for each in gc.get_objects() if isinstance(each, kind) and each.__module__.startswith("tenure")]


class Reach:
    """Which statements and which functions of the database each test runs: no other guard can be missed by it."""

    def __init__(self, url: str, file: Path) -> None:
        self.file, self.conn = file, psycopg.connect(url, autocommit=True)
        self.conn.execute(f"ALTER DATABASE {self.conn.info.dbname} SET track_functions = 'all'")
        self.calls: dict[str, int] = {}
        self.found: dict[str, set[str]] = {}
        self.text = sql.text

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what this one runs."""
        names: set[str] = set()
        sql.prepared.cache_clear()
        sql.portable.cache_clear()
        sql.text = lambda name: names.add(name) or self.text(name)  # type: ignore[func-returns-value,assignment]
        result = yield
        calls: dict[str, int] = dict(self.conn.execute(_CALLS).fetchall())
        names |= {name for name, number in calls.items() if number > self.calls.get(name, 0)}
        self.calls = calls
        for name in names:
            self.found.setdefault(name, set()).add(item.nodeid.partition("[")[0])
        return result

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        self.file.write_text(json.dumps({name: sorted(tests) for name, tests in sorted(self.found.items())}))


_CALLS = "SELECT funcname, sum(calls) FROM pg_stat_user_functions GROUP BY 1"

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
