"""A soak of ordered keys: late producers, workers that are killed or stopped past their lease, and a judge.

Run it for as long as you like: `python -m chaos.soak_order --seconds 300 --seed 7`. Exit code 0: valid, 1: violated,
2: unknown, because too little happened for "nothing was found" to mean anything.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import servers
from apps.ledger import read
from chaos.checker import Evidence, Span, Step, Verdict, judge
from chaos.nemesis import Nemesis, Plan
from chaos.producers import Producer
from world import World, new_world

SETTLE_SECONDS = 240.0


def soak(world: World, folder: Path, plan: Plan) -> tuple[Verdict, Evidence]:
    """One run in this world: the verdict, and what it was made from."""
    world.sql("UPDATE chores SET every_seconds = 0.4 WHERE name IN ('leases', 'fleet')")
    world.sql("DELETE FROM chores WHERE name = 'every_row'")  # the net: nothing may need it
    over = threading.Event()
    nemesis = Nemesis(world, folder, plan, over)
    producers = [Producer(world, plan, number, over) for number in range(plan.producers)]
    with _ended(nemesis):
        nemesis.ready()
        for thread in [nemesis, *producers]:
            thread.start()
        _last(world, nemesis, plan)
        over.set()
        for thread in [nemesis, *producers]:
            thread.join(90)
        _settle(world)
        nemesis.ready()
        exits = Counter(f"exits with {worker.end()}" for worker in nemesis.crew)
    exits["rolled back"] = sum(producer.rolled_back for producer in producers)
    happened = _happened(world, nemesis) + exits
    evidence = _evidence(world, [each for producer in producers for each in producer.sent], folder, happened)
    return judge(evidence, plan.wanted), evidence


def _last(world: World, nemesis: Nemesis, plan: Plan) -> None:
    """As long as was asked for; on a slow machine up to four times that, until what must happen has happened."""
    began = time.monotonic()
    while (past := time.monotonic() - began) < plan.seconds * 4:
        if past >= plan.seconds and _happened(world, nemesis) >= Counter(plan.wanted):
            return
        time.sleep(0.2)


def _happened(world: World, nemesis: Nemesis) -> Counter[str]:
    """What counts as chaos, so far."""
    ends = world.sql("SELECT outcome, error FROM attempts")
    return nemesis.happened + Counter(
        {
            "reclaims": sum(outcome == "expired" for outcome, _ in ends),
            "reclaims for want of presence": ends.count(("expired", "its worker is gone")),
            "stale writes blocked": sum(len(worker.events("stale_write_blocked")) for worker in nemesis.all),
            "retries": sum(outcome == "retried" for outcome, _ in ends),
        }
    )


@contextlib.contextmanager
def _ended(nemesis: Nemesis) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in nemesis.all:
            if worker.process.poll() is None:
                worker.end(signal.SIGKILL)


def _settle(world: World) -> None:
    """Until nothing is left. Backoff is not waited for: the clock is ours."""
    by = time.monotonic() + SETTLE_SECONDS
    while world.count("live") and time.monotonic() < by:
        world.sql("UPDATE live SET available_at = clock_timestamp() WHERE available_at > clock_timestamp()")
        time.sleep(0.1)


def _evidence(world: World, sent: list[Step], folder: Path, happened: Counter[str]) -> Evidence:
    rows = world.sql("SELECT id::text, payload, status FROM inbox")
    steps = {id: Step(**payload) for id, payload, _ in rows}
    tape = world.sql(
        "SELECT row_id::text, lease_generation, date_part('epoch', claimed_at), date_part('epoch', ended_at), outcome,"
        " fence_token FROM attempts UNION ALL SELECT id::text, lease_generation, date_part('epoch', claimed_at),"
        " COALESCE(date_part('epoch', completed_at), 'infinity'), status, fence_token"
        " FROM inbox WHERE status IN ('processing', 'completed')"
    )
    return Evidence(
        sent,
        [(id, steps[id], status) for id, _, status in rows],
        [Span(steps[id], id, *facts) for id, *facts in tape],
        read(folder / "ledger.jsonl"),
        happened,
    )


def without_the_rule(world: World) -> None:
    """Let taken keys stand in nobody's way: a claim takes the first row of each key that is pending."""
    for function, guard, instead in (
        ("due_heads", "AND k.run_to IS NULL", ""),
        ("claim_ordered", "AND r.seq >= COALESCE", "AND r.status = 'pending' AND r.seq >= COALESCE"),
    ):
        ((text,),) = world.sql("SELECT pg_get_functiondef(%s::regproc)", f"{world.schema}.{function}")
        assert guard in text
        world.sql(text.replace(guard, instead))


def words(plan: Plan, verdict: Verdict, evidence: Evidence) -> str:
    """The run in a few lines."""
    counts = ", ".join(f"{what} {n}" for what, n in sorted(evidence.happened.items()))
    lines = [
        f"seed {plan.seed}, {plan.seconds:g} s, {plan.workers} workers, {plan.producers} producers, {plan.keys} keys",
        f"{len(evidence.sent)} rows, {len(evidence.spans)} attempts, {counts}",
        f"verdict: {verdict.word} {dict(verdict.kinds()) or ''} {'; '.join(verdict.missing)}".strip(),
        *verdict.violations[:10],
    ]
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    for name in ("workers", "producers", "keys", "needed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--without-the-rule", action="store_true", help="the negative control: violations are expected")
    given = vars(parser.parse_args())
    broken = given.pop("without_the_rule")
    plan = Plan(**given)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = stack.enter_context(new_world(stack.enter_context(servers.running(servers.available()[0], folder))))
        if broken:
            without_the_rule(world)
        verdict, evidence = soak(world, folder, plan)
    print(words(plan, verdict, evidence))
    return {"valid": 0, "violated": 1, "unknown": 2}[verdict.word]


if __name__ == "__main__":
    sys.exit(main())
