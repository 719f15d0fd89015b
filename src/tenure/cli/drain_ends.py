"""How a drain ends early: what went wrong, what stands, and how to go on or back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg import Error

from .. import postgres
from ..console.signals import endable
from ..errors import TRY_LATER, BadSettings, TenureError
from ..postgres.citus_door import Node
from ..postgres.connection import QueueConnection, connect
from ..postgres.handoff import PATIENCE
from ..postgres.sqlstates import trouble_of
from ..verbs.citus_ranges import gets_ranges
from .database import Database
from .output import remark

CANCEL_SECONDS = 5.0


class DrainStopped(TenureError):
    """Citus could not move all ranges of a node now: it is away, or a lock is taken."""

    exit_code = TRY_LATER


@contextmanager
def told_what_stands(conn: QueueConnection, node: Node, database: Database) -> Iterator[None]:
    """If a drain ends early: its node may be marked for Citus, and gets no ranges until somebody takes that back."""
    try:
        with endable():
            yield
    except BadSettings as error:
        raise BadSettings(f"{error}; {_stands(node, database)}") from error
    except (KeyboardInterrupt, SystemExit):
        with suppress(Error):
            conn.cancel_safe(timeout=CANCEL_SECONDS)
        remark(f"tenure: {_stands(node, database)}")
        raise
    except Error as error:
        if not error.sqlstate:
            remark(f"tenure: {_stands(node, database)}")
            raise
        said = f"Citus has not moved all ranges of inbox {node.inbox} ({error.diag.message_primary})"
        passes = trouble_of(error) != "bug" or not _answers(node, database)
        raise (DrainStopped if passes else BadSettings)(f"{said}; {_stands(node, database)}") from error


def _answers(node: Node, database: Database) -> bool:
    """If the node is away, Citus tells so in many ways."""
    with suppress(Error), connect(node.url(database.url), application_name="tenure shards", patience=PATIENCE):
        return True
    return False


def _stands(node: Node, database: Database) -> str:
    """What a drain has left behind, and how to go on or back; if the coordinator does not say, the node is marked."""
    with suppress(Error, TenureError), connect(database.url, application_name="tenure shards") as conn:
        if postgres.run(conn, gets_ranges(node.group), database.schema):
            return "nothing was changed"
    back = f"citus_set_node_property('{node.host}', {node.port}, 'shouldhaveshards', true)"
    return (
        f"the node of inbox {node.inbox} gets no more ranges: run `tenure shards drain {node.inbox}` again to go on, "
        f"or SELECT {back} on the coordinator to take that back"
    )
