"""The pytest plugin: the fixtures `tenure_pg` and `testbed`, and `--tenure-crash`. Loads nothing heavy until used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .schemas import Schemas
    from .testbed import Testbed

MARK = "tenure_crash"
MEANS = (
    f"{MARK}: with --tenure-crash, run once more for each line of a handler, with the worker killed before that line"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the setting."""
    group = parser.getgroup("tenure")
    group.addoption("--tenure-crash", action="store_true", help=f"Run tests marked {MARK} once per crash point.")
    parser.addini("tenure_inbox", "MODULE:INBOX whose handlers the fixture `testbed` runs.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", MEANS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Under --tenure-crash, a marked test runs once as it is and once for each crash point of its handlers."""
    if not item.config.getoption("--tenure-crash") or item.get_closest_marker(MARK) is None:
        return None
    from .crash_runs import run_at_every_point

    return run_at_every_point(item, nextitem)


@pytest.fixture(scope="session")
def tenure_pg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Postgres for the tests: TENURE_TEST_DATABASE_URL, or one of its own that ends with the session."""
    if url := os.environ.get("TENURE_TEST_DATABASE_URL"):
        yield url
        return
    from .. import embedded

    with embedded.attach(tmp_path_factory.mktemp("tenure-pg"), fast=True, linger_seconds=0) as server:
        yield server.url
    embedded.wait_for_end(server.folder)


@pytest.fixture(scope="session")
def _tenure_schemas(tenure_pg: str) -> Iterator[Schemas]:
    from .schemas import Schemas

    with Schemas(tenure_pg) as schemas:
        yield schemas


@pytest.fixture
def testbed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tenure_pg: str, _tenure_schemas: Schemas
) -> Iterator[Testbed]:
    """A schema of its own for this test, with the verbs to run jobs and to look at rows."""
    from .crash_points import CRASH
    from .testbed import Testbed

    with _tenure_schemas.lend() as schema, Testbed(tenure_pg, schema) as made:
        made.crash = request.node.stash.get(CRASH, None)
        monkeypatch.setenv("TENURE_DATABASE_URL", made.url)
        monkeypatch.setenv("TENURE_SCHEMA", schema)
        if named := str(request.config.getini("tenure_inbox")):
            made.use(inbox_named(named))
        yield made


def inbox_named(app: str) -> Any:
    """The inbox that the setting names; UsageError with what is wrong."""
    import importlib

    from ..app.inbox import Inbox

    module, _, name = app.partition(":")
    try:
        found = getattr(importlib.import_module(module), name or "inbox")
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"tenure_inbox = {app}: {error}; write MODULE:INBOX, e.g. app:inbox") from None
    if not isinstance(found, Inbox):
        raise pytest.UsageError(f"tenure_inbox = {app}: it is a {type(found).__name__}, not an Inbox; name the Inbox")
    return found
