"""What the docs of an earlier release taught to import still works; what has moved says where it is now."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import tenure

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


def test_every_module_that_guides_and_starter_import_is_listed_as_public() -> None:
    root = Path(__file__).resolve().parents[2]
    public = (root / "docs/reference/versions.md").read_text().partition("**Not public**")[0]
    pages = [root / "README.md", *(root / "docs/guides").glob("*.md"), *(root / "src/tenure/cli/starter").glob("*.in")]
    found = set[str]()
    for module, names in re.findall(
        r"^ *(?:from|import) (tenure[\w.]*)(?: import (.+))?$",
        "\n".join(page.read_text() for page in pages),
        re.MULTILINE,
    ):
        inner = {f"tenure.{name}" for name in names.split(", ") if module == "tenure" and name not in tenure.__all__}
        found |= {module} | inner if module != "tenure" or inner else set()
    found.discard("tenure")
    assert found >= {"tenure.web", "tenure.events", "tenure.embedded"}
    assert [module for module in sorted(found) if f"`{module}" not in public] == []


def test_what_has_moved_is_the_same_object() -> None:
    from tenure.telemetry import log

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tenure.log import Bridge, JsonFormatter
    assert (Bridge, JsonFormatter) == (log.Bridge, log.JsonFormatter)
