"""The server a bench runs on: a throw-away embedded one with fsync on, or the one in TENURE_TEST_DATABASE_URL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.embedded import attach, stop

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@contextmanager
def bench_server(**settings: str) -> Iterator[str]:
    """Its URL, while the block lasts; a throw-away one has these settings too."""
    if given := os.environ.get("TENURE_TEST_DATABASE_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        home = Path(folder) / "pg"
        with attach(home, settings={**SETTINGS, **settings}) as server:
            yield server.url
        stop(home)
