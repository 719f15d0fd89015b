"""Fixtures: every test that asks for `world` runs on each real server at hand, in a schema of its own."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Generator, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

import citus_cluster
import servers
from pairs import Pair, databases, new_pair, third
from slices import left_out, left_to_the_first, server_of
from spares import Spares
from standstill import AskAgain, Watch
from world import World

# How quickly examples are made says something about the machine, not about the code.
settings.register_profile("patient", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """A test is asked again if it was red while the machine stood still."""
    watch = Watch()
    watch.start()
    config.pluginmanager.register(AskAgain(watch))


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of a server by its name: started when first asked for, it runs until the last test has ended."""
    with contextlib.ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(servers.running(name, tmp_path_factory.mktemp("pg"))))


@pytest.fixture(scope="session")
def spares(started: Callable[[str], str]) -> Iterator[Callable[[str], Spares]]:
    """The schemas of a server that wait for their next test, by its URL."""
    with contextlib.ExitStack() as stack:
        yield cache(lambda url: stack.enter_context(contextlib.closing(Spares(url))))


@pytest.fixture(scope="session", params=servers.available())
def server_url(request: pytest.FixtureRequest, started: Callable[[str], str]) -> str:
    """The URL of a running server, once per server at hand."""
    return started(request.param)


@pytest.fixture
def world(server_url: str, spares: Callable[[str], Spares]) -> Iterator[World]:
    """A schema of its own on a real server, new or as good as new."""
    with spares(server_url).world() as fresh:
        yield fresh


@pytest.fixture(scope="module")
def pair_urls(server_url: str) -> Iterator[tuple[str, str]]:
    """The addresses of two databases, each with an inbox."""
    with databases(server_url) as made:
        yield made


@pytest.fixture
def pair(pair_urls: tuple[str, str]) -> Iterator[Pair]:
    """Two inboxes, each in a database of its own."""
    with new_pair(*pair_urls) as made:
        yield made


@pytest.fixture
def trio(pair: Pair) -> Iterator[dict[str, World]]:
    """The inboxes `a`, `b` and `c`: a third beside the pair."""
    with third(pair) as c:
        yield {"a": pair.a, "b": pair.b, "c": c}


@pytest.fixture(scope="session")
def citus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[citus_cluster.Cluster]:
    """A Citus cluster with its door open; without a Citus at hand, its tests are left out."""
    if not citus_cluster.URL and not citus_cluster.BIN:
        pytest.skip(citus_cluster.NONE)
    with citus_cluster.running(tmp_path_factory.mktemp("citus")) as found:
        yield found


@pytest.fixture
def cluster(citus: citus_cluster.Cluster) -> citus_cluster.Cluster:
    """The same without the rows of earlier tests."""
    citus.empty()
    return citus


# The files that take longest, longest first: one that begins last would keep the whole run waiting.
LONG = (
    "test_fenced_callers", "test_scenes", "test_failover", "test_types", "test_django", "test_dev", "test_survival",
    "test_embedded", "test_shell", "test_rolling_deploy",
    "test_process_pool", "test_lease_race", "test_rows", "test_openapi", "test_finding", "test_demo",
    "test_mutants_slice",
    "test_http_stage_ends", "test_worker", "test_drills", "test_playground", "test_state_machine", "test_due_rows",
    "test_soak_order", "test_limits", "test_roles", "test_restores", "test_leases_kept", "test_wakeup",
    "test_idle_fleet", "test_benches",
)  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All tests stay to the end: to look for garbage among them takes two fifths of the time to collect them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first; what is about the worker and not about SQL runs on one server; a slice of what is slow."""
    first = servers.available()[0]
    items[:] = [
        item
        for item in sorted(items, key=_turn)
        if item.get_closest_marker("one_server") is None or server_of(item, first) == first
    ]
    asked_by_name = config.option.keyword or any(".py" in argument for argument in config.args)
    if not asked_by_name:
        later = left_out(items)
        items[:] = [item for item in items if item not in later]
        later = left_to_the_first(items, first)
        items[:] = [item for item in items if item not in later]


def _turn(item: pytest.Item) -> int:
    return LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)


@pytest.hookimpl(optionalhook=True)  # not with -p no:xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """A file at a time; the browser's files are one, because each process that has some builds a shop for them."""
    return ByFile(config, log)


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "browser" if "/browser/" in file else file


def pytest_report_header() -> list[str]:
    """Say which servers the run has, and what is left out without them."""
    names = servers.available()
    left_out = (
        ""
        if len(names) > 1 or names == ["url"]
        else " (no system PostgreSQL 14-17 found: its half of the run is left out)"
    )
    citus = citus_cluster.URL or citus_cluster.BIN
    return [f"servers: {', '.join(names)}{left_out}", f"citus: {citus or citus_cluster.NONE}"]
