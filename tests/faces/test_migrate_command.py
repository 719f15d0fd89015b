"""`tenure migrate` at the terminal: which schema and which database it refuses, and what it prints for a DBA."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row, tuple_row

import warm
from chaos.pgbouncer import PROGRAM, pgbouncer
from tenure import postgres
from tenure.embedded import server
from tenure.errors import BAD_SETTINGS, NO, USAGE, BadSettings
from tenure.postgres import handler_pool, migrate
from world import World

NEWEST = migrate.newest()
APP = "from tenure import Inbox\ninbox = Inbox()\n@inbox.handler('k')\ndef k(job): ...\n"
COMMANDS = [["migrate"], ["migrate", "--check"], ["enqueue", "k", "{}"], ["worker", "app:inbox"]]
RECORD = "SELECT version, name, checksum, kind FROM migrations ORDER BY version"
STRANGERS = {
    "a table": 'CREATE TABLE "{0}".invoices (id int)',
    "a view": 'CREATE VIEW "{0}".invoices AS SELECT 1 AS id',
    "a sequence": 'CREATE SEQUENCE "{0}".numbers',
    "a function": "CREATE FUNCTION \"{0}\".one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "a type": "CREATE TYPE \"{0}\".mood AS ENUM ('good')",
    "a record of another's migrations": 'CREATE TABLE "{0}".migrations (id int, migration text, batch int)',
    "an empty table in the shape of ours": 'CREATE TABLE "{0}".migrations (version int, name text, checksum text, '
    "kind text)",
}
_numbers = itertools.count(1)


class Answer(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    trouble: str


def _tenure(*arguments: str, cwd: Path | None = None, **environ: str) -> Answer:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    done = warm.run(*arguments, cwd=cwd, env=kept | environ)
    return Answer(done.returncode, done.stdout, done.stderr)


def _refused(answer: Answer, code: int, sentence: str) -> None:
    assert (answer.code, answer.out, answer.trouble) == (code, "", f"tenure: {sentence}\n")


@pytest.fixture
def theirs(server_url: str) -> Iterator[World]:
    """A schema that somebody else made; nothing is in it."""
    world = World(server_url, f"theirs_{os.getpid()}_{next(_numbers)}")
    world.sql(f'CREATE SCHEMA "{world.schema}"')
    yield world
    world.sql(f'DROP SCHEMA "{world.schema}" CASCADE')
    world.close()


def _its_own(schema: str) -> str:
    return f"schema {schema!r} holds other objects: give Tenure a schema of its own, e.g. --schema tenure"


# -- the next step goes to the same database


@pytest.mark.parametrize("command", [["migrate", "--check"], ["enqueue", "k"], ["queues"], ["doctor"]], ids=" ".join)
def test_the_command_that_helps_has_the_option_that_named_the_database(theirs: World, command: list[str]) -> None:
    where = make_conninfo(theirs.url, password="secret")
    run = f"run `tenure migrate --schema {theirs.schema}"
    given = _tenure(*command, "--database-url", where, "--schema", theirs.schema)
    assert f"{run} --database-url …`" in given.out + given.trouble
    assert "secret" not in given.out + given.trouble
    by_variable = _tenure(*command, TENURE_DATABASE_URL=where, TENURE_SCHEMA=theirs.schema)
    assert f"{run}`" in by_variable.out + by_variable.trouble


def test_the_command_that_drains_has_it_too(theirs: World) -> None:
    migrate.apply(theirs.conn, theirs.schema, to=9)
    theirs.sql("INSERT INTO workers (id) VALUES ('old')")
    drain = f"`tenure workers drain ID --schema {theirs.schema} --database-url …`"
    for command in (["migrate", "--check"], ["migrate"]):
        assert drain in _tenure(*command, "--database-url", theirs.url, "--schema", theirs.schema).trouble


# -- a schema that holds what is not ours


@pytest.mark.parametrize("what", STRANGERS)
def test_a_schema_that_holds_anything_else_is_refused_and_left_as_it_was(theirs: World, what: str) -> None:
    theirs.sql(STRANGERS[what].format(theirs.schema))
    objects = "SELECT relname, relacl FROM pg_class WHERE relnamespace = to_regnamespace(%s) ORDER BY relname"
    before = theirs.sql(objects, theirs.schema)
    with pytest.raises(BadSettings, match="holds other objects: give Tenure a schema of its own"):
        migrate.apply(theirs.conn, theirs.schema)
    assert theirs.sql(objects, theirs.schema) == before


def test_a_function_of_somebody_else_stays_everybodys(theirs: World) -> None:
    theirs.sql(STRANGERS["a function"].format(theirs.schema))
    _refused(
        _tenure("migrate", TENURE_DATABASE_URL=theirs.url, TENURE_SCHEMA=theirs.schema),
        BAD_SETTINGS,
        _its_own(theirs.schema),
    )
    assert theirs.sql("SELECT has_function_privilege('public', %s, 'EXECUTE')", f"{theirs.schema}.one()") == [(True,)]


def test_the_example_is_never_the_refused_name_itself(theirs: World) -> None:
    assert "--schema tenure_inbox" in str(migrate.not_ours("tenure"))
    assert str(migrate.not_ours(theirs.schema)) == _its_own(theirs.schema)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_record_of_anothers_migrations_is_told_in_one_sentence(
    theirs: World, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    theirs.sql(STRANGERS["a record of another's migrations"].format(theirs.schema))
    answer = _tenure(*command, cwd=tmp_path, TENURE_DATABASE_URL=theirs.url, TENURE_SCHEMA=theirs.schema)
    _refused(answer, BAD_SETTINGS, _its_own(theirs.schema))


@pytest.mark.parametrize("make", ["CREATE SEQUENCE {0}.migrations", "CREATE TYPE {0}.migrations AS (id int)"])
def test_whatever_else_is_called_migrations_is_told_the_same(theirs: World, make: str) -> None:
    theirs.sql(make.format(theirs.schema))
    for act in (migrate.require, migrate.apply):
        with pytest.raises(BadSettings, match="holds other objects"):
            act(theirs.conn, theirs.schema)


def test_what_others_put_beside_ours_later_does_not_stand_in_the_way(theirs: World) -> None:
    migrate.apply(theirs.conn, theirs.schema, to=5)
    theirs.sql("CREATE TABLE invoices (id int)")
    assert len(migrate.apply(theirs.conn, theirs.schema)) == NEWEST - 5
    migrate.require(theirs.conn, theirs.schema)


@pytest.mark.parametrize("shape", [tuple_row, dict_row])
def test_strangers_are_seen_on_a_connection_of_any_shape(theirs: World, shape: Any) -> None:
    theirs.sql(STRANGERS["a table"].format(theirs.schema))
    theirs.conn.row_factory = shape
    with pytest.raises(BadSettings, match="holds other objects"):
        migrate.apply(theirs.conn, theirs.schema)


def test_an_empty_schema_is_as_good_as_none(theirs: World) -> None:
    theirs.sql(f'ALTER DEFAULT PRIVILEGES IN SCHEMA "{theirs.schema}" GRANT SELECT ON TABLES TO PUBLIC')
    assert len(migrate.apply(theirs.conn, theirs.schema)) == NEWEST


def test_doctor_finds_it_and_goes_on_with_the_rest(theirs: World) -> None:
    theirs.sql(STRANGERS["a record of another's migrations"].format(theirs.schema))
    answer = _tenure("doctor", "--json", "--schema", theirs.schema, "--database-url", theirs.url)
    assert answer.code == NO, answer
    found = {each["check"]: each for each in json.loads(answer.out)["findings"]}
    assert (found["schema"]["level"], found["schema"]["said"]) == ("fault", _its_own(theirs.schema))
    assert found["versions"]["level"] == "ok"


# -- encodings


@pytest.fixture
def ascii_url(server_url: str) -> Iterator[str]:
    """A database that does not know what its bytes mean."""
    name = f"ascii_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0".encode())
        yield make_conninfo(server_url, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_in_another_encoding_is_refused(ascii_url: str, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    name = conninfo_to_dict(ascii_url)["dbname"]
    _refused(
        _tenure(*command, cwd=tmp_path, TENURE_DATABASE_URL=ascii_url),
        BAD_SETTINGS,
        f"database {name!r} has encoding SQL_ASCII: create one with ENCODING 'UTF8' TEMPLATE template0",
    )


@pytest.mark.parametrize("said", ["variable", "url", "options"])
def test_our_connections_speak_utf8_whoever_says_otherwise(
    world: World, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    words = {"variable": {}, "url": {"client_encoding": "LATIN1"}, "options": {"options": "-c client_encoding=LATIN1"}}
    url = make_conninfo(world.url, **words[said])
    with psycopg.connect(url) as plain:  # else it would prove nothing
        assert plain.execute("SHOW client_encoding").fetchone() == ("LATIN1",)
    with postgres.connect(url) as conn, handler_pool.HandlerPool(url).blocking() as lent:
        assert {each.info.parameter_status("client_encoding") for each in (conn, lent)} == {"UTF8"}
        assert lent.execute("SELECT %s::text || chr(8364)", ["€"]).fetchone() == ("€€",)


def test_a_payload_arrives_whatever_encoding_the_terminal_asks_for(world: World) -> None:
    payload, given = '{"price": "5 €"}', ["--database-url", world.url, "--schema", world.schema]
    answer = _tenure("enqueue", "k", payload, "--queue", "q", *given, PGCLIENTENCODING="LATIN1")
    assert (answer.code, answer.trouble) == (0, "")
    assert world.sql("SELECT payload ->> 'price' FROM live") == [("5 €",)]


@pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (tools/pgbouncer)")
def test_both_hold_through_a_pooler(server_url: str, ascii_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with pgbouncer(server_url) as through, postgres.connect(through) as conn:
        assert conn.pooled
        assert conn.execute("SELECT current_setting('client_encoding'), %s::text", ["€"]).fetchone() == ("UTF8", "€")
        migrate.check_encoding(conn)
    refused = pytest.raises(BadSettings, match="has encoding SQL_ASCII")
    with pgbouncer(ascii_url) as through, postgres.connect(through) as conn, refused:
        migrate.require(conn)


def test_the_embedded_server_is_found_whatever_encoding_the_terminal_asks_for(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "no_such_encoding")
    version, trouble = server._knock(server_url)
    assert (version is not None, trouble) == (True, "")


# -- SQL for a DBA, from a version on


def _printed(schema: str, *arguments: str) -> str:
    answer = _tenure("migrate", "--sql", "--schema", schema, *arguments)
    assert (answer.code, answer.trouble) == (0, "")
    return answer.out


def test_the_printed_rest_brings_a_schema_where_migrate_brings_it(theirs: World, world: World) -> None:
    migrate.apply(theirs.conn, theirs.schema, to=5)
    rest = _printed(theirs.schema, "--from", "5")
    with psycopg.connect(theirs.url, autocommit=True) as plain:
        plain.execute(rest.encode())
    assert theirs.sql(RECORD) == world.sql(RECORD)
    assert migrate.apply(theirs.conn, theirs.schema) == []
    open_to_all = (
        "SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace(%s)"
        " AND has_function_privilege('public', oid, 'EXECUTE')"
    )
    assert theirs.sql(open_to_all, theirs.schema) == [(0,)]


def test_the_printed_rest_may_stop_and_go_on(theirs: World) -> None:
    migrate.apply(theirs.conn, theirs.schema, to=3)
    with psycopg.connect(theirs.url, autocommit=True) as plain:
        plain.execute(_printed(theirs.schema, "--from", "3", "--to", "5").encode())
        assert len(migrate.applied(theirs.conn, theirs.schema)) == 5
        plain.execute(_printed(theirs.schema, "--from", "5").encode())
    migrate.require(theirs.conn, theirs.schema)


def test_from_zero_is_all_of_it(theirs: World) -> None:
    assert _printed(theirs.schema, "--from", "0") == _printed(theirs.schema)


@pytest.mark.parametrize("at", [3, 6])
def test_the_printed_rest_refuses_a_schema_that_is_elsewhere(theirs: World, at: int) -> None:
    migrate.apply(theirs.conn, theirs.schema, to=at)
    before = theirs.sql(RECORD)
    told = f"is at migration {at}, not 5: .*--from {at}"
    with psycopg.connect(theirs.url) as plain, pytest.raises(psycopg.errors.RaiseException, match=told):
        plain.execute(migrate.script(theirs.schema, after=5).encode())
    assert theirs.sql(RECORD) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--check", "--sql"], "--check asks the database, --sql prints without asking"),
        (["--role-prefix", "shop"], "--role-prefix goes with --roles"),
        (["--from", "5"], "--from goes with --sql"),
        (["--sql", "--from", "-1"], "--from -1: there is nothing after it, this package has 1 to"),
        (["--sql", "--from", str(NEWEST)], f"--from {NEWEST}: there is nothing after it"),
        (["--sql", "--from", "99"], "--from 99: there is nothing after it"),
        (["--sql", "--from", "5", "--to", "5"], "--from 5 --to 5: there is nothing between them"),
        (["--sql", "--from", "x"], "'x' is not a valid integer"),
        (["--sql", "--roles", "--from", "5"], "--roles goes with the newest schema"),
    ],
)
def test_a_start_that_cannot_be_is_refused(arguments: list[str], words: str) -> None:
    answer = _tenure("migrate", *arguments, TENURE_DATABASE_URL="postgresql://tenure@127.0.0.1:1/tenure")
    assert (answer.code, answer.out) == (USAGE, "")
    assert words in answer.trouble


def test_the_library_refuses_such_a_start_too() -> None:
    for after, to in ((-1, None), (NEWEST, None), (5, 5)):
        with pytest.raises(BadSettings, match="there is nothing"):
            migrate.script(after=after, to=to)
