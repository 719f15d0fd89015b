"""What the docs of an earlier release taught to import still works; what has moved says where it is now."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

# Every line of 0.1.0's README, guides and starter that imports from Tenure, and names they reach by a dot.
TAUGHT = [
    "from tenure import Inbox, Job",
    "from tenure import Inbox, Terms, Worker",
    "from tenure import Inbox, Job, TenureError, embedded, settings",
    "from tenure import Terms, Worker, embedded, migrate",
    "from tenure.events import StaleWriteBlocked",
    "from tenure.log import Bridge, JsonFormatter",
    "import tenure.web; tenure.web.app; tenure.web.lifespan",
    "from tenure.web import Access",
]
MOVED = {"from tenure.log import Bridge, JsonFormatter": "tenure.telemetry.log"}


@pytest.mark.parametrize("line", TAUGHT)
def test_an_import_that_the_first_docs_taught_works_in_a_new_process(line: str) -> None:
    done = subprocess.run([sys.executable, "-W", "default", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    now = MOVED.get(line)
    assert ("DeprecationWarning" in done.stderr) == (now is not None)
    assert now is None or now in done.stderr


def test_what_has_moved_is_the_same_object() -> None:
    from tenure.telemetry import log

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tenure.log import Bridge, JsonFormatter
    assert (Bridge, JsonFormatter) == (log.Bridge, log.JsonFormatter)
