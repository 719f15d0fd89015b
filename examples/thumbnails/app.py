"""Thumbnails: CPU-bound work in processes, many pictures, one report. Run it here: `tenure worker app:inbox`.

Pictures are PPM files (P6), so that the example needs no library. A process that runs out of memory or hangs costs its
own row an attempt, and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from tenure import Batch, Inbox, Job

inbox = Inbox()
reports: list[str] = []
WIDTH = 8


class Made(TypedDict):
    """What a handler returns, for whoever waits for it."""

    path: str
    width: int
    height: int


@inbox.handler("thumbnail", pool="process", result=True, max_attempts=1, timeout_seconds=60)
def thumbnail(job: Job, path: str) -> Made:
    """Make one beside the picture. It may run twice: the second writes the same bytes."""
    width, height, pixels = read(Path(path))
    step = max(1, width // WIDTH)
    rows = range(0, height - step + 1, step)
    small = bytearray()
    for n, y in enumerate(rows):
        job.check()  # a thread or a process must ask whether its lease is lost
        job.progress(n / len(rows), f"row {y}")
        for x in range(0, width - step + 1, step):
            for colour in range(3):
                square = [pixels[3 * ((y + dy) * width + x + dx) + colour] for dy in range(step) for dx in range(step)]
                small.append(sum(square) // len(square))
    made = Made(path=f"{path}.small", width=width // step, height=len(rows))
    Path(made["path"]).write_bytes(b"P6 %d %d 255\n" % (made["width"], made["height"]) + small)
    return made


def read(path: Path) -> tuple[int, int, bytes]:
    """Width, height and pixels of a PPM file."""
    kind, width, height, _, pixels = path.read_bytes().split(maxsplit=4)
    if kind != b"P6":
        raise ValueError(f"{path.name} is not a picture")
    return int(width), int(height), pixels


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
