"""Metrics: every event is counted once, under names and labels that Prometheus takes."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import time
from typing import Any
from uuid import UUID

import pytest

from crew import working
from guarantees.facts import together
from tenure import Inbox, Job, __version__, events
from tenure.events import (
    ChoreDone,
    ClaimAnswered,
    DatabaseUnreachable,
    DeliveryMade,
    EndpointDisabled,
    EndpointTripped,
    Event,
    ExecutionStarted,
    JobCompleted,
    JobDeadLettered,
    JobRetried,
    LeaseAcquired,
    LeaseLost,
    LeasesRenewed,
    LeasesSwept,
    RaisedAfterCompletion,
    RingChanged,
    RowEnqueued,
    StaleWriteBlocked,
    StatementTurnedAway,
    Woken,
)
from tenure.telemetry.metrics import BOUNDS_SECONDS, PAIRS_MAX, Metrics, Reading
from world import World

ID = UUID(int=1)
NOW = 1_700_000_000.25
HOSTILE = 'a "quoted" \\ back\nnext line {x="y"} 1'


@pytest.fixture
def metrics() -> Metrics:
    database = {"claimer": True, "lease_keeper": False}
    return Metrics(
        lambda: Reading(6, 20, slots_used=3, buckets_owned=341, wakeup="notify", database=database), lambda: NOW
    )


def completed(kind: str = "send_receipt", queue: str = "mail", seconds: float = 0.02) -> JobCompleted:
    return JobCompleted("w", ID, 1, kind, queue, seconds)


def numbers(metrics: Metrics) -> dict[str, str]:
    """Every line of the text that is not a comment: the series and its number."""
    lines = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_a_quiet_worker_says_what_it_is(metrics: Metrics) -> None:
    assert numbers(metrics) == {
        "tenure_leases_acquired_total": "0",
        "tenure_leases_renewed_total": "0",
        "tenure_ring_changes_total": "0",
        f'tenure_build_info{{version="{__version__}",schema="6"}}': "1",
        'tenure_wakeup_source{source="notify"}': "1",
        'tenure_wakeup_source{source="poll"}': "0",
        'tenure_connected{who="claimer"}': "1",
        'tenure_connected{who="lease_keeper"}': "0",
        "tenure_slots": "20",
        "tenure_slots_used": "3",
        "tenure_buckets_owned": "341",
    }


@pytest.mark.parametrize(
    ("event", "series", "number"),
    [
        (LeaseAcquired("w", ID, 1, "k", "q"), "tenure_leases_acquired_total", "1"),
        (LeasesRenewed("w", 7), "tenure_leases_renewed_total", "7"),
        (LeasesSwept("w", 4, "worker_gone"), 'tenure_leases_expired_total{reason="worker_gone"}', "4"),
        (LeaseLost("w", ID, 1, "presence_lost"), 'tenure_leases_lost_total{reason="presence_lost"}', "1"),
        (
            StaleWriteBlocked("w", ID, 1, 2, "token_mismatch", "retry"),
            'tenure_stale_writes_blocked_total{verb="retry",reason="token_mismatch"}',
            "1",
        ),
        (
            RaisedAfterCompletion("w", ID, 1, "k", "q", "boom"),
            'tenure_raised_after_completion_total{queue="q",kind="k"}',
            "1",
        ),
        (RingChanged("w", 3, 341, 300), "tenure_ring_changes_total", "1"),
        (
            DatabaseUnreachable("w", "claimer", "no route", "OperationalError"),
            'tenure_db_errors_total{who="claimer",class="OperationalError"}',
            "1",
        ),
        (
            StatementTurnedAway("w", "lease_keeper", "lock timeout", "LockNotAvailable"),
            'tenure_db_errors_total{who="lease_keeper",class="LockNotAvailable"}',
            "1",
        ),
        (RowEnqueued(ID, "k", "q", "enqueued"), 'tenure_enqueued_total{queue="q",kind="k"}', "1"),
        (ClaimAnswered("w", 3, 0.002), 'tenure_claim_seconds_bucket{le="0.0025"}', "1"),
        (DeliveryMade("w", ID, 1, "e", 503, 0.2), 'tenure_deliveries_total{answer="5xx"}', "1"),
        (DeliveryMade("w", ID, 1, "e", 0, 15.0), 'tenure_deliveries_total{answer="none"}', "1"),
        (DeliveryMade("w", ID, 1, "e", 200, 0.2), "tenure_delivery_seconds_count", "1"),
        (EndpointTripped("w", "e", "no"), 'tenure_endpoint_changes_total{change="tripped"}', "1"),
        (EndpointDisabled("w", "e", "no"), 'tenure_endpoint_changes_total{change="disabled"}', "1"),
        (Woken("w", "notify"), 'tenure_wakeups_total{source="notify"}', "1"),
        (
            ChoreDone("w", "archive", "3 rows"),
            'tenure_housekeeping_last_run_timestamp_seconds{chore="archive"}',
            repr(NOW),
        ),
        (completed(), 'tenure_settled_total{queue="mail",kind="send_receipt",outcome="completed"}', "1"),
        (
            JobRetried("w", ID, 1, "k", "q", 0.1, "boom"),
            'tenure_settled_total{queue="q",kind="k",outcome="retried"}',
            "1",
        ),
        (
            JobDeadLettered("w", ID, 1, "k", "q", 0.1, "boom"),
            'tenure_settled_total{queue="q",kind="k",outcome="dead_lettered"}',
            "1",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Event) else "",
)
def test_an_event_is_counted(metrics: Metrics, event: Event, series: str, number: str) -> None:
    assert numbers(metrics).get(series, "0") == "0"
    metrics(event)
    assert numbers(metrics)[series] == number


def test_an_event_that_counts_for_nothing_changes_nothing(metrics: Metrics) -> None:
    before = metrics.text()
    metrics(ExecutionStarted("w", ID, 1, "k", "q"))
    assert metrics.text() == before


def test_a_histogram_counts_what_took_at_most_so_long(metrics: Metrics) -> None:
    for seconds in (0.001, 0.005, 0.3, 7200.0):
        metrics(completed(seconds=seconds))
    found = numbers(metrics)
    labels = 'queue="mail",kind="send_receipt"'
    counts = [int(found[f'tenure_run_seconds_bucket{{{labels},le="{le:g}"}}']) for le in BOUNDS_SECONDS]
    assert counts == sorted(counts)
    assert counts[0] == 2, "a bound is part of its bucket"
    assert (counts[BOUNDS_SECONDS.index(0.5)], counts[-1]) == (3, 3)
    assert found[f'tenure_run_seconds_bucket{{{labels},le="+Inf"}}'] == "4"
    assert found[f"tenure_run_seconds_count{{{labels}}}"] == "4"
    assert float(found[f"tenure_run_seconds_sum{{{labels}}}"]) == pytest.approx(7200.306)


def test_a_claim_is_measured_finer_than_a_job(metrics: Metrics) -> None:
    metrics(ClaimAnswered("w", 0, 0.0008))
    metrics(ClaimAnswered("w", 20, 0.004))
    found = numbers(metrics)
    assert [found[f'tenure_claim_seconds_bucket{{le="{le}"}}'] for le in ("0.001", "0.0025", "0.005")] == [
        "1",
        "1",
        "2",
    ]
    assert found["tenure_claim_seconds_count"] == "2"


def test_a_duplicate_is_no_row(metrics: Metrics) -> None:
    metrics(RowEnqueued(ID, "k", "q", "duplicate"))
    assert not [line for line in numbers(metrics) if line.startswith("tenure_enqueued_total")]


@pytest.mark.one_server
def test_a_worker_counts_what_its_handlers_send_and_how_it_was_woken(world: World, metrics: Metrics) -> None:
    inbox = Inbox()

    @inbox.handler("second")
    def second() -> None: ...

    @inbox.handler("first")
    async def first(job: Job) -> None:
        async with job.fenced() as tx:
            await second.using(idempotency_key="once").enqueue(tx)
            await second.using(idempotency_key="once").enqueue(tx)

    with working(world, inbox, poll_seconds=600) as hired:
        hired.worker.bus.subscribe(metrics)
        first.enqueue(world.conn)
        hired.saw(JobCompleted, 2)
    first.enqueue(world.conn)
    found = numbers(metrics)
    assert found['tenure_enqueued_total{queue="default",kind="first"}'] == "1", "not what was sent without a worker"
    assert found['tenure_enqueued_total{queue="default",kind="second"}'] == "1", "a duplicate is no row"
    assert int(found['tenure_wakeups_total{source="notify"}']) >= 1
    assert int(found["tenure_claim_seconds_count"]) >= 2


def test_a_wait_is_never_below_nothing(metrics: Metrics) -> None:
    metrics(LeaseAcquired("w", ID, 1, "k", "q", wait_seconds=-0.004))
    assert numbers(metrics)['tenure_wait_seconds_sum{queue="q",kind="k"}'] == "0.0"


def test_whatever_somebody_calls_a_queue_stays_one_value(metrics: Metrics) -> None:
    metrics(completed(queue=HOSTILE))
    (line,) = [line for line in metrics.text().splitlines() if line.startswith("tenure_settled_total")]
    value = re.fullmatch(
        r'tenure_settled_total\{queue="((?:[^"\\]|\\.)*)",kind="send_receipt",outcome="completed"\} 1', line
    )
    assert value is not None
    assert re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value[1]) == HOSTILE


def test_made_up_kinds_do_not_grow_the_text_for_ever(metrics: Metrics) -> None:
    for n in range(PAIRS_MAX + 50):
        metrics(completed(kind=f"kind-{n}"))
    settled = [line for line in numbers(metrics) if line.startswith("tenure_settled_total")]
    assert len(settled) == PAIRS_MAX + 1
    assert numbers(metrics)['tenure_settled_total{queue="other",kind="other",outcome="completed"}'] == "50"
    metrics(completed(kind="kind-0"))
    assert numbers(metrics)['tenure_settled_total{queue="mail",kind="kind-0",outcome="completed"}'] == "2"


class Sleepy(str):
    """A name that lets other threads go first whenever it is looked up."""

    def __hash__(self) -> int:
        time.sleep(0.0001)
        return str.__hash__(self)


def test_nothing_is_lost_when_threads_count_at_once_and_somebody_reads(metrics: Metrics) -> None:
    def count(_number: int) -> str:
        for _ in range(20):
            metrics(completed(kind=Sleepy("send_receipt")))
        return metrics.text()

    together(4, count)
    assert numbers(metrics)['tenure_settled_total{queue="mail",kind="send_receipt",outcome="completed"}'] == "80"
    assert numbers(metrics)['tenure_run_seconds_count{queue="mail",kind="send_receipt"}'] == "80"


def test_every_event_can_be_counted(metrics: Metrics) -> None:
    for event in every_event():
        metrics(event)
    assert metrics.text()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: run tools/promtool as root")
def test_promtool_takes_it(metrics: Metrics) -> None:
    for event in [*every_event(), completed(queue=HOSTILE, kind="ü — 日本")]:
        metrics(event)
    answer = _promtool(metrics.text())
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    broken = _promtool(metrics.text().replace('\\"', '"'))
    assert broken.returncode != 0, "and it would tell"


def _promtool(text: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=120)


def every_event() -> list[Event]:
    """One of each kind, whatever its fields."""
    values: dict[str, Any] = {"UUID": ID, "str": "word", "bool": True, "int": 3, "float": 0.5, "int | None": None}
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    return [
        kind(**{field.name: values[str(field.type)] for field in dataclasses.fields(kind)})
        for kind in kinds
        if kind is not Event
    ]
