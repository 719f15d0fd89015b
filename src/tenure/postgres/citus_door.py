"""The door of a Citus cluster: an inbox on every node, and functions that send each row to the node of its key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from psycopg import Connection, DatabaseError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import InvalidSchemaName, UndefinedFunction

from .. import sql
from ..errors import BadSettings
from ..settings import DEFAULT_SCHEMA, DOOR
from . import migrate
from .connection import QueueConnection, connect

_DOOR = re.compile(r"\btenure_door\b")


@dataclass(frozen=True, slots=True)
class Node:
    """A node with an inbox. Its group is the name of the inbox: failover changes the address, not the group."""

    group: int
    host: str
    port: int

    @property
    def inbox(self) -> str:
        """The name of its inbox."""
        return str(self.group)

    def url(self, coordinator: str) -> str:
        """Its address, with the user, the password and the database of the coordinator's."""
        words: dict[str, Any] = {**conninfo_to_dict(coordinator), "host": self.host, "port": self.port}
        words.pop("hostaddr", None)
        return make_conninfo(**words)


@contextmanager
def named_in_errors(inbox: str) -> Iterator[None]:
    """An error in this block says of which inbox it is."""
    try:
        yield
    except Exception as error:
        error.add_note(f"inbox {inbox}")
        raise


def door_of(schema: str) -> str:
    """The schema of the door to the inboxes of this schema."""
    return f"{schema}{DOOR}"


def node_urls(url: str, schema: str = DEFAULT_SCHEMA) -> dict[str, str]:
    """The addresses of all inboxes by name, as the cluster knows them now."""
    with connect(url, application_name="tenure nodes") as conn:
        return {node.inbox: node.url(url) for node in nodes(conn, schema)}


def homes(url: str, schema: str, keys: Iterable[str]) -> dict[str, str]:
    """The name of the inbox that each key belongs to."""
    with connect(url, application_name="tenure nodes") as conn:
        found = conn.execute(text_of("homes", schema, keys=json.dumps([*keys]))).fetchall()
        return {key: str(inbox) for key, inbox in found}


def nodes(conn: Connection[Any], schema: str = DEFAULT_SCHEMA) -> list[Node]:
    """The nodes with an inbox; BadSettings if there is no door here."""
    try:
        found = [Node(*each) for each in conn.execute(text_of("nodes", schema)).fetchall()]
    except (UndefinedFunction, InvalidSchemaName):
        raise BadSettings(
            f"there is no schema {door_of(schema)} in this database: run `tenure migrate --citus` on the coordinator"
        ) from None
    if not found:
        raise BadSettings("no node has an inbox: run `tenure migrate --citus` on the coordinator")
    return found


def open_door(
    url: str, schema: str = DEFAULT_SCHEMA, colocate_with: str | None = None
) -> Iterator[tuple[Node, list[migrate.Migration]]]:
    """Bring an inbox to every node with rows, then make the door; each node with the migrations applied there.

    Safe to run twice; run it again when a node has joined.
    """
    with connect(url, application_name="tenure migrate") as conn:
        has_door, members = check_cluster(conn, schema)
        if has_door and colocate_with is not None:
            _check_colocated(conn, schema, colocate_with)
        for node in members:
            with named_in_errors(node.inbox):
                applied = _bring_inbox(node.url(url), schema)
            yield node, applied
        with conn.transaction(), _told_plainly(colocate_with):
            migrate.lock(conn, schema)
            if not has_door:
                _run_script(conn, text_of("tables", schema, colocate_with=colocate_with or "none"))
            for part in ("places", "known_keys", "door"):
                _run_script(conn, text_of(part, schema))
            _run_script(conn, text_of("closed", schema))
            for node in members:
                conn.execute(text_of("has_inbox", schema, group=node.inbox))


def grant(url: str, schema: str = DEFAULT_SCHEMA, prefix: str = migrate.ROLE_PREFIX) -> None:
    """Create the roles and grant them the door, then on every node its inbox; safe to run twice."""

    def text(name: str) -> bytes:
        return migrate.prefixed(text_of(name, schema).decode(), prefix).encode()

    with connect(url, application_name="tenure migrate") as conn:
        with conn.transaction():
            migrate.lock(conn, schema)
            _run_script(conn, text("roles"))
        members = nodes(conn, schema)
    for node in members:
        with named_in_errors(node.inbox), connect(node.url(url), application_name="tenure migrate") as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            with conn.transaction():
                migrate.grant(conn, schema, prefix)
                _run_script(conn, text("roles_here"))


def check_cluster(conn: QueueConnection, schema: str) -> tuple[bool, list[Node]]:
    """Is there a door, and which nodes have rows? BadSettings if this is not a coordinator that can do it."""
    version, known, prepared, has_door = conn.execute(text_of("server", schema)).fetchone() or (None, False, 0, False)
    if version is None or not known:
        raise BadSettings("this database has no Citus: run CREATE EXTENSION citus on every node, or leave --citus out")
    if not prepared:
        raise BadSettings("max_prepared_transactions is 0, so Citus cannot commit on two nodes: set it to 200 or more")
    members = conn.execute(text_of("members", schema)).fetchall()
    if members and members[0][3] != 0:
        raise BadSettings("this is not the coordinator: give --database-url the address of the coordinator")
    if not members:
        raise BadSettings(
            "no node is to have rows: add one with SELECT citus_add_node('host', 5432), or let one have some "
            "with SELECT citus_set_node_property('host', 5432, 'shouldhaveshards', true); then run this again"
        )
    return bool(has_door), [Node(*each[:3]) for each in members]


def _bring_inbox(url: str, schema: str) -> list[migrate.Migration]:
    """The plain schema on one node; Citus must not carry it to the others."""
    with connect(url, application_name="tenure migrate") as conn:
        conn.execute("SET citus.enable_ddl_propagation TO off")
        applied = migrate.apply(conn, schema)
        with conn.transaction():
            migrate.lock(conn, schema)
            _run_script(conn, text_of("handoff", schema))
        return applied


def _check_colocated(conn: QueueConnection, schema: str, table: str) -> None:
    """BadSettings unless the door, which there is already, stays with this table: its ranges cannot be dealt anew."""
    with _told_plainly(table):
        (with_it,) = conn.execute(text_of("colocated", schema, colocate_with=table)).fetchone() or (False,)
    if not with_it:
        raise BadSettings(
            f"--colocate-with {table}: this cluster has a door already, and its ranges do not stay with that table; "
            "leave the option out"
        )


@contextmanager
def _told_plainly(colocate_with: str | None) -> Iterator[None]:
    """Why a table of theirs cannot be followed, in one sentence."""
    try:
        yield
    except DatabaseError as error:
        if colocate_with is None or ("colocate" not in str(error) and colocate_with not in str(error)):
            raise
        said = error.diag.message_primary
        raise BadSettings(
            f"--colocate-with {colocate_with}: {said}; name a table that is distributed by a column of type text"
        ) from None


def text_of(name: str, schema: str, **given: str) -> bytes:
    """A file of sql/citus, addressed to this schema and its door."""
    text = (files(sql) / "citus" / f"{name}.sql").read_text(encoding="utf-8")
    text = sql.in_schema(_DOOR.sub(door_of(schema), text), schema)
    for key, value in given.items():
        text = text.replace(f":'{key}'", "'" + value.replace("'", "''") + "'")
    return text.encode()


def _run_script(conn: Connection[Any], text: bytes) -> None:
    """Several statements in one go, in the open transaction."""
    conn.execute(text)
