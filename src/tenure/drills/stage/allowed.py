"""Are drills allowed in a database? A setting of the database itself can forbid them.

ALTER DATABASE shop SET tenure.drills = 'forbid'
"""

from __future__ import annotations

from ... import postgres
from ...errors import BadSettings

ASK = "SELECT current_database(), current_setting('tenure.drills', true)"


def check_allowed(conn: postgres.QueueConnection) -> None:
    """Raise BadSettings and close the connection where drills are forbidden; any value but `allow` forbids."""
    ((database, said),) = conn.execute(ASK).fetchall()
    if said not in (None, "", "allow"):  # empty: it was set and reset
        conn.close()
        raise BadSettings(
            f"drills are forbidden in the database {database!r} by its own setting tenure.drills = {said!r}: "
            "play them on another one"
        )
