"""A ledger on disk: one line for each deed of a handler, whole or not at all, whatever becomes of its process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tenure.app.job import Job


def note(what: str, job: Job, **more: Any) -> None:
    """Append one line."""
    line = {
        "what": what,
        "id": str(job.id),
        "token": job.token,
        "pid": os.getpid(),
        "at_ns": time.monotonic_ns(),
        **more,
    }
    file = os.open(os.environ["TENURE_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def read(path: Path) -> list[dict[str, Any]]:
    """The lines so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
