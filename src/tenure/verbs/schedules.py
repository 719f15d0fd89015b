"""Schedules: pure rules decide when one fires; Statements plan, fire and stop it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ..errors import BadSettings
from ..model.payload import check_name, check_row, encode
from ..model.rows import MAX_ATTEMPTS, Enqueued, NewRow
from .statement import Rows, Statement

MISFIRES = ("once", "skip", "all")
GRACE_SECONDS = 60.0
CATCH_UP_MAX = 1000
RESTS_UNTIL = datetime(9999, 1, 1, tzinfo=UTC)  # next_at of a schedule whose home is another inbox
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """Enqueue a row of this kind whenever cron says so, by the clock of a time zone.

    The row has this payload; with `tick_as` it has one more field of that name: the time of the tick in UTC, like
    "2026-10-25T00:30:00Z". `misfire` says what happens to ticks that nobody fired in time, because no worker ran or the
    schedule was paused: `once` enqueues one row, for the latest tick; `skip` the same, but only if that tick is younger
    than 60 s; `all` enqueues a row for each.
    """

    name: str
    cron: str
    kind: str
    payload: Any = field(default_factory=dict)
    zone: str = "UTC"
    queue: str = "default"
    key: str | None = None
    priority: int = 0
    max_attempts: int = MAX_ATTEMPTS
    ordered: bool = False
    misfire: str = "once"
    tick_as: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "schedule")
        check_row(
            NewRow(
                self.kind,
                key=self.key,
                queue=self.queue,
                priority=self.priority,
                max_attempts=self.max_attempts,
                ordered=self.ordered,
            )
        )
        text = encode(self.payload)
        if self.tick_as is not None and not text.startswith("{"):
            raise BadSettings(f"tick_as={self.tick_as!r} adds a field to the payload {text[:40]}: make that an object")
        if self.tick_as is not None:
            check_name(self.tick_as, "tick_as")
        _check_misfire(self.misfire)
        next_after(self.cron, self.zone, datetime(2000, 1, 1, tzinfo=UTC))


def next_after(cron: str, zone: str, after: datetime) -> datetime:
    """The first tick later than `after`, in UTC; BadSettings if cron or zone cannot be read.

    When clocks change, a fixed time of day fires once: in spring, if the clock jumps over it, right after the jump; in
    autumn, if the clock shows it twice, the first time. Where the minute or the hour begins with a star, ticks follow
    the local clock.
    """
    local = after.astimezone(_zone(zone))
    try:
        ticks = CronSim(_fields(cron), local)
        # In autumn the local clock repeats an hour: skip ticks that are not later than `after`.
        found = next((tick for each in ticks if (tick := each.astimezone(UTC)) > after), None)
    except (CronSimError, ValueError) as error:
        raise BadSettings(f"cron={cron!r} cannot be read ({error}): write it like '30 2 * * MON-FRI'") from None
    if found is None:
        raise BadSettings(f"cron={cron!r} names no day within fifty years: correct its day, month or weekday")
    return found


def local(at: datetime, zone: str) -> datetime:
    """This moment by the clock of a zone; BadSettings if the zone is not known here."""
    return at.astimezone(_zone(zone))


def _fields(cron: str) -> str:
    if not isinstance(cron, str):
        raise ValueError("not text")
    expanded = ALIASES.get(cron.strip().lower(), cron)
    fields = expanded.split()
    if len(fields) == 6 and not fields[1].startswith("*") and not fields[2].startswith("*"):
        raise ValueError("with seconds, a fixed time of day would be skipped in spring and run twice in autumn")
    return expanded


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # works even on a machine without time zone data
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise BadSettings(
            f"zone={name!r} is not known here: write it like 'Europe/Berlin', or `pip install -U tzdata` for new ones"
        ) from None


def _check_misfire(misfire: str) -> None:
    if misfire not in MISFIRES:
        raise BadSettings(f"misfire={misfire!r} must be {', '.join(MISFIRES[:-1])} or {MISFIRES[-1]}")


class Due(NamedTuple):
    """A schedule that is due; `at` is the server's time of the question."""

    name: str
    cron: str
    zone: str
    misfire: str
    next_at: datetime
    at: datetime


def ticks_due(due: Due) -> tuple[list[datetime], datetime]:
    """The ticks to enqueue by the misfire policy, oldest first, and the next_at that follows them."""
    _check_misfire(due.misfire)
    if due.misfire == "all":
        return _every(due)
    latest = _latest(due)
    late = due.misfire == "skip" and (due.at - latest).total_seconds() >= GRACE_SECONDS
    return [] if late else [latest], next_after(due.cron, due.zone, due.at)


def _every(due: Due) -> tuple[list[datetime], datetime]:
    ticks = [due.next_at]
    while ticks[-1] <= due.at and len(ticks) <= CATCH_UP_MAX:
        ticks.append(next_after(due.cron, due.zone, ticks[-1]))
    return ticks[:-1], ticks[-1]


def _latest(due: Due) -> datetime:
    """The latest tick that is due, by binary search: a year of missed minutes is half a million ticks."""

    def after(seconds: int) -> datetime:
        return next_after(due.cron, due.zone, due.next_at + timedelta(seconds=seconds))

    seconds = range(int((due.at - due.next_at).total_seconds()) + 1)
    passed = bisect_left(seconds, True, key=lambda n: after(n) > due.at)
    return after(passed - 1) if passed else due.next_at


class Fired(NamedTuple):
    """One firing of a schedule: its ticks and the row of each; none if the misfire policy skipped them."""

    name: str
    ticks: tuple[datetime, ...]
    rows: tuple[Enqueued, ...]
    next_at: datetime


class Planned(NamedTuple):
    """A schedule as the database stores it."""

    name: str
    cron: str
    zone: str
    next_at: datetime
    last_at: datetime | None
    paused: bool
    misfire: str
    kind: str
    payload: str
    tick_as: str | None
    queue: str
    partition_key: str | None
    priority: int
    max_attempts: int
    ordered: bool
    created_at: datetime
    updated_at: datetime

    @property
    def rests(self) -> bool:
        """True if its home is another inbox: here it enqueues nothing."""
        return self.next_at >= RESTS_UNTIL


def plan(schedule: Schedule, before: Planned | None = None, since: datetime | None = None) -> Statement[datetime]:
    """Add a schedule, or change the one of that name; returns when it is next due.

    If cron and zone are unchanged, it keeps its next time; else it counts from now. A paused schedule stays paused.
    `before` is what another inbox had of it: a new one goes on from there. `since` is from when on a new one counts,
    if not from now.
    """
    as_given = ("name", "cron", "zone", "misfire", "kind", "tick_as", "queue", "priority", "max_attempts", "ordered")
    params = {each: getattr(schedule, each) for each in as_given}
    params |= {"payload": encode(schedule.payload), "partition_key": schedule.key}

    def read(rows: Rows) -> Statement[datetime]:
        next_at = next_after(schedule.cron, schedule.zone, since or rows[0][0])
        if before and not before.rests and (before.cron, before.zone) == (schedule.cron, schedule.zone):
            next_at = before.next_at
        return Statement("plan", {**params, "next_at": next_at}, lambda rows: rows[0][0])

    return Statement("clock", {}, read)


def tick(due: Due, ticks: Sequence[datetime], next_at: datetime) -> Statement[Fired | None]:
    """Enqueue these ticks and set next_at; None if the schedule has changed since it was read."""

    def read(rows: Rows) -> Fired | None:
        sent = [row for row in rows if row[0] is not None]
        answers = tuple(Enqueued(id, outcome) for id, outcome, _ in sent)
        return Fired(due.name, tuple(at for *_, at in sent), answers, next_at) if rows else None

    return Statement(
        "tick",
        {
            "name": due.name,
            "cron": due.cron,
            "zone": due.zone,
            "expected": due.next_at,
            "next_at": next_at,
            "ticks": list(ticks),
        },
        read,
    )


def fire(name: str) -> Statement[bool]:
    """Enqueue a row of this schedule now, besides its ticks, also if it is paused; False if there is none."""
    return Statement("fire", {"name": name}, bool)


def unplan(name: str) -> Statement[bool]:
    """Delete a schedule; False if there was none. The rows it enqueued stay."""
    return Statement("unplan", {"name": name}, bool)


def rest(planned: Planned) -> Statement[bool]:
    """Enqueue nothing more from it in this inbox, until it is planned here again; False if it has fired since."""
    return Statement("rest", {"name": planned.name, "expected": planned.next_at}, bool)


def pause_schedule(name: str) -> Statement[bool]:
    """Enqueue nothing from this schedule until it is resumed; False if there is none."""
    return Statement("pause_schedule", {"name": name}, bool)


def resume_schedule(name: str) -> Statement[bool]:
    """Resume a paused schedule; its misfire policy decides on missed ticks. False if there is none."""
    return Statement("resume_schedule", {"name": name}, bool)


def schedules() -> Statement[list[Planned]]:
    """Every schedule, by name."""
    return Statement("schedules", {}, lambda rows: [Planned(*row) for row in rows])


def due_schedules(*, after: str = "", n: int = 100) -> Statement[list[Due]]:
    """Schedules due now, at most n, in name order; `after` is the last name of the previous page."""
    return Statement("due_schedules", {"after": after, "n": n}, lambda rows: [Due(*row) for row in rows])
