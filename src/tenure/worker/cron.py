"""Fire schedules that are due: any process may try, and the database lets exactly one fire each tick."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import Connection, DataError, IntegrityError

from .. import postgres
from ..errors import BadSettings
from ..verbs.schedules import Fired, due_schedules, tick, ticks_due


class Round(NamedTuple):
    """The result of one round: the schedules we fired, and those we could not, each with the reason."""

    fired: list[Fired]
    unfired: dict[str, str]


def fire_due(conn: Connection[Any], schema: str | None = None) -> Round:
    """Enqueue every tick that is due, on a connection in autocommit: one transaction for each schedule.

    A schedule whose cron or zone this process cannot read stays due, for a process that can; so does one whose row the
    database refuses, until somebody changes it.
    """
    done = Round([], {})
    after = ""
    while page := postgres.run(conn, due_schedules(after=after), schema):
        for due in page:
            try:
                if fired := postgres.run(conn, tick(due, *ticks_due(due)), schema):
                    done.fired.append(fired)
            except BadSettings as error:
                done.unfired[due.name] = str(error)
            except (DataError, IntegrityError) as error:
                done.unfired[due.name] = error.diag.message_primary or str(error)
        after = page[-1].name
    return done
