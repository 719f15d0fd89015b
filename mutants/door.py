"""The same for the door to Citus: take one guard of sql/citus at a time out of a running cluster: `make mutants-citus`.

Needs a Citus: TENURE_CITUS_BIN names a folder with initdb, postgres and the extension.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from mutants.guards import Mutant, door_mutants  # noqa: E402
from mutants.run import line_of, summary  # noqa: E402
from mutants.trial import Verdict, verdict_of  # noqa: E402

import citus_cluster  # noqa: E402

DOOR = tuple(f"tests/guarantees/test_citus_{name}.py" for name in ("door", "commits", "prepared", "moves", "roles"))
HANDOFF = tuple(
    f"tests/{name}.py" for name in ("guarantees/test_handoff", "faces/test_citus_shards", "faces/test_citus_nodes")
)
FACES = ("tests/faces/test_citus.py",)
OPTIONS = ("--maxfail=1", "-q", "--timeout=120", "--timeout-method=signal", "--tb=short", "-rfE", "-p", "no:randomly")
SECONDS_A_MUTANT = 900


def main(arguments: Sequence[str] | None = None) -> int:
    """Start clusters, run the tests without and with each mutant, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", default="", help="only these, by comma: send,adopt,keep_order")
    parser.add_argument("--lines", default="", help="only these lines of those statements, by comma")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests are green without a mutant")
    parser.add_argument("--at-once", type=int, default=2, help="trials at a time, each with a cluster of its own")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    options = parser.parse_args(arguments)
    mutants = _chosen(options)
    if options.list:
        print(*(f"{mutant.statement}:{mutant.line}  {mutant.what}" for mutant in mutants), sep="\n")
        return 0
    if not citus_cluster.BIN:
        print("TENURE_CITUS_BIN is not set: it names a folder with initdb, postgres and the Citus extension")
        return 2
    began, verdicts = time.monotonic(), []
    with ExitStack() as stack:
        benches = [stack.enter_context(bench()) for _ in range(options.at_once)]
        if not options.no_baseline and (red := benches[0].try_out(None)).word != "SURVIVED":
            print(f"red without any mutant: {red.why}")
            return 1
        for verdict in _tried(benches, mutants):
            verdicts.append(verdict)
            print(line_of(verdict), flush=True)
    summary(verdicts, time.monotonic() - began)
    return 0 if all(verdict.fine for verdict in verdicts) else 1


def _tried(benches: Sequence[Bench], mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """Every mutant on whichever bench is free, in their order; who has missed one goes first, then the quickest."""
    free: SimpleQueue[Bench] = SimpleQueue()
    for each in benches:
        each.turns = benches[0].turns
        free.put(each)

    def trial(mutant: Mutant) -> Verdict:
        taken = free.get()
        try:
            verdict = taken.try_out(mutant)
        finally:
            free.put(taken)
        if verdict.word == "killed":
            taken.turns[:] = sorted(taken.turns, key=lambda test: not test.partition("[")[0].endswith(f"/{verdict.by}"))
        return verdict

    with ThreadPoolExecutor(len(benches)) as pool:
        yield from pool.map(trial, mutants)


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    names, lines = set(filter(None, options.statements.split(","))), set(filter(None, options.lines.split(",")))
    return [
        mutant
        for mutant in door_mutants(ROOT / "src/tenure/sql")
        if (not names or mutant.statement in names) and (not lines or str(mutant.line) in lines)
    ]


@contextmanager
def bench() -> Iterator[Bench]:
    """One with a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="door-") as folder, citus_cluster.running(Path(folder)) as cluster:
        yield Bench(Path(folder), cluster.url)


class Bench:
    """A copy of the package, whose functions every run of the tests brings to the cluster anew."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.turns: list[str] = []  # every test, once they have run without a mutant
        shutil.copytree(ROOT / "src/tenure", folder / "src/tenure")

    def try_out(self, mutant: Mutant | None) -> Verdict:
        """Take the guard out, run the tests, put it back."""
        if mutant is None:
            verdict = self._run(NOTHING)
            if verdict.word == "SURVIVED":
                self.turns = _by_seconds(self.folder / "times.xml")
            return verdict
        if mutant.implied is not None:
            return Verdict(mutant, "implied", mutant.implied)
        path = self.folder / "src/tenure/sql" / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(whole), encoding="utf-8")
        try:
            return self._run(mutant)
        finally:
            path.write_text(whole, encoding="utf-8")

    def _run(self, mutant: Mutant) -> Verdict:
        near = mutant.file.stem == "handoff" or mutant.file.stem.endswith(("ranges", "waiting"))
        files = tuple(self.turns) or ((*HANDOFF, *DOOR, *FACES) if near else (*DOOR, *HANDOFF, *FACES))
        env = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TENURE_TEST_CITUS_URL": self.url,
            "TENURE_TEST_CITUS_BIN": "",
        }
        own = (f"--basetemp={self.folder / 'temp'}", f"--junitxml={self.folder / 'times.xml'}")
        command = [sys.executable, "-m", "pytest", *OPTIONS, *own, *files]
        with (self.folder / "output").open("w+", encoding="utf-8") as output:
            try:
                code = subprocess.run(
                    command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT, timeout=SECONDS_A_MUTANT
                ).returncode
            except subprocess.TimeoutExpired:
                code = -9
        return verdict_of(mutant, code, (self.folder / "output").read_text(encoding="utf-8", errors="replace"))


def _by_seconds(report: Path) -> list[str]:
    """The tests of a run, the quickest first."""
    written = ElementTree.parse(report)  # noqa: S314  by our own run
    cases = sorted(written.iter("testcase"), key=lambda case: float(case.attrib["time"]))
    return [f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}" for case in cases]


NOTHING = Mutant("none", Path("citus/door.sql"), 0, "nothing", "", "", None)

if __name__ == "__main__":
    raise SystemExit(main())
