"""The example with Django: its own tests pass, on a database that its own migrations have made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from patience import SECONDS_MAX
from servers import available

FOLDER = Path(__file__).parents[2] / "examples/django_shop"


def test_the_shop_passes_its_own_tests(started: Callable[[str], str]) -> None:
    found = conninfo_to_dict(started(available()[0]))
    where = {"PGHOST": found["host"], "PGPORT": found["port"], "PGUSER": found["user"]}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "DJANGO_"))}
    env = {**kept, **{name: str(value) for name, value in where.items()}, "PGDATABASE": f"shop{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "manage.py", "test", "--noinput"],
        cwd=FOLDER,
        env=env,
        capture_output=True,
        text=True,
        timeout=4 * SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr
