"""What the workers do, leave undone, or may not do."""

from __future__ import annotations

from ..limits import Queue
from ..questions import Member
from .asks import Chore
from .verdict import Finding, spoken

LATE_SECONDS_MIN = 60.0  # a chore may be late by so much, whatever its pace
LAG_SECONDS = 300.0


def housekeeping(found: list[Chore], alive: int) -> Finding:
    """Whether every chore was done about as often as it should be."""
    late = [
        each
        for each in found
        if each.ran_seconds is None or each.ran_seconds > 3 * each.every_seconds + LATE_SECONDS_MIN
    ]
    value = {each.name: each.ran_seconds for each in found}
    if not late:
        return Finding("housekeeping", "ok", value, f"{len(found)} chores, each done in its time")
    first = late[0]
    ago = "never done" if first.ran_seconds is None else f"last done {spoken(first.ran_seconds)} ago"
    said = f"{', '.join(each.name for each in late)}: {first.name} {ago}"
    if not alive:
        return Finding("housekeeping", "warn", value, f"{said}; no worker is alive to do it", "start a worker")
    return Finding(
        "housekeeping",
        "fault",
        value,
        said,
        "start a worker without --no-housekeeping; `tenure tail --filter chore_failed`",
    )


def leases(n: int, oldest_seconds: float) -> Finding:
    """Rows whose lease is over and that nobody has taken up."""
    if not n:
        return Finding("leases", "ok", 0, "no lease has been over for long")
    said = f"{n} rows are past their lease, the first since {spoken(oldest_seconds)}, and no sweep has ended them"
    return Finding("leases", "fault", n, said, "see `housekeeping`; `tenure why ID` for one of them")


def paused(queues: list[Queue]) -> Finding:
    """Queues that somebody has stopped."""
    names = [queue.queue for queue in queues if queue.paused]
    if not names:
        return Finding("paused", "ok", [], "no queue is paused")
    said = f"paused: {', '.join(names)}"
    return Finding("paused", "warn", names, said, f"`tenure queues resume {names[0]}`, if it should run")


def fleet(workers: list[Member]) -> Finding:
    """Who works, and whether all of one version."""
    alive = [worker for worker in workers if worker.status == "alive"]
    versions = sorted({str(worker.metadata.get("version", "?")) for worker in alive})
    value = {"alive": len(alive), "versions": versions}
    if not alive:
        return Finding("fleet", "warn", value, "no worker is alive", "`tenure worker MODULE:INBOX`")
    gone = [worker.id for worker in alive if worker.present is False or worker.seen_seconds > 30]
    if gone:
        return Finding(
            "fleet",
            "warn",
            value,
            f"{len(alive)} alive, but not heard of lately: {', '.join(gone[:3])}",
            "`tenure workers`",
        )
    if len(versions) > 1:
        said = f"{len(alive)} alive, of versions {', '.join(versions)}"
        return Finding("fleet", "warn", value, said, "fine during a deploy; after it, restart the older ones")
    return Finding("fleet", "ok", value, f"{len(alive)} alive, all of version {versions[0]}")


def lag(oldest_seconds: float | None, runnable: str) -> Finding:
    """How long the oldest row that could run has waited."""
    if oldest_seconds is None:
        return Finding("lag", "ok", None, "nothing is waiting to run")
    said = f"{runnable} runnable, the oldest for {spoken(oldest_seconds)}"
    if oldest_seconds > LAG_SECONDS:
        return Finding("lag", "warn", oldest_seconds, said, "`tenure why ID` for one of `tenure rows status:runnable`")
    return Finding("lag", "ok", oldest_seconds, said)
