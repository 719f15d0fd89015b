"""How long tests wait: a limit costs nothing while it is green, and a busy machine is slow, not wrong."""

from __future__ import annotations

import os
from pathlib import Path

SECONDS_MAX = float(os.environ.get("TENURE_TEST_SECONDS", "90"))  # for a fact to become true


def soon(seconds: float) -> float:
    """What counts as soon: so many seconds, times the processes that share a core just now."""
    load = os.getloadavg()[0]
    if (said := Path("/proc/loadavg")).exists():
        load = max(load, float(said.read_text().split()[3].partition("/")[0]))  # those that run at this moment
    return seconds * max(1.0, load / (os.cpu_count() or 1))
