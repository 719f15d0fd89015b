"""`tenure shards`: the inboxes of a Citus cluster, which ranges of keys are at home there, and what waits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import click
from psycopg import Error

from .. import operate, postgres, settings
from ..console.terminal import echo, sentence
from ..errors import UNREACHABLE, BadSettings
from ..postgres.citus_door import Node, named_in_errors, nodes
from ..postgres.connection import QueueConnection, connect
from ..postgres.handoff import PATIENCE, Handoff, adopt, kept_there
from ..telemetry.log import printable
from ..verbs import operators
from ..verbs.citus_ranges import Shard, drain_node, forget_inbox, last_look, neighbours, shard, takers
from .database import Database, opened, place_options
from .drain_ends import told_what_stands
from .operators import answer, me
from .output import remark, show
from .suggest import Suggesting

HEAD = ("inbox", "node", "epoch", "home", "waiting", "depth", "dead", "oldest", "workers", "answered")
LOOK_SECONDS = 2.0


class Told(NamedTuple):
    """A node, what its inbox says, and how long that took; None: it does not answer."""

    node: Node
    shard: Shard | None
    ms: float


@click.group("shards", cls=Suggesting, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """List the inboxes of a Citus cluster; the URL is the coordinator's.

    `home` are the ranges of keys whose ordered rows run there, `waiting` those that have come and are not yet at home:
    another inbox has rows of them, or does not answer. `oldest` is how long a row has been due.
    """
    if ctx.invoked_subcommand is not None:
        given = {"database_url": database_url, "schema": schema, "as_json": as_json}
        ctx.default_map = {"drain": given, "adopt": given}
        return
    with _cluster(database_url, schema) as database:
        told = [_told(node, database) for node in _nodes(database)]
    if as_json:
        echo(json.dumps({"schema": 1, "shards": [_fields(each) for each in told]}, sort_keys=True))
    else:
        show(HEAD, [_line(each) for each in told], "no inboxes")
        for each in told:
            if each.shard is not None and each.shard.reason:
                remark(f"inbox {each.node.inbox}: rows wait, because {each.shard.reason}")
    silent = [each.node.inbox for each in told if each.shard is None]
    if silent:
        sentence(f"{len(told) - len(silent)} of {len(told)} inboxes answer: {_silent(silent)}", err=True)
    if len(silent) == len(told):
        raise click.exceptions.Exit(UNREACHABLE)


@command.command("drain", short_help="Empty a node, so that it can be removed.")
@click.argument("inbox", type=int)
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
@place_options
def drain(inbox: int, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Have Citus move all ranges of a node elsewhere, and wait until its workers have worked off its rows.

    Its ended rows must be redriven or deleted, too. Citus does not know of them: it would let you remove the node.
    While this goes on the node gets no ranges; if you end it, it says what stands, and can be run again. If the node is
    away, or Citus waits in vain for a lock, it ends with exit code 75: try later.
    """
    with _cluster(database_url, schema) as database:
        node = _to_drain(database, inbox)
        with connect(database.url, application_name="tenure shards") as conn, told_what_stands(conn, node, database):
            if not as_json:
                remark(f"Citus moves the ranges of inbox {inbox} to other nodes, which can take long")
            postgres.run(conn, drain_node(inbox), database.schema)
            _wait_until_forgotten(conn, node, database, quiet=as_json)
    said = f"inbox {inbox} has no rows: SELECT citus_remove_node('{node.host}', {node.port}) removes its node"
    answer(as_json, said, inbox=inbox, host=node.host, port=node.port, empty=True)


@command.command("adopt", short_help="Let ranges begin without asking a node that is lost.")
@click.option("--without", type=int, required=True, metavar="INBOX", help="The inbox that is not asked.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the audit.")
@click.option("--json", "as_json", is_flag=True, help="Answer as one JSON document.")
@place_options
def adopt_without(without: int, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Make ranges at home that wait only for an inbox that does not answer.

    If that inbox has ordered rows and comes back, they run beside later ones of their keys: say this of a lost node. It
    is refused while that inbox answers and has rows of a range that waits.
    """
    with _cluster(database_url, schema) as database:
        others = [node for node in _nodes(database) if node.group != without]
        _check_known(database, without)
        for node in others:
            with _at(node, database) as conn:
                key = kept_there(conn, node.url(database.url), database.schema, without)
            _check_lost(without, key)
        done = []
        for node in others:
            with _at(node, database) as conn:
                done.append(_adopted(conn, node.url(database.url), database.schema, str(without), reason))
    ranges, rows = (sum(each.adopted[n] for each in done) for n in (0, 1))
    answer(as_json, f"{ranges} ranges are at home, {rows} rows are due", ranges=ranges, rows=rows, without=without)


def _check_known(database: Database, inbox: int) -> None:
    """Refuse what was never an inbox; one whose node was removed from the cluster is known still."""
    with connect(database.url, application_name="tenure shards") as conn:
        known = {node.group for node in nodes(conn, database.schema)}
        known |= {each.inbox for each in postgres.run(conn, neighbours(), database.schema)}
    if inbox not in known:
        raise _unknown(inbox, known)


def _check_lost(inbox: int, key: str | None) -> None:
    """Refuse to go on without an inbox that answers: its rows of this key would run beside later ones."""
    if key is not None:
        raise BadSettings(
            f"inbox {inbox} answers, and has rows that others wait for, as of key {printable(key)}: "
            f"let its workers work them off, redrive or delete dead letters that keep a key, "
            f"or run `tenure shards drain {inbox}`"
        )


def _adopted(conn: QueueConnection, url: str, schema: str, without: str, reason: str) -> Handoff:
    """One round, and its line of the audit."""
    actor = me()
    with conn.transaction():
        action = postgres.run(
            conn, operators.begin_audit(actor.name, actor.via, "adopt", f"without inbox {without}", reason), schema
        )
        done = adopt(conn, url, schema, (without,))
        postgres.run(conn, operators.mark(action, done.adopted.rows, done=True), schema)
    operate.sealed(conn, schema)
    return done


@contextmanager
def _cluster(database_url: str | None, schema: str | None) -> Iterator[Database]:
    """The coordinator that the settings name: no embedded server is one, and TENURE_SHARDS names plain databases."""
    if settings.load(database_url=database_url, schema=schema).database_url is None:
        others = "; `tenure queues` looks into the inboxes of TENURE_SHARDS" if settings.shards() else ""
        raise BadSettings(f"shards are the nodes of a Citus cluster: give its coordinator as --database-url{others}")
    with opened(database_url, schema) as database:
        yield database


def _nodes(database: Database) -> list[Node]:
    with connect(database.url, application_name="tenure shards") as conn:
        return nodes(conn, database.schema)


def _unknown(inbox: int, known: Iterable[int]) -> BadSettings:
    return BadSettings(f"inbox {inbox} is not known: there are {', '.join(map(str, sorted(known)))}")


@contextmanager
def _at(node: Node, database: Database) -> Iterator[QueueConnection]:
    """A connection to a node; what goes wrong there names its inbox."""
    with (
        named_in_errors(node.inbox),
        connect(node.url(database.url), application_name="tenure shards", patience=PATIENCE) as conn,
    ):
        yield conn


def _to_drain(database: Database, inbox: int) -> Node:
    """The node; refused before anything is changed if it does not answer, or no other could have its ranges."""
    found = {node.group: node for node in _nodes(database)}
    if inbox not in found:
        raise _unknown(inbox, found)
    node = found[inbox]
    with _at(node, database):
        pass
    with connect(database.url, application_name="tenure shards") as conn:
        if not postgres.run(conn, takers(inbox), database.schema):
            raise BadSettings(
                f"inbox {inbox} is on the last node that may have ranges: add another with "
                "SELECT citus_add_node('host', 5432) and run `tenure migrate --citus` first"
            )
    return node


def _wait_until_forgotten(conn: QueueConnection, node: Node, database: Database, *, quiet: bool) -> None:
    """Until its inbox has no row, live or ended badly; what is left is told whenever it changes."""
    before = None
    while left := _left(conn, node, database):
        if left != before and not quiet:
            remark(left)
        before = left
        time.sleep(LOOK_SECONDS)


def _left(conn: QueueConnection, node: Node, database: Database) -> str | None:
    """What keeps an inbox; None: nothing did, and the door leads there no more."""
    with ExitStack() as stack:
        try:
            there = stack.enter_context(_at(node, database))
            stack.enter_context(there.transaction())
            look = postgres.run(there, last_look(), database.schema)
            found = postgres.run(there, shard(), database.schema)
        except Error:
            return "it does not answer"
        if look.ranges:
            raise BadSettings(f"inbox {node.inbox} has got ranges again while it was drained")
        if found.depth or found.dead:
            return f"{found.depth} rows to work off, {found.dead} ended badly"
        if not look.alone:
            return "a transaction that has sent it rows is open still"
        postgres.run(conn, forget_inbox(node.group), database.schema)
    return None


def _silent(inboxes: Sequence[str]) -> str:
    return f"inbox {inboxes[0]} does not" if len(inboxes) == 1 else f"inboxes {', '.join(inboxes)} do not"


def _told(node: Node, database: Database) -> Told:
    began = time.monotonic()
    try:
        with _at(node, database) as conn:
            found = postgres.run(conn, shard(), database.schema)
    except Error:
        found = None
    return Told(node, found, (time.monotonic() - began) * 1000)


def _fields(told: Told) -> dict[str, object]:
    place = {"inbox": told.node.inbox, "host": told.node.host, "port": told.node.port}
    found = told.shard._asdict() if told.shard else {}
    return {**place, "answers": bool(found), "answer_ms": round(told.ms, 1), **found}


def _line(told: Told) -> tuple[str, ...]:
    place = (told.node.inbox, f"{told.node.host}:{told.node.port}")
    if told.shard is None:
        return (*place, *"-------", "no")
    each = told.shard
    oldest = "-" if each.oldest_seconds is None else f"{each.oldest_seconds:.0f}s"
    numbers = (each.epoch, each.home, each.waiting, each.depth, each.dead, oldest, each.workers)
    return (*place, *map(str, numbers), f"{told.ms:.0f}ms")
