"""`tenure new`: what it writes runs, its numbers go together, and it overwrites nothing."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from faces.web_tools import served
from tenure import cli, settings, sql
from tenure.cli import new
from tenure.cli.health import PORT as HEALTH_PORT
from tenure.cli.serve import PORT as WEB_PORT
from tenure.errors import BadSettings
from tenure.web.credentials import credentials
from tenure.worker.worker import LAST_WORDS_SECONDS
from world import World

DRAIN_SECONDS = float(settings.DEFAULTS["TENURE_DRAIN_SECONDS"])
LEASE_SECONDS = float(settings.DEFAULTS["TENURE_LEASE_SECONDS"])


def tenure_new(*words: str) -> Result:
    return CliRunner().invoke(cli.tenure, ["new", *words], catch_exceptions=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it is written."""
    folder = tmp_path_factory.mktemp("work") / "my_shop"
    assert tenure_new(str(folder)).exit_code == 0
    return folder


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_test_it_writes_passes(shop: Path) -> None:
    # A place of its own for temporary folders: in the common one pytest would also sweep up after earlier runs.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={shop.parent / 'temp'}"]
    quiet = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=shop, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def run_app(shop: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """`python app.py 777`, where nothing but this names a database."""
    named = (*settings.URLS, *settings.LIBPQ, "PGUSER")
    quiet = {name: value for name, value in os.environ.items() if name not in named}
    command = [sys.executable, "-B", "app.py", "777"]
    return subprocess.run(command, cwd=shop, env={**quiet, **env}, capture_output=True, text=True, timeout=120)


@pytest.mark.one_server
def test_its_app_pays_in_the_database_that_the_commands_look_at(world: World, shop: Path, tmp_path: Path) -> None:
    words = psycopg.conninfo.conninfo_to_dict(world.url)
    libpq = {"PGHOST": words["host"], "PGPORT": words["port"], "PGUSER": words["user"], "PGDATABASE": words["dbname"]}
    ways = [{"TENURE_DATABASE_URL": world.url}, {"DATABASE_URL": world.url}, {k: str(v) for k, v in libpq.items()}]
    empty = {"TENURE_HOME": str(tmp_path), "TENURE_SCHEMA": world.schema}
    try:
        said = [run_app(shop, **empty, **way) for way in ways]
    finally:
        world.sql("DROP TABLE IF EXISTS public.orders, public.receipts")
    assert [(each.stdout, each.stderr) for each in said] == [
        ("order 777: receipt enqueued\n", ""),
        ("order 777: receipt duplicate\n", ""),
        ("order 777: receipt duplicate\n", ""),
    ]
    assert world.sql("SELECT partition_key FROM live") == [("order:777",)]


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"DATABASE_URL": "postgresql://tenure@127.0.0.1:1/tenure"},
        {"DATABASE_URL": "nowhere"},
        {"TENURE_PG_BIN": "/nowhere"},
    ],
)
def test_its_app_says_what_to_do_where_no_database_answers(shop: Path, tmp_path: Path, named: dict[str, str]) -> None:
    refused = run_app(shop, TENURE_HOME=str(tmp_path), **named)
    assert refused.returncode == 1
    assert refused.stderr.startswith("no database: start `tenure dev app:inbox` first, or set DATABASE_URL\n")
    assert "Traceback" not in refused.stderr


def test_it_writes_what_it_lists_and_no_placeholder_is_left(shop: Path) -> None:
    listed = tenure_new("--list", "--name", "my-shop").output.splitlines()
    assert sorted(line.split()[0] for line in listed) == written(shop)
    for path in written(shop):
        text = (shop / path).read_text()
        assert not [name for name in new._words("x") if f"@{name}@" in text], path


def test_every_file_of_the_starter_is_shipped_and_used() -> None:
    there = {each.name for each in (files("tenure.cli") / "starter").iterdir()}
    assert there == {f"{source}.in" for source, _ in new.FILES.values()}


def test_a_listing_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    listed = tenure_new("--list", "--name", "shop", str(tmp_path)).output.splitlines()
    assert written(tmp_path) == ["app.py"]
    assert [line.split()[0] for line in listed if line.endswith("(is there already)")] == ["app.py"]


def test_a_file_that_is_there_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine\n")
    (tmp_path / "tenure.toml").symlink_to(tmp_path / "nowhere")
    refused = tenure_new("--name", "shop", str(tmp_path))
    assert isinstance(refused.exception, BadSettings)
    assert str(refused.exception) == (
        "app.py, tenure.toml are there already, so nothing was written: "
        "name another folder, or add --force to overwrite"
    )
    assert written(tmp_path) == ["app.py"]
    assert (tmp_path / "app.py").read_text() == "mine\n"
    (tmp_path / "tenure.toml").unlink()
    assert tenure_new("--force", "--name", "shop", str(tmp_path)).exit_code == 0
    assert (tmp_path / "app.py").read_text() != "mine\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["9lives"], "FOLDER '9lives' cannot be the name of a package: use letters, digits, - and _"),
        (["a shop"], "or give --name"),
        (["shop."], "cannot be the name of a package"),
        (["x" * 41], "at most 40 of them"),
        (["shop", "--name", "é"], "--name 'é' cannot be the name of a package"),
        (["tenure"], "FOLDER 'tenure' is the name of the package it depends on"),
        (["file"], "'file' is a file: name a folder"),
        (["file/shop"], "'file' is a file: name a folder"),
    ],
)
def test_a_name_that_cannot_be_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    refused = tenure_new(*words)
    assert isinstance(refused.exception, BadSettings)
    assert says in str(refused.exception)
    assert written(tmp_path) == ["file"]


def test_the_folder_at_hand_gives_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "My_Shop2").mkdir()
    monkeypatch.chdir(tmp_path / "My_Shop2")
    said = tenure_new()
    assert said.output.endswith("next: tenure dev app:inbox\n")
    assert tomllib.loads(Path("pyproject.toml").read_text())["project"]["name"] == "my-shop2"


def test_its_settings_are_ours_and_the_defaults(shop: Path) -> None:
    source, table = settings.settings_file(shop)
    assert source == "tenure.toml"
    assert {name: settings.DEFAULTS[f"TENURE_{name.upper()}"] for name in table} == {
        k: str(v) for k, v in table.items()
    }


def check_patience(seconds: float) -> None:
    """Whoever stops a worker waits until it has drained and given back, and not until its leases are over."""
    assert DRAIN_SECONDS + 3 * LAST_WORDS_SECONDS < seconds < LEASE_SECONDS


def test_the_pods_numbers_go_together(shop: Path) -> None:
    migrate, worker, serve, service = documents(shop / "deploy" / "kubernetes.yaml")
    pod = worker["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    settings.check_names(env)
    check_patience(pod["terminationGracePeriodSeconds"])
    assert env["TENURE_TERMINATION_GRACE_SECONDS"] == str(pod["terminationGracePeriodSeconds"])
    assert (env["TENURE_DRAIN_SECONDS"], env["TENURE_LEASE_SECONDS"]) == ("25", "90")
    assert (float(env["TENURE_DRAIN_SECONDS"]), float(env["TENURE_LEASE_SECONDS"])) == (DRAIN_SECONDS, LEASE_SECONDS)
    assert container["ports"] == [{"name": "health", "containerPort": HEALTH_PORT}]
    assert env["TENURE_HEALTH_PORT"] == str(HEALTH_PORT)
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        "startup": {"path": "/startupz", "port": "health"},
        "liveness": {"path": "/livez", "port": "health"},
        "readiness": {"path": "/readyz", "port": "health"},
    }
    assert migrate["kind"] == "Job"
    assert migrate["spec"]["template"]["spec"]["containers"][0]["command"][2].startswith("tenure migrate")
    assert serve["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"name": "http", "containerPort": WEB_PORT}]
    assert service["spec"]["selector"] == serve["spec"]["template"]["metadata"]["labels"]
    assert {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in (migrate, worker, serve)} == {
        "my-shop:latest"
    }


@pytest.mark.one_server
def test_the_dashboard_answers_the_probes_of_a_pod_and_lets_nobody_else_in(world: World) -> None:
    with served(world, access=credentials("a secret token", "", "")) as client:
        pod = {"host": "10.1.2.3:7117"}
        assert client.get("/health/live", headers=pod).status_code == 200
        assert client.get("/health/ready", headers=pod).status_code == 200
        assert client.get("/api/rows", headers=pod).status_code == 401


@pytest.mark.one_server
def test_the_autoscaler_asks_what_tenure_sql_prints(world: World, shop: Path) -> None:
    authentication, scaled = documents(shop / "deploy" / "keda.yaml")
    (trigger,) = scaled["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    assert query.strip() in sql.text("backlog")
    assert world.conn.execute(sql.in_schema(query, world.schema).encode()).fetchall() == [(0,)]
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == "my-shop-worker"
    assert scaled["spec"]["minReplicaCount"] >= 1  # the chores and the schedules are a worker's


def test_the_units_wait_for_the_drain_and_name_the_commands_there_are(shop: Path) -> None:
    units = {}
    for name in ("worker", "serve"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read(shop / "deploy" / f"my-shop-{name}.service")
        units[name] = unit["Service"]
        assert units[name]["Type"] == "exec"  # it sends no word to systemd
        assert units[name]["KillSignal"] == "SIGTERM"
        assert units[name]["ExecStart"].split()[1] == name
        assert units[name]["RestartPreventExitStatus"] == "78"
    check_patience(float(units["worker"]["TimeoutStopSec"]))
    assert units["worker"]["Environment"] == f"TENURE_HEALTH_PORT={HEALTH_PORT}"


def test_compose_waits_for_the_drain_and_asks_for_a_token(shop: Path) -> None:
    (compose,) = documents(shop / "compose.yaml")
    parts = compose["services"]
    assert list(parts) == ["postgres", "migrate", "worker", "serve"]
    check_patience(float(parts["worker"]["stop_grace_period"].removesuffix("s")))
    assert parts["worker"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    settings.check_names(parts["serve"]["environment"])
    assert parts["serve"]["environment"]["TENURE_WEB_TOKEN"].startswith("${TENURE_WEB_TOKEN:?")
    assert parts["serve"]["environment"]["DATABASE_URL"] == parts["worker"]["environment"]["DATABASE_URL"]
    assert parts["serve"]["ports"] == [f"127.0.0.1:{WEB_PORT}:{WEB_PORT}"]
    image = (shop / "Dockerfile").read_text()
    assert 'CMD ["tenure", "worker", "app:inbox"]' in image
    assert f"TENURE_HEALTH_PORT={HEALTH_PORT}" in image


def test_the_pipeline_runs_the_test(shop: Path) -> None:
    (flow,) = documents(shop / ".github" / "workflows" / "test.yml")
    steps = flow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ['pip install -e ".[dev]"', "python -m pytest"]
    extras = tomllib.loads((shop / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "pytest" in extras["dev"]
