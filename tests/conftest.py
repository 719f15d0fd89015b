"""Fixtures: every test that asks for `world` runs on each real server at hand, in a schema of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import servers
from world import World, new_world


@pytest.fixture(scope="session", params=servers.available())
def server_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running server, once per server at hand."""
    folder: Path = tmp_path_factory.mktemp("pg")
    with servers.running(request.param, folder) as url:
        yield url


@pytest.fixture
def world(server_url: str) -> Iterator[World]:
    """A migrated schema of its own on a real server."""
    with new_world(server_url) as fresh:
        yield fresh


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is about the worker and not about SQL runs on one server."""
    first = servers.available()[0]
    items[:] = [
        item
        for item in items
        if item.get_closest_marker("one_server") is None
        or getattr(item, "callspec", None) is None
        or item.callspec.params.get("server_url", first) == first  # type: ignore[attr-defined]
    ]


def pytest_report_header() -> list[str]:
    """Say which servers the run has, and what is left out without them."""
    names = servers.available()
    left_out = (
        ""
        if len(names) > 1 or names == ["url"]
        else " (no system PostgreSQL 14-17 found: its half of the run is left out)"
    )
    return [f"servers: {', '.join(names)}{left_out}"]
