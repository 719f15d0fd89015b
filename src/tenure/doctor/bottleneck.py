"""The bottleneck of a live fleet: what is full while rows wait, from what workers and their sessions do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..verbs.questions import Member, spoken
from .finding import Finding, Level

DUE_SECONDS_MIN = 1.0  # a row that has been due for less does not wait for anything
LATE_SECONDS = 300.0
FULL = 0.9  # of the slots
BUSY = 0.8  # of a core, by one worker process
WAITED = 0.3  # of the time, for locks or the WAL
AT_WORK = 0.5  # of the time, on the server


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was measured."""

    due_seconds: float  # how long the oldest runnable row has been due
    slots: int
    slots_used: int
    cpu_share: float  # of one core, by the busiest worker process, since its last heartbeat
    doing: Mapping[str, float]  # what the sessions did, each as a share of their time


def measured(due_seconds: float, alive: Sequence[Member], samples: Sequence[Mapping[str, int]]) -> Fleet:
    """The figures of living workers, and of what their sessions did each time they were looked at."""
    seen: Counter[str] = Counter()
    for sample in samples:
        seen.update(sample)
    total = sum(seen.values())
    return Fleet(
        due_seconds,
        sum(int(_figure(worker, "slots")) for worker in alive),
        sum(int(_figure(worker, "slots_used")) for worker in alive),
        max((_figure(worker, "cpu_share") for worker in alive), default=0.0),
        {what: n / total for what, n in seen.items()} if total else {},
    )


def _figure(worker: Member, name: str) -> float:
    """What the worker says of itself: whoever may write its row may write anything."""
    said = worker.metadata.get(name)
    return float(said) if isinstance(said, int | float) and 0 <= said < 1e6 else 0.0


def bottleneck(fleet: Fleet) -> Finding:
    """What is full, and the next step."""
    value = {
        "bottleneck": None,
        "slots": fleet.slots,
        "slots_used": fleet.slots_used,
        "cpu_share": round(fleet.cpu_share, 2),
        "sessions": {what: round(share, 2) for what, share in fleet.doing.items()},
    }
    if fleet.due_seconds < DUE_SECONDS_MIN:
        said = f"no row waits; {fleet.slots_used} of {fleet.slots} slots were used at the last heartbeat"
        return Finding("bottleneck", "ok", value, said)
    name, why, step = _named(fleet)
    level: Level = "warn" if fleet.due_seconds > LATE_SECONDS else "ok"
    said = f"{name}: {why}; the oldest runnable row has waited {spoken(fleet.due_seconds)}"
    return Finding("bottleneck", level, {**value, "bottleneck": name}, said, step)


def _named(fleet: Fleet) -> tuple[str, str, str]:
    """The first that is full: a worker's processor makes its slots full as well, so it is asked first."""
    doing = {what: fleet.doing.get(what, 0.0) for what in ("lock", "wal", "cpu", "other", "hidden")}
    if fleet.cpu_share >= BUSY:
        why = f"the busiest worker process used {fleet.cpu_share:.0%} of a core"
        return "worker CPU", why, "start another worker process: more slots change nothing"
    if fleet.slots and fleet.slots_used >= FULL * fleet.slots:
        why = f"{fleet.slots_used} of {fleet.slots} slots are used"
        return "handlers", why, "raise --slots if handlers wait, or start another worker if they compute"
    if doing["lock"] >= WAITED:
        why = f"sessions of workers waited for locks {doing['lock']:.0%} of the time"
        return "locks", why, "`tenure doctor` names open transactions; pg_blocking_pids tells who holds them"
    if doing["wal"] >= WAITED:
        why = f"sessions of workers waited for the WAL {doing['wal']:.0%} of the time"
        return "WAL", why, "give the WAL a faster disk, or claims more rows: fewer workers with more slots"
    if (at_work := doing["cpu"] + doing["other"] + doing["lock"] + doing["wal"]) >= AT_WORK:
        why = f"sessions of workers were at work on the server {at_work:.0%} of the time"
        return "server CPU", why, "fewer workers with more slots, or a larger server"
    if doing["hidden"] >= AT_WORK:
        why = "no slot and no process is full, and what the sessions do is hidden"
        return "not seen", why, "GRANT pg_read_all_stats to this user, and look again"
    return (
        "round trips",
        "no slot, process or session is full: time goes by on the way",
        "more slots, or a nearer server",
    )
