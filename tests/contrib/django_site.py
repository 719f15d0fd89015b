"""The Django project of the tests on a database of its own, and its manage.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from patience import SECONDS_MAX

FOLDER = Path(__file__).parent / "site"
DJANGO6 = Path(__file__).parents[2] / ".django6/bin/python"


@dataclass(frozen=True)
class Site:
    """One project, one database."""

    url: str  # of the server
    name: str  # of the database

    @property
    def address(self) -> str:
        """Of the database."""
        return make_conninfo(self.url, dbname=self.name)

    def env(self, **more: str) -> dict[str, str]:
        """What the project reads."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_"))}
        return {**kept, "SITE_DATABASE": self.url, "SITE_NAME": self.name, "SITE_TEST_NAME": self.name, **more}

    def manage(self, *words: str, python: str | Path = sys.executable, **more: str) -> subprocess.CompletedProcess[str]:
        """Run manage.py to its end."""
        command = [str(python), "manage.py", *words]
        return subprocess.run(
            command, cwd=FOLDER, env=self.env(**more), capture_output=True, text=True, timeout=4 * SECONDS_MAX
        )

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start manage.py, and leave it running."""
        command = [sys.executable, "manage.py", *words]
        return subprocess.Popen(command, cwd=FOLDER, env=self.env(**more), stderr=subprocess.PIPE, text=True)

    def sql(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        """Plain SQL in its database."""
        with psycopg.connect(self.address, autocommit=True) as conn:
            cursor = conn.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def site_on(url: str, name: str) -> Iterator[Site]:
    """A database for it, dropped at the end."""
    site = Site(url, name)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield site
        finally:
            conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
