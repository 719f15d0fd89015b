"""Take one guard at a time out of the SQL, run the fast tests against it, and expect red: `make mutants`.

Ends with 1 if a guard can go without any test noticing, unless its line says why (`-- implied: ...`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from mutants.guards import Mutant, every_mutant  # noqa: E402
from mutants.trial import Bench, Trial, Verdict, verdict_of  # noqa: E402
from mutants.witnesses import Witnesses  # noqa: E402

import servers  # noqa: E402

AT_ONCE = 3  # on two cores: they also wait for locks
KILLERS = ROOT / "mutants/killers.tsv"  # who killed what in the last whole run: asked first, so that a run is short
REACH = ROOT / "mutants/reach.json"  # what each test runs and what it costs, as the last baseline found
SECONDS_A_MUTANT = 1200
SECONDS_FOR_ALL = 3600
TRIES = 3  # when the interpreter itself fell over, which says nothing of the guard


def main(arguments: Sequence[str] | None = None) -> int:
    """Enumerate, run, print the table."""
    options = _options(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, _servers(Path(folder), options.at_once) as urls:
        bench = Bench(ROOT, Path(folder), urls)
        witnesses = Witnesses(bench.root, KILLERS, stages=options.stages)
        witnesses.recall(REACH)
        mutants = _chosen(every_mutant(bench.package / "sql"), witnesses, options)
        bench.warm_up(witnesses.needed(mutants))
        if not options.quick and not options.no_baseline and (red := _baseline(bench, witnesses)):
            print("red without any mutant:", *red, sep="\n  ")
            if not options.despite_red:
                return 1
            witnesses.left_out = red
        if options.baseline:
            return 0
        verdicts = []
        for verdict in _judge(bench, witnesses, mutants):
            print(line_of(verdict), flush=True)
            verdicts.append(verdict)
            if not options.quick:
                _remember(verdicts, witnesses, whole=False)
        bench.close()
    summary(verdicts, time.monotonic() - began)
    if not options.quick:
        _remember(verdicts, witnesses, whole=len(mutants) == len(every_mutant(ROOT / "src/tenure/sql")))
    return 0 if all(verdict.fine for verdict in verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", type=int, metavar="N", help="only N mutants, by --seed, of those that a test is known to miss"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--statements", default="", help="only these, by comma: complete,claim,end_attempts")
    parser.add_argument("--lines", default="", help="only these lines of those statements, by comma")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many trials side by side")
    parser.add_argument("--unknown", action="store_true", help="only those that no test is known to miss")
    parser.add_argument("--known", action="store_true", help="only those that a test is known to miss")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests are green without a mutant")
    parser.add_argument("--baseline", action="store_true", help="only learn what each test runs and what it costs")
    parser.add_argument("--despite-red", action="store_true", help="leave out the tests that are red without a mutant")
    parser.add_argument("--stages", type=int, metavar="N", help="a first look: only the first N groups of tests")
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    return parser.parse_args(arguments)


def _chosen(mutants: list[Mutant], witnesses: Witnesses, options: argparse.Namespace) -> list[Mutant]:
    names = set(filter(None, options.statements.split(",")))
    lines = {int(line) for line in options.lines.split(",") if line}
    mutants = [m for m in mutants if (not names or m.statement in names) and (not lines or m.line in lines)]
    if options.unknown:
        mutants = [mutant for mutant in mutants if mutant.implied is None and not witnesses.know(mutant)]
    if options.known or options.quick:
        mutants = [mutant for mutant in mutants if mutant.implied is None and witnesses.know(mutant)]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.statement}:{mutant.line}  {mutant.what}")
        raise SystemExit(0)
    if options.quick:
        mutants = _some(mutants, options.quick, random.Random(options.seed))  # noqa: S311
    return mutants


def _some(mutants: list[Mutant], number: int, chance: random.Random) -> list[Mutant]:
    """So many by chance, from as many statements as there are."""
    turn: Counter[str] = Counter()
    ranked = []
    for mutant in chance.sample(mutants, len(mutants)):
        ranked.append((turn[mutant.statement], mutant))
        turn[mutant.statement] += 1
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:number]]


@contextlib.contextmanager
def _servers(folder: Path, at_once: int) -> Iterator[list[str]]:
    """An embedded server for each mutant at once, or the one named by TENURE_TEST_DATABASE_URL, one after the other.

    On one server for all, open transactions of one trial turn tests of another red: its guard would pass for missed.
    """
    with contextlib.ExitStack() as stack:
        if os.environ.get("TENURE_TEST_DATABASE_URL"):
            yield [stack.enter_context(servers.running("url", folder))]
        else:
            yield [stack.enter_context(servers.running("embedded", folder / str(n))) for n in range(at_once)]


def _baseline(bench: Bench, witnesses: Witnesses) -> list[str]:
    """The tests that are red without any mutant: none, or the mutants would prove little."""
    stages = [[*witnesses.files, "--maxfail=50", "--durations=0"]]
    code, output = Trial(bench, None, stages, SECONDS_FOR_ALL, reach=str(REACH)).end()
    witnesses.measured(output, REACH)
    red = sorted(set(re.findall(r"^(?:FAILED|ERROR) ([\w/.:]+)", output, re.MULTILINE)))
    return red if code == 0 or red else [output[-2000:]]


def _judge(bench: Bench, witnesses: Witnesses, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """Every verdict, in the order in which they come."""
    yield from (Verdict(mutant, "implied", mutant.implied) for mutant in mutants if mutant.implied is not None)
    waiting = [mutant for mutant in reversed(mutants) if mutant.implied is None]
    running: list[tuple[Mutant, Trial]] = []
    tries: Counter[Mutant] = Counter()
    while waiting or running:
        while waiting and bench.free:
            mutant = waiting.pop()
            running.append((mutant, Trial(bench, mutant, witnesses.in_order(mutant), SECONDS_A_MUTANT)))
        time.sleep(0.05)
        for mutant, trial in [pair for pair in running if pair[1].over]:
            running.remove((mutant, trial))
            verdict = verdict_of(mutant, *trial.end())
            tries[mutant] += 1
            if verdict.word == "CRASHED" and tries[mutant] < TRIES:
                waiting.append(mutant)
                continue
            if verdict.word == "killed":
                witnesses.noticed(mutant, verdict.by)
            yield verdict


def line_of(verdict: Verdict) -> str:
    mutant = verdict.mutant
    return f"{verdict.word:9}{mutant.statement + ':' + str(mutant.line):20}{mutant.what[:70]:72}{verdict.why}"


def summary(verdicts: Sequence[Verdict], took: float) -> None:
    words = [verdict.word for verdict in verdicts]
    told = ", ".join(
        f"{words.count(word)} {word}"
        for word in ("killed", "implied", "SURVIVED", "BROKEN", "CRASHED")
        if word in words
    )
    print(f"\n{len(verdicts)} mutants: {told} in {took:.0f} s")


def _remember(verdicts: Sequence[Verdict], witnesses: Witnesses, *, whole: bool) -> None:
    """Keep who killed what; a run over a part keeps what is known of the rest."""
    tried = {(verdict.mutant.statement, verdict.mutant.what) for verdict in verdicts}
    kept = [] if whole else [line for line in witnesses.known if tuple(line[:2]) not in tried]
    kept += [[v.mutant.statement, v.mutant.what, v.by] for v in verdicts if v.word == "killed"]
    KILLERS.write_text("".join(sorted({"\t".join(line) + "\n" for line in kept})), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
