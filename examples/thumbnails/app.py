"""Thumbnails: many pictures, one report. Run it with `tenure worker examples.thumbnails.app:inbox`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure import Batch, Inbox, Job

inbox = Inbox()
reports: list[str] = []


@inbox.handler("thumbnail", result=True, max_attempts=1)
async def thumbnail(job: Job, path: str) -> dict[str, Any]:
    """Make one, and return where it is."""
    await job.progress(0.5, f"reading {path}")
    if path.endswith(".txt"):
        raise ValueError(f"{path} is not a picture")
    return {"path": f"{path}.small", "width": 64}


@inbox.handler("report")
async def report(job: Job) -> None:
    """Runs once, after the last of them."""
    assert job.batch is not None
    reports.append(f"{job.batch.ended} done, {job.batch.failed} of them failed")


def send(conn: Any, paths: Sequence[str]) -> Batch:
    """In the caller's transaction: all of them, or none."""
    with inbox.batch(conn, then=report, name="thumbnails") as batch:
        for path in paths:
            batch.add(thumbnail, path=path)
    return batch
