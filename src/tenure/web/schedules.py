"""Schedules: what they enqueue and when, in words and in their zone; run, pause, resume, remove."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from cronsim import CronSim

from ..errors import BadSettings
from ..verbs import schedules as verbs
from ..verbs.schedules import ALIASES, Planned, local, next_after
from ..verbs.statement import Statement
from .answers import utc
from .http_errors import Refused
from .route import Ask, Error, Route, Why
from .site import Site
from .store import in_thread

COMING_MAX = 5


class ScheduleShape(msgspec.Struct, frozen=True):
    """One schedule, and when it fires next; `coming` are its next times by the clock of its zone, with the offset."""

    name: str
    cron: str
    words: str
    time_zone: str
    kind: str
    queue: str
    paused: bool
    next_at: datetime
    last_at: datetime | None
    misfire: str
    payload: str | None
    coming: list[str]


class SchedulesShape(msgspec.Struct, frozen=True):
    """Every schedule, by name."""

    schedules: list[ScheduleShape]


class Switched(msgspec.Struct, frozen=True):
    """Which one."""

    schedule: str
    changed: bool


async def schedules(ask: Ask[Any, None]) -> SchedulesShape:
    """Every schedule with its cron in words, and its next times."""
    found = await ask.site.store.ask(verbs.schedules())
    return SchedulesShape(await in_thread(lambda: [_shape(each, ask.site) for each in found]))


def _shape(each: Planned, site: Site) -> ScheduleShape:
    return ScheduleShape(
        name=each.name,
        cron=each.cron,
        words=_words(each.cron),
        time_zone=each.zone,
        kind=each.kind,
        queue=each.queue,
        paused=each.paused,
        next_at=utc(each.next_at),
        last_at=utc(each.last_at),
        misfire=each.misfire,
        payload=site.payload(each.payload),
        coming=_coming(each),
    )


def _coming(each: Planned) -> list[str]:
    """Its next times, the first of them as the database has it; one alone where cron or zone cannot be read here.

    None if its home is another inbox.
    """
    if each.rests:
        return []
    times = [each.next_at]
    try:
        while len(times) < COMING_MAX:
            times.append(next_after(each.cron, each.zone, times[-1]))
        return [local(at, each.zone).isoformat() for at in times]
    except BadSettings:
        return [utc(each.next_at).isoformat()]


def _words(cron: str) -> str:
    """The cron expression in words, or as it is where there are none."""
    try:
        return CronSim(ALIASES.get(cron.strip().lower(), cron), datetime(2000, 1, 1)).explain()
    except Exception:
        return cron


async def run(ask: Ask[Any, Why]) -> Switched:
    return await _switch(ask, verbs.fire(ask.path["name"]))


async def pause(ask: Ask[Any, Why]) -> Switched:
    return await _switch(ask, verbs.pause_schedule(ask.path["name"]))


async def resume(ask: Ask[Any, Why]) -> Switched:
    return await _switch(ask, verbs.resume_schedule(ask.path["name"]))


async def remove(ask: Ask[Any, Why]) -> Switched:
    return await _switch(ask, verbs.unplan(ask.path["name"]))


async def _switch(ask: Ask[Any, Why], statement: Statement[bool]) -> Switched:
    name = ask.path["name"]
    if not await ask.change(statement, name):
        raise Refused(404, f"there is no schedule {name!r}: GET api/schedules lists them")
    return Switched(name, True)


_FOUND = {200: Switched, 404: Error}
ROUTES = (
    Route("GET", "/api/schedules", "read", schedules, {200: SchedulesShape}),
    Route("POST", "/api/schedules/{name:text}/run", "run_schedule", run, _FOUND, body=Why),
    Route("POST", "/api/schedules/{name:text}/pause", "pause_schedule", pause, _FOUND, body=Why),
    Route("POST", "/api/schedules/{name:text}/resume", "resume_schedule", resume, _FOUND, body=Why),
    Route("DELETE", "/api/schedules/{name:text}", "remove_schedule", remove, _FOUND, body=Why),
)
