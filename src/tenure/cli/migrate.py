"""`tenure migrate`: bring the schema to the version that this package needs, or check it; grant its roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from .. import postgres, settings
from ..console.terminal import echo
from ..errors import NO, OldWorkersAlive, same_place
from ..postgres import migrate
from ..verbs.questions import Applied
from .database import Database, opened, options


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a migration is missing.")
@click.option(
    "--sql", "print_sql", is_flag=True, help="Print the SQL instead of running it; with --roles only the roles."
)
@click.option("--from", "after", type=int, metavar="N", help="With --sql: only what comes after migration N.")
@click.option("--to", type=int, metavar="N", help="Stop after migration N.")
@click.option("--roles", is_flag=True, help="Also create and grant the roles producer, worker, operator, readonly.")
@click.option(
    "--role-prefix",
    metavar="NAME",
    default=migrate.ROLE_PREFIX,
    show_default=True,
    help="Roles are called NAME_worker, …",
)
@click.option("--citus", is_flag=True, help="On a coordinator of Citus: an inbox on every node, and the door to them.")
@click.option(
    "--colocate-with",
    metavar="TABLE",
    help="With --citus: keep rows on the node that has this table's rows of the same key.",
)
@click.option("--force", is_flag=True, help="Go on although workers are alive that use what a migration removes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(database_url: str | None, schema: str | None, **asked: Any) -> None:
    """Bring the schema to the version that this package needs.

    Safe to run twice, and by ten processes at once: they wait for one lock, and all of it is one transaction. If you
    use --roles, run it again with --roles after every upgrade.

    A migration that removes something asks you to drain the workers of the older version first (exit code 75).
    """
    _check_asked(asked["after"], asked["to"], asked)
    if asked["citus"]:
        _open_door(database_url, schema, asked)
        return
    if asked["print_sql"]:
        echo(_script(settings.load(schema=schema).schema, asked), nl=False)
        return
    with (
        opened(database_url, schema) as database,
        postgres.connect(database.url, application_name="tenure migrate") as conn,
    ):
        if asked["check"]:
            done = migrate.applied(conn, database.schema)
            _check(
                done,
                migrate.in_the_way(conn, len(done), database.schema, asked["to"]),
                database,
                asked["to"],
                asked["as_json"],
            )
        else:
            _apply(conn, database, asked)


def _check_asked(after: int | None, to: int | None, asked: dict[str, Any]) -> None:
    """Refuse options that contradict each other, before any database is opened."""
    has = f"this package has 1 to {migrate.newest()}"
    if asked["colocate_with"] is not None and not asked["citus"]:
        raise click.UsageError("--colocate-with goes with --citus: it is about the nodes of a cluster")
    if asked["citus"] and (asked["check"] or asked["print_sql"] or to is not None):
        raise click.UsageError("--citus brings all nodes to the newest schema: leave --check, --sql and --to out")
    if asked["check"] and asked["print_sql"]:
        raise click.UsageError("--check asks the database, --sql prints without asking: give one of them")
    if asked["role_prefix"] != migrate.ROLE_PREFIX and not asked["roles"]:
        raise click.UsageError("--role-prefix goes with --roles: without it no roles are made")
    if asked["roles"] and (asked["check"] or to is not None or after is not None):
        raise click.UsageError("--roles goes with the newest schema: leave --from, --to and --check out")
    if to is not None and not 1 <= to <= migrate.newest():
        raise click.UsageError(f"--to {to}: there is no such migration, {has}")
    if after is None:
        return
    if not asked["print_sql"]:
        raise click.UsageError("--from goes with --sql: without it, migrate finds out what is missing")
    if not 0 <= after < migrate.newest():
        raise click.UsageError(f"--from {after}: there is nothing after it, {has}")
    if to is not None and after >= to:
        raise click.UsageError(f"--from {after} --to {to}: there is nothing between them, {has}")


def _open_door(database_url: str | None, schema: str | None, asked: dict[str, Any]) -> None:
    """An inbox on every node of a Citus cluster, and the door."""
    from ..postgres.citus_door import door_of, grant, open_door
    from ..postgres.handoff import adopt_all

    nodes = []
    with opened(database_url, schema) as database:
        for node, done in open_door(database.url, database.schema, asked["colocate_with"]):
            nodes.append({"inbox": node.inbox, "host": node.host, "port": node.port, "applied": len(done)})
            if not asked["as_json"]:
                echo(f"inbox    {node.inbox} on {node.host}:{node.port}: {len(done)} migrations applied")
        adopt_all(database.url, database.schema)
        if asked["roles"]:
            grant(database.url, database.schema, asked["role_prefix"])
        door = door_of(database.schema)
        if asked["as_json"]:
            _say({"door": door, "inboxes": nodes, "roles": asked["roles"]}, database.schema)
        else:
            _say_roles(asked)
            echo(f"door     {door} leads to {len(nodes)} inboxes at migration {migrate.newest()}")


def _script(schema: str, asked: dict[str, Any]) -> str:
    if asked["roles"]:
        return f"BEGIN;\n{migrate.roles(schema, asked['role_prefix'])}COMMIT;\n"
    return migrate.script(schema, asked["to"], asked["after"] or 0, force=asked["force"])


def _apply(conn: postgres.QueueConnection, database: Database, asked: dict[str, Any]) -> None:
    done = migrate.apply(conn, database.schema, asked["to"], force=asked["force"])
    if asked["roles"]:
        migrate.grant(conn, database.schema, asked["role_prefix"])
    elif done and _roles_in_use(conn, database.schema):
        again = same_place("tenure migrate --roles", database.schema, database.flag)
        echo(f"tenure: roles were granted before this: run `{again}` again", err=True)
    at = len(migrate.applied(conn, database.schema))
    if asked["as_json"]:
        names = [f"{migration.version:04} {migration.name}" for migration in done]
        _say({"applied": names, "at": at, "needed": migrate.newest(), "roles": asked["roles"]}, database.schema)
        return
    for migration in done:
        echo(f"applied  {migration.version:04} {migration.name}")
    _say_roles(asked)
    echo(f"schema   {database.schema} is at migration {at}")


def _say_roles(asked: dict[str, Any]) -> None:
    if asked["roles"]:
        echo(f"roles    {asked['role_prefix']}_producer, _worker, _operator and _readonly have their grants")


def _roles_in_use(conn: postgres.QueueConnection, schema: str) -> bool:
    from ..verbs.roles import grants

    return postgres.run(conn, grants(), schema).used


def _check(
    done: Sequence[Applied], late: OldWorkersAlive | None, database: Database, to: int | None, as_json: bool
) -> None:
    need, schema = to or migrate.newest(), database.schema
    if len(done) >= need:
        migrate.check(done, schema)
        if to is None:
            migrate.judge(done, schema)
    if as_json:
        _say(
            {"at": len(done), "needed": need, "ok": len(done) >= need, "drain_first": late.workers if late else []},
            schema,
        )
    else:
        run = same_place("tenure migrate", schema, database.flag)
        missing = f", {need} is needed: run `{run}`" if len(done) < need else ""
        echo(f"schema   {schema} is at migration {len(done)}{missing}")
    if late:
        echo(f"tenure: {late.at(database.flag)}", err=True)
    if len(done) < need:
        raise click.exceptions.Exit(NO)


def _say(facts: dict[str, Any], schema: str) -> None:
    echo(json.dumps({"schema": 1, "name": schema, **facts}, sort_keys=True))
