"""What a database error means to a loop that must go on: the database is away, run the statement again, or a bug."""

from __future__ import annotations

from typing import Literal

from ..errors import ServerBehind

Trouble = Literal["away", "again", "bug"]

# Refused or rolled back; the connection still works.
AGAIN = {
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # a lock timeout
    "57014",  # cancelled, by a timeout or by hand
}

# The session is over, or a new session may work: two letters are a class, five a state.
AWAY = {
    "08",  # connection lost or refused; PgBouncer says 08P01 for whatever it cannot do right now
    "28",  # login refused: passwords rotate while workers run
    "53",  # out of connections, memory or disk
    "57P01",  # ended by an administrator
    "57P02",  # another backend crashed
    "57P03",  # starting up, shutting down
    "57P05",  # idle for too long
    "58",  # an I/O error below the server
    "25006",  # read-only: this one is no longer the primary
    "25P03",  # idle in a transaction for too long
    "25P04",  # a transaction that took too long
    "26000",  # a prepared statement is missing, because its pipeline was interrupted: a new session prepares it again
}


def trouble_of(error: BaseException) -> Trouble:
    """What to do about an error of the database.

    away: close the connection, wait, and connect again; nobody knows what the last statement did.
    again: nothing was changed; the same statement may run again on the same connection.
    bug: waiting will not help.
    """
    import psycopg

    if isinstance(error, ServerBehind):
        return "away"
    if not isinstance(error, psycopg.Error):
        return "bug"
    if error.sqlstate is None:  # from libpq: no connection was made, or it broke
        return "away" if isinstance(error, psycopg.OperationalError) else "bug"
    if error.sqlstate in AGAIN:
        return "again"
    return "away" if {error.sqlstate, error.sqlstate[:2]} & AWAY else "bug"
