"""The performance tuner: measures real workers on a real backlog and names the bottleneck."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from .. import postgres, verbs
from ..model.rows import NewRow
from ..verbs import questions
from .actors.puller import KIND
from .stage.actor import Actor
from .stage.said import Said
from .stage.stage import NAMES, Stage
from .tune_rule import Measured, bottleneck, explanation

PINGS = 20
SAMPLE_SECONDS = 0.1
GONE_SECONDS_MAX = 8.0
START_SECONDS_MAX = 30.0

WAKE = "SELECT tenure.wake('default', NULL)"
DONE = "SELECT count(*) FROM tenure.archive"
FIGURES = """
SELECT count(*),
       COALESCE(extract(epoch FROM max(completed_at) - min(claimed_at)), 0)::float8,
       COALESCE(extract(epoch FROM min(claimed_at) - min(available_at)), 0)::float8,
       COALESCE(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM claimed_at - available_at)), 0)::float8,
       COALESCE(percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM claimed_at - available_at)), 0)::float8,
       COALESCE(sum(extract(epoch FROM completed_at - claimed_at)), 0)::float8
FROM tenure.archive"""


class Tune(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a run, and how much there is to do."""

    workers: Annotated[int, Meta(ge=1, le=4)] = 1
    slots: Annotated[int, Meta(ge=1, le=100)] = 10
    handler_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.05
    poll_seconds: Annotated[float, Meta(ge=0.05, le=5)] = 2.0
    listen: bool = True
    backlog: Annotated[int, Meta(ge=1, le=5000)] = 1000
    arrivals_per_second: Annotated[float, Meta(ge=0, le=500)] = 0.0  # 0: the whole backlog at once
    seconds: Annotated[float, Meta(ge=2, le=20)] = 5.0


def tune(stage: Stage, asked: Tune) -> dict[str, Any]:
    """Run it: the measurements, the bottleneck and its sentence; the workers have ended when this returns."""
    run = Run(stage, asked)
    try:
        run.start()
        run.watch()
        return told(run.measured(), run.samples)
    finally:
        run.end()


def perform(url: str, asked: Tune, tell: Callable[[Said], None]) -> dict[str, Any]:
    """The same on its own stage; nothing is left behind."""
    with Stage(url, tell) as stage:
        stage.build()
        return tune(stage, asked)


def told(m: Measured, samples: list[tuple[float, int]]) -> dict[str, Any]:
    """The figures of a run, ready for JSON."""
    return {
        "rows": m.rows,
        "seconds": round(m.seconds, 3),
        "rows_per_second": round(m.rows_per_second, 1),
        "lag_p50_seconds": round(m.lag_p50_seconds, 4),
        "lag_p95_seconds": round(m.lag_p95_seconds, 4),
        "slots_used": round(m.slots_used, 3),
        "rows_per_claim": round(m.rows_per_claim, 2),
        "claim_share": round(m.trip_share, 3),
        "worker_cpu_share": round(m.cpu_share, 3),
        "database_share": round(m.database_share, 3),
        "lock_share": round(m.lock_share, 3),
        "wal_share": round(m.wal_share, 3),
        "bottleneck": bottleneck(m),
        "explanation": explanation(m),
        "samples": [list(sample) for sample in samples],
    }


class Run:
    """A few pullers, a backlog, and what is measured from outside while they work."""

    def __init__(self, stage: Stage, asked: Tune) -> None:
        self._stage, self._asked = stage, asked
        self._pullers: list[Actor] = []
        self._came = 0
        self._doing: Counter[str] = Counter()  # what the workers' sessions did, over all looks
        self._trips: list[float] = []
        self.samples: list[tuple[float, int]] = []

    def start(self) -> None:
        """Start the workers, wait until all are in the ring, and measure an idle round trip."""
        asked = self._asked
        turned = {name: getattr(asked, name) for name in ("slots", "handler_seconds", "poll_seconds", "listen")}
        self._pullers = [self._stage.pull(name, **turned) for name in NAMES[: asked.workers]]
        for actor in self._pullers:
            self._stage.expect(
                "ring_changed",
                actor.name,
                lambda said, who=actor.name: (
                    said.who == who  # type: ignore[misc]
                    and said.event == "ring_changed"
                    and said.fields["workers"] == asked.workers
                ),
                seconds=START_SECONDS_MAX,
            )
        self._ids = [each.id for each in self._stage.run(questions.workers())]
        self._idle_trip = statistics.median(self._trip() for _ in range(PINGS))
        self._before = self._counted()

    def watch(self) -> None:
        """Enqueue the rows, and measure until they are done or the time is over."""
        began = sampled = time.monotonic()
        while (at := time.monotonic() - began) < self._asked.seconds:
            self._let_come(at)
            self._look()
            if time.monotonic() - sampled >= SAMPLE_SECONDS:
                sampled = time.monotonic()
                if self._sample(sampled - began) >= self._asked.backlog:
                    break
            self._stage.hear()
        self._sample(time.monotonic() - began)

    def measured(self) -> Measured:
        """All measurements, at the end."""
        after = self._counted()
        ((rows, seconds, first, p50, p95, held),) = self._stage.sql(FIGURES)
        used = [{name: then[name] - was[name] for name in was} for was, then in zip(self._before, after, strict=True)]
        cpu = [each["cpu_seconds"] / (seconds or self._asked.seconds) for each in used]
        asked = structs.asdict(self._asked)
        del asked["backlog"], asked["seconds"]
        return Measured(
            **asked,
            arrived=self._came,
            rows=rows,
            seconds=seconds,
            first_claim_seconds=first,
            lag_p50_seconds=p50,
            lag_p95_seconds=p95,
            slots_used=min(1.0, held / (self._asked.workers * self._asked.slots * seconds)) if seconds else 0.0,
            claims=round(sum(each["claims"] for each in used)),
            claim_seconds=sum(each["claim_seconds"] for each in used),
            cpu_share=max(*cpu, sum(cpu) / (os.cpu_count() or 1)),
            database_share=self._share("cpu", "lock", "wal", "other"),
            lock_share=self._share("lock"),
            wal_share=self._share("wal"),
            idle_trip_seconds=self._idle_trip,
            trip_seconds=statistics.median(self._trips),
        )

    def end(self) -> None:
        """Drain the workers; kill those that do not leave in time."""
        for actor in self._pullers:
            actor.drain()
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while not all(actor.silent for actor in self._pullers) and time.monotonic() < deadline:
            self._stage.hear()
        for actor in self._pullers:
            actor.kill()

    # -- private

    def _let_come(self, at: float) -> None:
        """Enqueue what is due: all rows at once, or those that should have come by now."""
        rate, backlog = self._asked.arrivals_per_second, self._asked.backlog
        due = min(backlog, int(at * rate) + 1) if rate else backlog
        if due == self._came:
            return
        rows = [NewRow(KIND, {"n": n}) for n in range(self._came, due)]
        if rate:
            self._stage.run(verbs.enqueue_many(rows))
        else:
            with self._stage.conn.transaction():
                postgres.copy(self._stage.conn, rows, self._stage.schema)
                self._stage.sql(WAKE)  # COPY sends no NOTIFY
        self._came = due

    def _look(self) -> None:
        """How long does a round trip take now, and for how many workers is the server busy?"""
        self._trips.append(self._ping())
        doing: dict[str, int] = self._stage.run(questions.at_work(self._ids))
        self._doing.update(doing)

    def _share(self, *doing: str) -> float:
        """The share of their time that the workers' sessions did this."""
        return sum(self._doing[each] for each in doing) / max(1, self._doing.total())

    def _sample(self, t: float) -> int:
        ((done,),) = self._stage.sql(DONE)
        self.samples.append((round(t, 2), done))
        self._stage.say("drill", "tuning", t=round(t, 2), done=done)
        return int(done)

    def _trip(self) -> float:
        """A round trip after a pause, as during the run: a connection that is used without a pause is faster."""
        self._stage.hear()
        return self._ping()

    def _ping(self) -> float:
        began = time.perf_counter()
        self._stage.run(questions.ping())
        return time.perf_counter() - began

    def _counted(self) -> list[dict[str, float]]:
        """What each worker counted so far."""
        since = len(self._stage.log)
        for actor in self._pullers:
            actor.tell("count")
        said = [self._stage.expect("counted", actor.name, since=since) for actor in self._pullers]
        return [{name: each.fields[name] for name in ("claims", "claim_seconds", "cpu_seconds")} for each in said]
