"""The tuner names what held the workers up: a rule over plain numbers, and runs that force some of its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from patience import soon
from tenure.cli.drill_tune import command
from tenure.drills.stage.said import Said
from tenure.drills.tune import Tune, perform
from tenure.drills.tune_rule import Measured, bottleneck, explanation

# Two workers that are idle for half of the time, whatever they do.
CALM = Measured(
    workers=2, slots=10, handler_seconds=0.1, poll_seconds=1.0, listen=True, arrivals_per_second=0.0, arrived=1000,
    rows=500, seconds=5.0, first_claim_seconds=0.01, lag_p50_seconds=2.0, lag_p95_seconds=4.0, slots_used=0.5,
    claims=100, claim_seconds=1.0, cpu_share=0.2, database_share=0.1, lock_share=0.0, wal_share=0.0,
    idle_trip_seconds=0.0002, trip_seconds=0.0003,
)  # fmt: skip
TRICKLE = replace(CALM, arrivals_per_second=10.0, arrived=50, rows=49, lag_p50_seconds=0.01, lag_p95_seconds=0.02)


@pytest.mark.parametrize(
    ("measured", "name", "words"),
    [
        (replace(CALM, rows=950), "handlers", "190 rows/s are 95% of what 2 x 10 slots can do at 0.1 s a handler"),
        (replace(CALM, handler_seconds=0.0, cpu_share=0.9), "worker CPU", "used 90%"),
        (replace(CALM, claim_seconds=8.0), "claim round trips", "80% of the time, and a claim brought 5.0 rows"),
        (replace(CALM, claim_seconds=8.0, slots=90), "claim round trips", "workers up"),
        (replace(CALM, claim_seconds=8.0, trip_seconds=0.004), "server CPU", "4.0 ms under this load, 0.2 ms without"),
        (replace(CALM, claim_seconds=8.0, trip_seconds=0.004, wal_share=0.5), "WAL", "waited for the WAL 50% of it"),
        (replace(CALM, claim_seconds=8.0, trip_seconds=0.004, lock_share=0.4), "locks", "waited for locks 40% of it"),
        (replace(CALM, rows=99, arrived=99), "no backlog", "99 rows for 2 x 10 slots were done in 5.00 s"),
        (TRICKLE, "producer", "49 of 50 rows that came were done"),
        (replace(TRICKLE, listen=False, lag_p50_seconds=0.45), "poll interval", "waited 0.45 s or more"),
        (replace(CALM, listen=False, rows=0, seconds=0.0), "poll interval", "no worker polled"),
        (
            replace(CALM, listen=False, rows=1000, seconds=0.4, first_claim_seconds=0.9),
            "poll interval",
            "waited 0.90 s for the first poll",
        ),
    ],
)
def test_the_rule_names_what_was_missing_or_nearest_to_full(measured: Measured, name: str, words: str) -> None:
    assert bottleneck(measured) == name
    assert words in explanation(measured)


def test_a_poll_is_not_blamed_where_workers_are_woken_or_behind() -> None:
    waited = replace(TRICKLE, lag_p50_seconds=0.45)
    assert bottleneck(waited) == "producer"
    behind = replace(waited, listen=False, arrived=100, rows=40, cpu_share=0.9)
    assert bottleneck(behind) == "worker CPU"


def test_a_round_trip_that_is_quick_all_the_same_has_not_grown() -> None:
    quick = replace(CALM, claim_seconds=8.0, idle_trip_seconds=0.0001, trip_seconds=0.0009)
    assert bottleneck(quick) == "claim round trips"


def run(url: str, **asked: Any) -> tuple[dict[str, Any], list[Said]]:
    """A run on a stage of its own, and all that was said."""
    said: list[Said] = []
    return perform(url, Tune(**asked), said.append), said


@pytest.mark.one_server
def test_few_slots_and_slow_handlers_are_named_handlers(server_url: str) -> None:
    answer, said = run(server_url, slots=2, handler_seconds=0.5, backlog=500, seconds=3.0)
    assert answer["bottleneck"] == "handlers", answer
    assert 0 < answer["rows_per_second"] <= 2 / 0.5
    assert answer["slots_used"] > 0.8
    times = [each.fields["t"] for each in said if each.event == "tuning"]
    assert times == [t for t, _ in answer["samples"]] == sorted(times)
    assert [each.fields["exit_code"] for each in said if each.event == "worker_gone"] == [0]
    assert said[-1].event == "schema_removed"


@pytest.mark.one_server
def test_rows_that_trickle_past_sleeping_workers_are_named_poll_interval(server_url: str) -> None:
    sleepy = {"listen": False, "poll_seconds": 2.0, "arrivals_per_second": 4.0, "handler_seconds": 0.0, "seconds": 5.0}
    answer, _ = run(server_url, **sleepy)
    assert answer["bottleneck"] == "poll interval", answer


@pytest.mark.one_server
def test_the_same_rows_are_taken_at_once_by_workers_that_listen(server_url: str) -> None:
    answer, _ = run(server_url, poll_seconds=2.0, arrivals_per_second=4.0, handler_seconds=0.0, seconds=2.5)
    assert answer["bottleneck"] == "producer", answer
    assert answer["lag_p50_seconds"] < soon(0.5)


@pytest.mark.one_server
def test_a_backlog_that_is_gone_at_once_is_named_so_by_the_command(server_url: str) -> None:
    options = ["--backlog", "20", "--slots", "50", "--handler-seconds", "0", "--seconds", "3", "--on", server_url]
    answer = CliRunner().invoke(command, [*options, "--json"])
    assert answer.exit_code == 0, answer.output
    tuned = json.loads(answer.output.splitlines()[-1])
    assert (tuned["event"], tuned["rows"], tuned["bottleneck"]) == ("tuned", 20, "no backlog")


@pytest.mark.parametrize(
    "wrong", [{"workers": 5}, {"slots": 0}, {"handler_seconds": 2}, {"backlog": 5001}, {"seconds": 21}, {"more": 1}]
)
def test_what_cannot_be_tuned_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Tune)
