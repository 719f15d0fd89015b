"""Take one guard at a time out of the SQL, run the fast tests against it, and expect red: `make mutants`.

Ends with 1 if a guard can go without any test noticing, unless its line says why (`-- implied: ...`).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import psycopg  # noqa: E402
from mutants.guards import Mutant, every_mutant  # noqa: E402
from psycopg import sql as identifiers  # noqa: E402

import servers  # noqa: E402

AT_ONCE = 3  # on two cores: they also wait for locks
LIKELY = (8, 40)
KILLERS = ROOT / "mutants/killers.tsv"  # who killed what in the last whole run: asked first, so that a run is short
KILLERS_FIRST = 4
SECONDS_A_MUTANT = 420
SECONDS_FOR_ALL = 3600
CRASHED = 128 + signal.SIGSEGV  # the interpreter itself fell over: says nothing of the guard, so it is tried again
TRIES = 3
MACHINE = "tests/properties/test_state_machine.py"
SLOWER = ("tests/properties/test_interleavings.py", "tests/properties/test_lock_order.py")
LEFT_OUT = (
    "test_mutants_slice.py",
    "test_embedded.py",
    # Whole workers: too slow to run once for each guard, and what they show of the SQL others show alone.
    "test_drain.py",
    "test_idle_fleet.py",
    "test_leases_kept.py",
    "test_operated_workers.py",
    "test_stopped_worker.py",
    "test_wakeup.py",
    "test_worker.py",
    "test_worker_crash_points.py",
    "test_worker_queues.py",
)

BEYOND_THE_MACHINE = (
    "backoff",
    "enqueue",
    "keep_archive",
    "live",
    "dead",
    "attempts",
    "idempotency",
    "effects",
    "fences",
    "workers",
)
SLOW_WORDS = re.compile("at_once|many|hundred|killed|deadlock|process")  # until a baseline has measured them

# The words by which a test file shows that it is about a statement, where that is not the statement's own name.
WORDS = {
    **dict.fromkeys(
        (
            "claim_limited",
            "refilled",
            "priorities",
            "due_by_time",
            "due_by_bucket",
            "free_heads",
            "admitted",
            "give_permits",
        ),
        ("_claim(",),
    ),
    **dict.fromkeys(("presences", "presence_key"), ("fleet.notice",)),
    "claim": ("way: Way", "claim("),
    "claim_any": ("way: Way", "claim_one(", "claim("),
    "standing": ("standing", "reason"),
    "dead": ("CheckViolation", "UniqueViolation"),
    "end_attempts": ("retry", "release", "dead_letter", "sweep"),
    "enqueue_many": ("idempotency_key", "enqueue_many"),
    "enqueue": ("InvalidParameterValue", "max_attempts"),
    "next_fence": ("incarnation", "epoch"),
    "held": ("patience", "sweep"),
    "keep_archive": ("archive(", "retention"),
    "live": ("CheckViolation", "half"),
    "attempts": ("UniqueViolation", "tape"),
    "keys": ("UniqueViolation", "claim_ordered"),
    "idempotency": ("UniqueViolation", "idempotency"),
    "effects": ("UniqueViolation", "once("),
    "workers": ("register(",),
    "keep_audit": ("acts.mark(", "FROM audit"),
    "search": ("finding.",),
    "rouse": ("notes()",),
}

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Enumerate, run, print the table."""
    options = _options(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, _server(Path(folder)) as url:
        bench = Bench(Path(folder), url)
        bench.likely = options.likely
        mutants = _chosen(every_mutant(bench.package / "sql"), options)
        if not options.quick and not options.no_baseline and (red := bench.baseline()):
            print("red without any mutant:", *red, sep="\n  ")
            if not options.despite_red:
                return 1
            bench.left_out = red
        verdicts = []
        for verdict in bench.judge_all(mutants):
            print(_line(verdict), flush=True)
            verdicts.append(verdict)
    _summary(verdicts, time.monotonic() - began)
    if not (options.quick or options.statements or options.lines):
        _remember(verdicts)
    return 0 if all(verdict.fine for verdict in verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", type=int, metavar="N", help="only N mutants, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--statements", default="", help="only these, by comma: complete,claim,end_attempts")
    parser.add_argument("--lines", default="", help="only these lines of those statements, by comma")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests are green without a mutant")
    parser.add_argument("--despite-red", action="store_true", help="leave out the tests that are red without a mutant")
    parser.add_argument("--likely", action="store_true", help="only tests that speak of the statement: a first look")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    return parser.parse_args(arguments)


def _chosen(mutants: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    names = set(filter(None, options.statements.split(",")))
    lines = {int(line) for line in options.lines.split(",") if line}
    mutants = [m for m in mutants if (not names or m.statement in names) and (not lines or m.line in lines)]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.statement}:{mutant.line}  {mutant.what}")
        raise SystemExit(0)
    if options.quick:
        guarded = [mutant for mutant in mutants if mutant.implied is None]
        mutants = random.Random(options.seed).sample(guarded, min(options.quick, len(guarded)))  # noqa: S311
    return mutants


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[str]:
    """One embedded server for all mutants, or the one named by TENURE_TEST_DATABASE_URL."""
    name = "url" if os.environ.get("TENURE_TEST_DATABASE_URL") else "embedded"
    with servers.running(name, folder) as url:
        yield url


class Bench:
    """Where a mutant is tried: a copy of the package that shadows the installed one, and a database of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.left_out: list[str] = []
        self.likely = False
        self.root = folder / "root"  # as things stand now: what is edited meanwhile does not disturb the run
        self.package = self.root / "src/tenure"
        for name in ("src", "tests", "mutants"):
            shutil.copytree(ROOT / name, self.root / name)
        shutil.copy(ROOT / "pyproject.toml", self.root)
        self.files = {path: (self.root / path).read_text(encoding="utf-8") for path in _test_files(self.root)}
        self.tests = dict(part for path, text in self.files.items() for part in _test_functions(path, text))
        self.seconds = {test: 1.0 for test in self.tests if SLOW_WORDS.search(test)}
        self.killers = [line.split("\t") for line in KILLERS.read_text(encoding="utf-8").splitlines()]

    def baseline(self) -> list[str]:
        """The tests that are red without any mutant: none, or the mutants would prove little."""
        trial = Trial(self, None, [[*self.files, "--maxfail=50", "--durations=0"]], SECONDS_FOR_ALL)
        code, output = trial.end()
        red = sorted(set(re.findall(r"^(?:FAILED|ERROR) ([\w/.:]+)", output, re.MULTILINE)))
        for seconds, test in re.findall(r"^([\d.]+)s \w+ +([\w/.:]+)", output, re.MULTILINE):
            self.seconds[test] = self.seconds.get(test, 0.0) + float(seconds)
        return red if code == 0 or red else [output[-2000:]]

    def judge_all(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """Every verdict, in the order in which they come."""
        yield from (Verdict(mutant, "implied", mutant.implied) for mutant in mutants if mutant.implied is not None)
        waiting = [mutant for mutant in reversed(mutants) if mutant.implied is None]
        running: list[Trial] = []
        tries: Counter[Mutant] = Counter()
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                mutant = waiting.pop()
                running.append(Trial(self, mutant, self._in_order(mutant), SECONDS_A_MUTANT))
            time.sleep(0.05)
            for trial in [trial for trial in running if trial.over]:
                running.remove(trial)
                assert trial.mutant
                tries[trial.mutant] += 1
                if trial.process.returncode == CRASHED and tries[trial.mutant] < TRIES:
                    trial.end()
                    waiting.append(trial.mutant)
                    continue
                verdict = _verdict(trial.mutant, *trial.end())
                if verdict.word == "killed":
                    self.killers.append([trial.mutant.statement, trial.mutant.what, verdict.why.split(" ")[0]])
                yield verdict

    def _in_order(self, mutant: Mutant) -> list[list[str]]:
        """Who killed it last time; the tests that speak most of the statement and take least; more; all."""
        statement = mutant.statement
        words = WORDS.get(statement, (f"{statement}(",))
        score = {
            test: _mentions(words, text, self.files[test.split("::")[0]]) / (0.2 + self.seconds.get(test, 0.0))
            for test, text in self.tests.items()
            if not test.startswith((MACHINE, *SLOWER)) and test not in self.left_out
        }
        ranked = sorted(score, key=lambda test: -score[test])
        slower = [path for path in self.files if path in SLOWER]
        machine = [] if statement in BEYOND_THE_MACHINE else [[MACHINE]]
        few, more = LIKELY[0], max(LIKELY[0], min(LIKELY[1], sum(score[test] > 0 for test in ranked)))
        stages = [self._killers_of(mutant), ranked[:few], ranked[few:more], *machine]
        return stages if self.likely else [*stages, [*ranked[more:], *slower]]

    def _killers_of(self, mutant: Mutant) -> list[str]:
        """The tests that killed this mutant before, or the latest few that killed another of its statement."""
        this = (mutant.statement, mutant.what)
        before = [test for statement, what, test in self.killers if (statement, what) == this]
        beside = [test for statement, _, test in self.killers if statement == mutant.statement]
        names = dict.fromkeys([*before[::-1], *beside[::-1]][:KILLERS_FIRST])
        return [test for name in names for test in self.tests if test.endswith(f"/{name}")]


class Trial:
    """One mutant on its bench: a tree, a database, and the tests running in processes of their own."""

    def __init__(self, bench: Bench, mutant: Mutant | None, stages: list[list[str]], seconds: int) -> None:
        Trial.count += 1
        self.bench, self.mutant, self.name = bench, mutant, f"mutant_{os.getpid()}_{Trial.count}"
        self.tree = bench.folder / self.name
        shutil.copytree(bench.package, self.tree / "tenure")
        if mutant:
            file = self.tree / "tenure/sql" / mutant.file
            file.write_text(mutant.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        self._sql("CREATE DATABASE {}")
        url = urlunsplit(urlsplit(bench.url)._replace(path=f"/{self.name}"))
        left_out = [f"--deselect={test}" for test in bench.left_out]
        self.process = _start_tests(bench.root, self.tree, url, [[*stage, *left_out] for stage in stages if stage])
        self.deadline = time.monotonic() + seconds

    count = 0

    @property
    def over(self) -> bool:
        """True when the tests have ended, or have had their time."""
        if self.process.poll() is None and time.monotonic() > self.deadline:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return self.process.poll() is not None

    def end(self) -> tuple[int, str]:
        """The exit code of the tests and what they said; what the trial took is given back."""
        self.process.wait()
        output = (self.tree / "output").read_text(encoding="utf-8", errors="replace")
        self._sql("DROP DATABASE {} WITH (FORCE)")
        shutil.rmtree(self.tree)
        return self.process.returncode, output

    def _sql(self, statement: LiteralString) -> None:
        with psycopg.connect(self.bench.url, autocommit=True) as conn:
            conn.execute(identifiers.SQL(statement).format(identifiers.Identifier(self.name)))


def _start_tests(root: Path, tree: Path, url: str, stages: list[list[str]]) -> subprocess.Popen[bytes]:
    """Stage after stage until one is red, in a process group of its own, the copy shadowing the installed package."""
    env = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the plugins of others take four fifths of a short run
        "TENURE_TEST_DATABASE_URL": url,
        "TENURE_TEST_STEPS": "1000",
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
        "--timeout=30",
        "--timeout-method=signal",
        "--tb=short",
        "-rfE",
    ]
    check = "import sys, tenure; sys.exit(0 if tenure.__file__.startswith(sys.argv[1]) else 70)"
    commands = [[sys.executable, "-c", check, str(tree)], *([*pytest, *stage] for stage in stages)]
    line = " && ".join(shlex.join(command) for command in commands)
    with (tree / "output").open("wb") as output:
        return subprocess.Popen(
            ["sh", "-c", line], cwd=root, env=env, stdout=output, stderr=output, start_new_session=True
        )


def _test_files(root: Path) -> list[str]:
    rooms = [*(root / "tests/guarantees").glob("test_*.py"), *(root / "tests/properties").glob("test_*.py")]
    return sorted(str(path.relative_to(root)) for path in rooms if path.name not in LEFT_OUT)


def _mentions(words: Sequence[str], test: str, file: str) -> float:
    """How much a test speaks of these words; its file counts a little, for scenes written beside the test."""
    inside, around = (sum(text.count(word) for word in words) for text in (test, file))
    return min(inside, 3) + min(around, 10) / 10


def _test_functions(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The tests of a file by name, with the text of each."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{path}::{node.name}", ast.get_source_segment(text, node) or ""


def _verdict(mutant: Mutant, code: int, output: str) -> Verdict:
    if code < 0:
        return Verdict(mutant, "SURVIVED", f"no test missed it within {SECONDS_A_MUTANT} s")
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


def _line(verdict: Verdict) -> str:
    mutant = verdict.mutant
    return f"{verdict.word:9}{mutant.statement + ':' + str(mutant.line):20}{mutant.what[:70]:72}{verdict.why}"


def _summary(verdicts: Sequence[Verdict], took: float) -> None:
    words = [verdict.word for verdict in verdicts]
    told = ", ".join(
        f"{words.count(word)} {word}" for word in ("killed", "implied", "SURVIVED", "BROKEN") if word in words
    )
    print(f"\n{len(verdicts)} mutants: {told} in {took:.0f} s")


def _remember(verdicts: Sequence[Verdict]) -> None:
    killed = [
        f"{verdict.mutant.statement}\t{verdict.mutant.what}\t{verdict.why.split(' ')[0]}\n"
        for verdict in verdicts
        if verdict.word == "killed"
    ]
    KILLERS.write_text("".join(sorted(set(killed))), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
