"""The schemas of demos and drills that were killed before they could clean up."""

from __future__ import annotations

from psycopg import sql as identifiers

from .. import postgres
from ..drills.stage.schema import MINE

FIND = """
SELECT n.nspname FROM pg_namespace AS n
WHERE n.nspname ~ '^tenure_(demo|drill)_[0-9a-f]{8}$' AND pg_has_role(n.nspowner, 'USAGE')
ORDER BY n.nspname LIMIT 10000"""
TAKE = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
DROP = "DROP SCHEMA IF EXISTS {} CASCADE"


def remove(url: str) -> list[str]:
    """Remove them; the names of those removed. A demo or drill that still runs locks its schema, which stays."""
    gone = []
    with postgres.connect(url, application_name="tenure demo") as conn:
        conn.execute("SELECT set_config('client_min_messages', 'warning', false)")
        for (name,) in conn.execute(FIND).fetchall():
            if conn.execute(TAKE, [f"{MINE} {name}"]).fetchall() == [(True,)]:
                conn.execute(identifiers.SQL(DROP).format(identifiers.Identifier(name)))
                gone.append(name)
    return gone
