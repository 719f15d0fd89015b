"""Whether drills may be played in a database: it can say so itself, for everybody who comes.

ALTER DATABASE shop SET tenure.drills = 'forbid'
"""

from __future__ import annotations

from ... import postgres
from ...errors import BadSettings

ASK = "SELECT current_database(), current_setting('tenure.drills', true)"


def check_allowed(conn: postgres.QueueConnection) -> None:
    """BadSettings, and the connection closed, where they are forbidden; whatever is not `allow` forbids."""
    ((database, said),) = conn.execute(ASK).fetchall()
    if said not in (None, "", "allow"):  # empty: it was set and taken back
        conn.close()
        raise BadSettings(
            f"drills are forbidden in the database {database!r} by its own setting tenure.drills = {said!r}: "
            "play them on another one"
        )
