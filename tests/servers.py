"""The real servers the tests run on: the embedded PostgreSQL, and the system's older one where apt has put it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from slices import slice_of
from tenure.embedded import attach
from tenure.settings import POSTGRES_MAJORS

_SYSTEM = Path("/usr/lib/postgresql")


def available() -> list[str]:
    """Names of the servers at hand, e.g. ["embedded", "15"]; a URL in TENURE_TEST_DATABASE_URL is used alone.

    The newest and the oldest, in a run of everything those between them, too.
    """
    if os.environ.get("TENURE_TEST_DATABASE_URL"):
        return ["url"]
    majors = sorted(path.parent.parent.name for path in _SYSTEM.glob("*/bin/initdb"))
    older = [major for major in majors if int(major) in POSTGRES_MAJORS[:-1]]
    return ["embedded", *slice_of(older, older[:1])]


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[str]:
    """A throw-away server of that name while the block lasts; gives its URL."""
    if name == "url":
        yield os.environ["TENURE_TEST_DATABASE_URL"]
        return
    with _binaries(name):
        server = attach(folder / name, fast=True, linger_seconds=0.2)
    with server:
        yield server.url


@contextlib.contextmanager
def _binaries(name: str) -> Iterator[None]:
    if name == "embedded":
        yield
        return
    before = os.environ.get("TENURE_PG_BIN")
    os.environ["TENURE_PG_BIN"] = str(_SYSTEM / name / "bin")
    try:
        yield
    finally:
        if before is None:
            del os.environ["TENURE_PG_BIN"]
        else:
            os.environ["TENURE_PG_BIN"] = before
