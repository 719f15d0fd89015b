"""CPU-bound handlers that run in processes of their own, and leave notes in a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import StaleLease
from tenure.model.backoff import Fixed

inbox = Inbox()


class Odd(Exception):
    """Cannot be unpickled: it is made from two things and keeps one."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


@inbox.handler("crunch", pool="process", max_attempts=5)
def crunch(job: Job, n: int) -> None:
    """Count, or complain."""
    if n < 0:
        raise ValueError("n is negative")
    sum(range(n))


@inbox.handler("doubled", pool="process", result=True)
def doubled(n: int) -> int:
    """Twice as many."""
    return 2 * n


@inbox.handler("quick", pool="process", timeout_seconds=0.1)
def quick(job: Job) -> None:
    """Well within its time."""


@inbox.handler("receipt", pool="process", backoff=Fixed(0))
def receipt(job: Job, folder: str, table: str) -> None:
    """Write a receipt when it may."""
    with job.fenced() as tx:
        (Path(folder) / "inside").touch()
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)
        tx.execute(f"INSERT INTO {table} VALUES (%s)".encode(), [job.id])


@inbox.handler("meet", pool="process")
def meet(job: Job, folder: str, n: int) -> None:
    """Wait for the others."""
    (Path(folder) / str(job.id)).touch()
    while len(os.listdir(folder)) < n:
        time.sleep(0.01)


def linger(job: Job, folder: str) -> None:
    """Work until told to stop, and write down what was said."""
    (Path(folder) / "pid").write_text(str(os.getpid()))
    try:
        while True:
            job.check()
            time.sleep(0.01)
    except Exception as error:
        (Path(folder) / "told").write_text(f"{type(error).__name__} {job.lost} {job.cancel_asked}")
        raise


@inbox.handler("polite", pool="process", backoff=Fixed(3600))
def polite(job: Job, folder: str) -> None:
    """Look now and then whether it should stop."""
    linger(job, folder)


@inbox.handler("hasty", pool="process", timeout_seconds=0.2, backoff=Fixed(3600))
def hasty(job: Job, folder: str) -> None:
    """The same, in too little time."""
    linger(job, folder)


@inbox.handler("deaf", pool="process", backoff=Fixed(3600))
def deaf(job: Job, folder: str) -> None:
    """Go on until the gate opens, whatever anybody says."""
    (Path(folder) / "pid").write_text(str(os.getpid()))
    while not (Path(folder) / "gate").exists():
        time.sleep(0.01)


@inbox.handler("stubborn", pool="process", timeout_seconds=0.2, backoff=Fixed(3600))
def stubborn(job: Job, folder: str) -> None:
    """The same, in too little time."""
    deaf.function(job, folder)


@inbox.handler("raises", pool="process", backoff=Fixed(3600))
def raises(job: Job, what: str) -> None:
    """End badly."""
    if what == "death":
        os._exit(9)
    raise Odd("not to be ", "unpickled") if what == "odd" else StaleLease(job.lease, "test", "token_mismatch")


@inbox.handler("lazy", pool="process", backoff=Fixed(3600))
def lazy(job: Job, folder: str, n: int = 0) -> None:
    """Return at once, unless it is slow now: then it goes on until the gate opens; or die."""
    if n < 0:
        os._exit(9)
    if (Path(folder) / "slow").exists():
        deaf.function(job, folder)


@inbox.handler("sealed", pool="process")
def sealed(job: Job) -> None:
    """Completed by its own transaction; what was said to it afterwards came too late."""
    with job.fenced():
        pass
    raise StaleLease(job.lease, "check", "lease_lost")
