"""What a database error means to a loop that must go on: the database is away, the statement goes again, or a bug."""

from __future__ import annotations

from typing import Literal

from ..errors import ServerBehind

Trouble = Literal["away", "again", "bug"]

# Refused or rolled back in good order, and nobody's fault: the connection is sound.
AGAIN = {
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # a lock was not to be had in time
    "57014",  # cancelled, by a timeout or by hand
}

# The session is over, or a new one might find better: classes by two letters, states by five.
AWAY = {
    "08",  # connection lost or refused; PgBouncer says 08P01 for whatever it cannot do right now
    "28",  # not let in: passwords rotate while workers run
    "53",  # out of connections, memory or disk
    "57P01",  # ended by an administrator
    "57P02",  # another backend crashed
    "57P03",  # starting up, shutting down
    "57P05",  # idle for too long
    "58",  # an I/O error below the server
    "25006",  # read-only: this one is no longer the primary
    "25P03",  # idle in a transaction for too long
    "25P04",  # a transaction that took too long
    "26000",  # a prepared statement of a pipeline that was broken off before it was made: only a new session knows
}


def trouble_of(error: BaseException) -> Trouble:
    """What to do about an error of the database.

    away: let the connection go, wait, and connect anew; what the last statement did is not known.
    again: nothing was done; the same statement may run again on the same connection.
    bug: waiting will not help.
    """
    import psycopg

    if isinstance(error, ServerBehind):
        return "away"
    if not isinstance(error, psycopg.Error):
        return "bug"
    if error.sqlstate is None:  # libpq's own words: no connection was made, or it broke
        return "away" if isinstance(error, psycopg.OperationalError) else "bug"
    if error.sqlstate in AGAIN:
        return "again"
    return "away" if {error.sqlstate, error.sqlstate[:2]} & AWAY else "bug"
