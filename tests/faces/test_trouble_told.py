"""What the database refuses is told as what it was: an outage, something to try again, or neither."""

from __future__ import annotations

import subprocess

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import lookup

import warm
from tenure.cli.errors import explain
from tenure.errors import BUG, TRY_LATER, UNREACHABLE, USAGE
from tenure.postgres.sqlstates import AGAIN, AWAY
from world import World


def tenure(world: World, *arguments: str, url: str = "") -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments, "--database-url", url or world.url, "--schema", world.schema)


def _let_inserts(world: World, do: str) -> None:
    """From now on whoever inserts a row meets this."""
    world.sql(f"CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {do}; RETURN NEW; END $$")
    world.sql("CREATE TRIGGER stumble BEFORE INSERT ON live FOR EACH ROW EXECUTE FUNCTION stumble()")


# By SQLSTATE: the exit code, and what is said next to the server's own words.
REFUSED = {
    "57014": (TRY_LATER, "a statement_timeout or an administrator stopped it; try again"),
    "40001": (TRY_LATER, "another session was in the way; try again"),
    "40P01": (TRY_LATER, "another session was in the way; try again"),
    "55P03": (TRY_LATER, "another session holds the lock; try again"),
    "54000": (USAGE, "this is more than Postgres can take; make it smaller"),
    "54001": (USAGE, "this is more than Postgres can take; make it smaller"),
    "55000": (BUG, "SQLSTATE 55000): please report it with the lines below"),
    "53100": (UNREACHABLE, "see its log, and try again when it can"),
}


@pytest.mark.one_server
@pytest.mark.parametrize("state", REFUSED)
def test_a_server_that_answers_is_not_said_to_be_silent(world: World, state: str) -> None:
    """Negative control: psycopg calls every one of these an OperationalError, as it does a refused connection."""
    assert issubclass(lookup(state), psycopg.OperationalError)
    code, says = REFUSED[state]
    _let_inserts(world, f"RAISE EXCEPTION 'the reason' USING ERRCODE = '{state}'")
    answer = tenure(world, "enqueue", "mail", "{}")
    first = answer.stderr.splitlines()[0]
    assert answer.returncode == code
    assert "the reason" in first
    assert says in first
    assert "is it running" not in first
    assert ("Traceback" in answer.stderr) == (code == BUG)


@pytest.mark.one_server
def test_a_statement_that_took_too_long_is_to_be_tried_again(world: World) -> None:
    with world.connect() as other, other.transaction():
        other.execute("LOCK TABLE live IN ACCESS EXCLUSIVE MODE")
        hasty = make_conninfo(world.url, options="-c statement_timeout=300")
        answer = tenure(world, "enqueue", "mail", "{}", url=hasty)
    assert answer.returncode == TRY_LATER
    assert answer.stderr == (
        "tenure: canceling statement due to statement timeout: "
        "a statement_timeout or an administrator stopped it; try again, or allow it longer\n"
    )


@pytest.mark.one_server
def test_a_session_that_the_server_ends_is_an_outage(world: World) -> None:
    _let_inserts(world, "PERFORM pg_terminate_backend(pg_backend_pid())")
    answer = tenure(world, "enqueue", "mail", "{}")
    assert answer.returncode == UNREACHABLE
    assert answer.stderr.startswith("tenure: the server cannot go on (terminating connection due to administrator")


@pytest.mark.parametrize("state", sorted(AGAIN))
def test_whatever_a_loop_would_send_again_a_person_is_asked_to(state: str) -> None:
    sentence, code = explain(lookup(state)("as psycopg raises it"))
    assert code == TRY_LATER
    assert "try again" in sentence


@pytest.mark.parametrize("state", sorted(state for state in AWAY if len(state) == 5))
def test_whatever_a_loop_waits_for_is_away_for_a_person_too(state: str) -> None:
    assert explain(lookup(state)("as psycopg raises it"))[1] == UNREACHABLE


WORDS = {
    "connection refused": "the database does not answer (connection refused): is it running, and is the URL right?",
    "FATAL: sorry, too many clients already": "all connections are taken; close some, or raise the limit",
    'FATAL: too many connections for role "tenure"': "all connections are taken",
    "FATAL: remaining connection slots are reserved for roles": "all connections are taken",
    "FATAL: the database system is starting up": "wait until it accepts connections, and try again",
}


@pytest.mark.parametrize("words", WORDS)
def test_who_gets_no_session_is_told_why_as_far_as_it_is_known(words: str) -> None:
    sentence, code = explain(psycopg.OperationalError(words))
    assert (code, WORDS[words] in sentence) == (UNREACHABLE, True)


def test_an_error_of_the_driver_is_a_bug() -> None:
    assert explain(psycopg.InterfaceError("the cursor is closed"))[1] == BUG
