"""compose.yaml and the Dockerfile of the tree, as far as they can be held to their word without Docker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]

import warm
from faces.test_alerts import board_sql, board_targets
from faces.test_new import check_patience
from faces.web_tools import served
from pages import ROOT, understood
from tenure import settings
from tenure.cli.health import PORT as HEALTH_PORT
from tenure.cli.serve import PORT as WEB_PORT
from tenure.postgres import migrate
from tenure.web.credentials import credentials
from world import World

TEXT = (ROOT / "compose.yaml").read_text()
GUIDE = (ROOT / "docs/guides/deployment.md").read_text()
SECRET = "tenure-on-this-machine"  # the guide says that it is none
# The words of the Compose specification that the file uses; another one needs a look at the specification.
OF_THE_FILE = {"name", "services", "configs", "volumes"}
OF_A_SERVICE = {
    *("build", "command", "configs", "depends_on", "deploy", "environment", "healthcheck", "image", "ports", "restart"),
    *("stop_grace_period", "volumes"),
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def filled(value: Any, **env: str) -> Any:
    """The file with its variables, as Compose replaces them."""
    if isinstance(value, dict):
        return {name: filled(each, **env) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, **env) for each in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: env.get(found[1]) or found[2], value)


RAW: dict[str, Any] = yaml.safe_load(TEXT)
COMPOSE = filled(RAW)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_it_has_the_services_that_readers_expect_in_words_that_compose_knows() -> None:
    assert list(SERVICES) == ["postgres", "migrate", "reader", "worker", "serve", "prometheus", "grafana"]
    assert {name for name in COMPOSE if not name.startswith("x-")} == OF_THE_FILE
    for name, service in SERVICES.items():
        assert set(service) <= OF_A_SERVICE, name
        assert "image" in service, name
        assert ":" in service["image"] or "build" in service, f"{name}: an image without a version changes by itself"
    assert SERVICES["worker"]["deploy"] == {"replicas": 2}


def test_what_a_service_waits_for_can_come() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] in CONDITIONS, name
            if how["condition"] == "service_healthy":
                assert SERVICES[other]["healthcheck"]["test"][0] == "CMD", other
            if how["condition"] == "service_completed_successfully":
                assert "restart" not in SERVICES[other], f"{other} would never be said to have ended"
    for name in ("worker", "serve"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_every_port_is_on_loopback_and_the_seeds_address_is_the_dashboards() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports == [
        *("127.0.0.1:5432:5432", f"127.0.0.1:8000:{WEB_PORT}", "127.0.0.1:9090:9090", "127.0.0.1:3000:3000"),
    ]
    assert "http://localhost:8000/health" in GUIDE


def test_the_only_secret_in_it_is_the_one_that_the_guide_says_is_none() -> None:
    others = {"POSTGRES_PASSWORD": "p-w-d", "TENURE_WEB_TOKEN": "t-k-n", "GRAFANA_PASSWORD": "g-r-f"}
    assert SECRET in GUIDE
    assert SECRET in TEXT
    assert SECRET not in json.dumps(filled(RAW, **others)), "a secret of one's own replaces it everywhere"
    for name in others:
        assert f"`{name}`" in GUIDE
        assert set(re.findall(rf"\$\{{{name}(.*?)\}}", TEXT)) == {f":-{SECRET}"}


def test_its_settings_are_ours_and_go_together() -> None:
    for name in ("worker", "serve", "migrate"):
        settings.check_names(SERVICES[name]["environment"])
        given = psycopg.conninfo.conninfo_to_dict(SERVICES[name]["environment"]["DATABASE_URL"])
        of = SERVICES["postgres"]["environment"]
        assert given == {
            "host": "postgres", "dbname": of["POSTGRES_DB"], "user": of["POSTGRES_USER"], "password": SECRET,
        }  # fmt: skip
    check_patience(float(SERVICES["worker"]["stop_grace_period"].removesuffix("s")))
    assert understood(SERVICES["serve"]["command"][1:]).info_name == "serve"
    assert understood(SERVICES["serve"]["healthcheck"]["test"][2:]).params["url"] == f"http://127.0.0.1:{WEB_PORT}"
    assert understood(["worker", "app:inbox"]).info_name == "worker"
    assert SERVICES["migrate"]["command"][:2] == ["sh", "-c"]


def test_what_it_mounts_is_there() -> None:
    for service in SERVICES.values():
        for mounted in service.get("volumes", ()):
            source, target, *_ = mounted.split(":")
            assert (ROOT / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"]
            assert target.startswith("/")
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]


def test_prometheus_scrapes_workers_and_server_where_they_listen(tmp_path: Path) -> None:
    text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    worker, serve = yaml.safe_load(text)["scrape_configs"]
    assert worker["dns_sd_configs"][0]["names"] == ["worker"]
    assert worker["dns_sd_configs"][0]["port"] == HEALTH_PORT
    assert f"TENURE_HEALTH_PORT={HEALTH_PORT}" in (ROOT / "Dockerfile").read_text()
    assert serve["static_configs"] == [{"targets": [f"serve:{WEB_PORT}"]}]
    (token,) = SERVICES["prometheus"]["configs"]
    assert serve["authorization"]["credentials_file"] == token["target"]
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed here")
    (tmp_path / "web_token").write_text(SECRET)
    (tmp_path / "prometheus.yml").write_text(text.replace(token["target"], str(tmp_path / "web_token")))
    shutil.copy(ROOT / "deploy/prometheus/alerts.yml", tmp_path)
    checked = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, timeout=120
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_grafana_finds_its_boards_and_what_they_ask() -> None:
    folder = ROOT / "deploy/grafana"
    (provider,) = yaml.safe_load((folder / "provisioning/dashboards/tenure.yaml").read_text())["providers"]
    mounted = dict(each.split(":")[:2] for each in SERVICES["grafana"]["volumes"])
    assert provider["options"]["path"] == mounted["./deploy/grafana"]
    sources = yaml.safe_load((folder / "provisioning/datasources/tenure.yaml").read_text())["datasources"]
    kinds = {each["type"]: each for each in sources}
    for board in folder.glob("*.json"):
        (asked,) = (
            each for each in json.loads(board.read_text())["templating"]["list"] if each["type"] == "datasource"
        )
        assert asked["query"] in kinds, board.name
    assert kinds["prometheus"]["url"] == "http://prometheus:9090"
    assert kinds["grafana-postgresql-datasource"]["url"] == "postgres:5432"
    assert kinds["grafana-postgresql-datasource"]["secureJsonData"] == {"password": "$READER_PASSWORD"}
    given = SERVICES["grafana"]["environment"]
    assert given["READER_PASSWORD"] == SERVICES["reader"]["environment"]["READER_PASSWORD"]
    assert not {"GF_AUTH_ANONYMOUS_ENABLED", "POSTGRES_PASSWORD"} & set(given), "who may look may send any SQL"


@pytest.mark.one_server
def test_grafana_logs_in_as_somebody_who_may_only_read(world: World) -> None:
    if (psql := shutil.which("psql")) is None:
        pytest.skip("psql is not installed here")
    text = (ROOT / "deploy/postgres/reader.sql").read_text()
    (asked,) = re.findall(r"user: (\w+)", (ROOT / "deploy/grafana/provisioning/datasources/tenure.yaml").read_text())
    prefix, login = f"{world.schema}_reads", f"{asked}_{world.schema}"
    migrate.grant(world.conn, world.schema, prefix)
    text = text.replace(asked, login).replace("tenure_readonly", f"{prefix}_readonly")
    for _ in range(2):  # it can be run again
        done = subprocess.run(
            [psql, "--no-psqlrc", world.url],
            input=text, env={**os.environ, "READER_PASSWORD": "it's"}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    board = json.loads((ROOT / "deploy/grafana/tenure-postgres.json").read_text())
    with psycopg.connect(world.url, user=login, password="it's", autocommit=True) as conn:
        for _, target in board_targets(board):
            assert conn.execute(board_sql(world, target["rawSql"]).encode()).description
        assert conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
        conn.execute("SET default_transaction_read_only = off")  # whoever sends SQL can do that
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(f"DELETE FROM {world.schema}.live".encode())
    names = [login, *(f"{prefix}_{role}" for role in ("producer", "worker", "operator", "readonly"))]
    world.sql(f"DROP OWNED BY {', '.join(names)}")
    world.sql(f"DROP ROLE {', '.join(names)}")


@pytest.mark.one_server
def test_health_answers_a_stranger_at_the_published_port_and_nothing_else_does(world: World) -> None:
    with served(world, access=credentials(SECRET, "", "")) as client:
        published = {"host": "localhost:8000"}
        told = client.get("/health", headers=published)
        assert (told.status_code, told.json()["status"]) == (200, "ready")
        assert told.json() == client.get("/health/ready", headers=published).json()
        assert client.get("/api/rows", headers=published).status_code == 401
        assert client.get("/metrics", headers={**published, "authorization": f"Bearer {SECRET}"}).status_code == 200
        world.sql("INSERT INTO migrations (version, name, checksum, kind) VALUES (9999, 'later', 'x', 'contract')")
        try:
            assert client.get("/health", headers=published).status_code == 503
        finally:
            world.sql("DELETE FROM migrations WHERE version = 9999")


@pytest.mark.one_server
def test_make_migrate_migrates_the_database_that_is_named(world: World) -> None:
    line = next(line for line in _recipe("migrate") if "tenure migrate" in line)
    assert SECRET in line
    given = {
        name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "PG", "DATABASE_URL"))
    }
    for env, meant in (({"DATABASE_URL": world.url}, world.url), ({}, f"postgresql://tenure:{SECRET}@127.0.0.1:5432")):
        shown = subprocess.run(
            ["sh", "-c", line.replace("$$", "$").replace("$(BIN)/tenure migrate", "env")],
            env={**given, **env}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert f"TENURE_DATABASE_URL={meant}" in shown.stdout
    done = warm.run("migrate", env={**given, "TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema})
    assert done.returncode == 0, done.stderr


def _recipe(target: str) -> list[str]:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].replace("\\\n", " ").replace("\t", " ").replace("@", "", 1).splitlines()
