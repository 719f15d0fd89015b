"""The server's metrics, the alert rules and the Grafana boards: every number they speak of is one that is exported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from faces.test_metrics import HOSTILE, ID, every_event
from tenure import __version__
from tenure.events import RowEnqueued
from tenure.model.rows import Depth, Lane
from tenure.postgres import migrate
from tenure.telemetry.fleet_metrics import KEPT_SECONDS, KEPT_SHARE, QUEUES_MAX, Fleet, FleetMetrics, fleet_text
from tenure.telemetry.metrics import Metrics, Reading
from tenure.verbs import fleet
from tenure.verbs.flows import FlowCount, FlowCounts
from tenure.verbs.projections import ShardLag
from world import World

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES, RULES_TEST = DEPLOY / "prometheus/alerts.yml", DEPLOY / "prometheus/alerts_test.yml"
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
ANCHORS = {
    "no-workers",
    "lag",
    "dead-letters",
    "stale-writes",
    "leases-expire",
    "housekeeping",
    "broker-away",
    "flows",
    "projections",
    "webhooks",
    "database",
}
GIVEN_BY_PROMETHEUS = {"instance", "job", "le"}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: run tools/promtool as root"
)


def promtool(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, words)], input=text, capture_output=True, text=True, timeout=120)


# -- what the server exports


def series(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}


def test_the_server_tells_of_rows_lag_and_workers_exactly(world: World) -> None:
    for kind in ("a", "b", "dead"):
        world.enqueue(kind, queue="mail")
    world.enqueue("later", queue="mail", delay_seconds=3600)
    held = world.claim("A", 2, lanes=[Lane("mail")])
    world.fail(held[0].lease)
    world.run(fleet.register("A"))
    world.run(fleet.register("B"))
    world.run(fleet.drain("B"))
    world.sql("UPDATE live SET available_at = available_at - interval '100 seconds' WHERE status = 'pending'")
    found = series(FleetMetrics(world.schema).text(world.conn))
    rows = {status: found[f'tenure_rows{{queue="mail",status="{status}"}}'] for status in ("pending", "scheduled")}
    ended = {status: found[f'tenure_rows{{queue="mail",status="{status}"}}'] for status in ("processing", "failed")}
    assert rows | ended == {"pending": 1, "scheduled": 1, "processing": 1, "failed": 1}
    assert found['tenure_rows{queue="mail",status="dead_letter"}'] == 0
    assert 100 <= found['tenure_oldest_runnable_seconds{queue="mail"}'] < 160
    assert [found[f'tenure_workers{{status="{status}"}}'] for status in ("alive", "draining", "dead")] == [1, 1, 0]
    assert found[f'tenure_build_info{{version="{__version__}",schema="{migrate.newest()}"}}'] == 1


def test_a_queue_that_has_run_empty_is_told_of_as_empty(world: World) -> None:
    now = [0.0]
    metrics = FleetMetrics(world.schema, lambda: now[0])
    world.enqueue(queue="mail")
    assert series(metrics.text(world.conn))['tenure_rows{queue="mail",status="pending"}'] == 1
    world.sql("DELETE FROM live")
    now[0] += KEPT_SECONDS
    found = series(metrics.text(world.conn))
    assert found['tenure_rows{queue="mail",status="pending"}'] == 0
    assert found['tenure_oldest_runnable_seconds{queue="mail"}'] == 0


def test_rows_are_counted_anew_after_a_while_that_grows_with_what_counting_takes(world: World) -> None:
    times = iter([0.0, 2.0, 2.0 + 2 * KEPT_SHARE - 0.01, 2.0 + 2 * KEPT_SHARE, 200.0])
    metrics = FleetMetrics(world.schema, lambda: next(times))
    first = metrics.text(world.conn)
    world.enqueue(queue="mail")
    assert metrics.text(world.conn) == first
    assert 'queue="mail"' in metrics.text(world.conn)


def test_names_that_somebody_makes_up_do_not_grow_without_end() -> None:
    known: set[str] = set()
    depth = [Depth(f"q{n}", "pending", 1) for n in range(2 * QUEUES_MAX)]
    lag = {f"q{n}": float(n) for n in range(2 * QUEUES_MAX)}
    found = series(fleet_text(Fleet(depth, lag, {}, 9), known))
    assert found['tenure_rows{queue="other",status="pending"}'] == QUEUES_MAX
    assert found['tenure_oldest_runnable_seconds{queue="other"}'] == 2 * QUEUES_MAX - 1
    assert len(known) == QUEUES_MAX + 1
    assert sum(number for name, number in found.items() if name.startswith("tenure_rows")) == 2 * QUEUES_MAX


def server_text(queue: str = "mail") -> str:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    shard = ShardLag(queue, 0, 1, 5, 3, 1.5, "running", False, None, None, 0, since, queue)
    counts = FlowCounts([FlowCount(queue, 1, "waiting", 3)], 1.5, 2, 2.5)
    depth = [Depth(queue, "pending", 3)]
    return fleet_text(Fleet(depth, {queue: 1.5}, {"alive": 2}, 9, [shard], 2.5, flows=counts), set())


def worker_text() -> str:
    metrics = Metrics(lambda: Reading(9, 20, 3, 341, "notify", {"claimer": True, "lease_keeper": True}))
    for event in [*every_event(), RowEnqueued(ID, "k", "q", "enqueued")]:
        metrics(event)
    return metrics.text()


@needs_promtool
def test_promtool_takes_what_the_server_exports() -> None:
    answer = promtool("check", "metrics", text=server_text(HOSTILE))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert promtool("check", "metrics", text=server_text(HOSTILE).replace('\\"', '"')).returncode != 0


# -- what the rules and the boards speak of


def exported() -> dict[str, set[str]]:
    """Every series of a worker and of the server, with its labels."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(tenure_\w+)(?:\{(.*)\})? \S+$", worker_text() + server_text(), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def misspoken(expression: str) -> set[str]:
    """What an expression names that nobody exports: series, and labels that none of its series has."""
    known = exported()
    bare = re.sub(r'"[^"]*"', '""', expression)
    names = set(re.findall(r"\btenure_\w+", bare))
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", bare))
    labels |= {
        word for group in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", bare) for word in re.findall(r"\w+", group)
    }
    has = set().union(*(known.get(name, set()) for name in names), GIVEN_BY_PROMETHEUS)
    return (names - set(known)) | (labels - has) or ({"no series"} if not names else set())


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def board_targets(board: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def prometheus_targets() -> list[tuple[str, str]]:
    board = json.loads((DEPLOY / "grafana/tenure.json").read_text())
    asked = [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    return [
        *((title, target["expr"]) for title, target in board_targets(board)),
        *(("variable", each) for each in asked),
    ]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_speaks_of_what_is_exported(rule: dict[str, Any]) -> None:
    assert misspoken(rule["expr"]) == set()


@pytest.mark.parametrize(("title", "expression"), prometheus_targets())
def test_a_panel_speaks_of_what_is_exported(title: str, expression: str) -> None:
    expression = re.sub(r"label_values\((\w+), (\w+)\)", r"max by (\2) (\1)", expression)
    assert misspoken(expression) == set(), title


def test_the_search_for_a_wrong_name_would_find_one() -> None:
    assert misspoken("sum(tenure_nonsense_total)") == {"tenure_nonsense_total"}
    assert misspoken('tenure_rows{colour="red"}') == {"colour"}
    assert misspoken("sum by (verb) (tenure_workers)") == {"verb"}
    assert misspoken("vector(0)") == {"no series"}
    assert misspoken("rate(tenure_run_seconds_bucket[5m])") == set()


@needs_promtool
def test_promtool_takes_every_expression_of_the_board(tmp_path: Path) -> None:
    made = [re.sub(r"\$__rate_interval", "5m", each).replace("$queue", ".*") for _, each in prometheus_targets()[:-1]]
    listed = [{"record": f"panel:{n}", "expr": expression} for n, expression in enumerate(made)]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": listed}]}))
    answer = promtool("check", "rules", file)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_what_a_worker_and_the_server_export_has_a_place_on_the_board() -> None:
    spoken = " ".join(expression for _, expression in prometheus_targets())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    assert {name for name in families if name not in spoken} == set()


# -- the rules themselves


@needs_promtool
def test_promtool_takes_the_rules_and_each_speaks_when_it_should() -> None:
    assert promtool("check", "rules", RULES).returncode == 0
    answer = promtool("test", "rules", RULES_TEST)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@needs_promtool
@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_that_never_speaks_would_be_found(rule: dict[str, Any], tmp_path: Path) -> None:
    document = yaml.safe_load(RULES.read_text())
    for each in document["groups"][0]["rules"]:
        if each["alert"] == rule["alert"]:
            each["expr"] = "vector(1) > 2"
    (tmp_path / RULES.name).write_text(yaml.safe_dump(document))
    shutil.copy(RULES_TEST, tmp_path)
    assert promtool("test", "rules", tmp_path / RULES_TEST.name).returncode != 0


def test_every_alert_names_its_page_of_the_runbook_and_has_a_test_of_both_answers() -> None:
    pages = {rule["annotations"]["runbook"] for rule in rules()}
    assert pages == {f"docs/guides/runbook.md#{anchor}" for anchor in ANCHORS}
    tried: dict[str, set[bool]] = {}
    for test in yaml.safe_load(RULES_TEST.read_text())["tests"]:
        for each in test["alert_rule_test"]:
            tried.setdefault(each["alertname"], set()).add(bool(each["exp_alerts"]))
    assert tried == {rule["alert"]: {True, False} for rule in rules()}


# -- the board without a Prometheus


def board_sql(world: World, query: str) -> str:
    """A query of the board as Grafana sends it, at this schema."""
    text = query.replace("tenure.", f"{world.schema}.").replace("$queue", "all")
    text = re.sub(r"\$__timeFilter\(([\w.]+)\)", r"\1 BETWEEN '2020-01-01' AND '2040-01-01'", text)
    assert "$" not in text
    return text


def test_every_query_of_the_postgres_board_runs(world: World) -> None:
    board = json.loads((DEPLOY / "grafana/tenure-postgres.json").read_text())
    asked = [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    for query in [*asked, *(target["rawSql"] for _, target in board_targets(board))]:
        world.sql(board_sql(world, query))


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_board_can_be_imported_anywhere(path: Path) -> None:
    board = json.loads(path.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert {target["datasource"]["uid"] for _, target in board_targets(board)} == {"${source}"}
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(places) == len(set(places))
    assert all(x + w <= 24 for x, _y, w, _h in places)
