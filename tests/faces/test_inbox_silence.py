"""An act over several inboxes, one of which does not answer: it is given up in time and named, and the others go on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from click.testing import CliRunner, Result

from crew import eventually
from faces.web_tools import CHANGING, running
from tenure import postgres
from tenure.cli import inbox_told, tenure
from tenure.cli.errors import explain
from tenure.embedded import attach
from tenure.errors import TRY_LATER, UNREACHABLE
from tenure.model.journal import NewEvent
from tenure.postgres import migrate
from tenure.postgres.connection import NoAnswer
from tenure.postgres.patience import Patience
from tenure.verbs.journal import append
from tenure.web import app, local, store

SLOW = """
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(4); RETURN NULL; END';
CREATE TRIGGER slow AFTER DELETE ON tenure.journal FOR EACH STATEMENT EXECUTE FUNCTION public.slow();
"""

pytestmark = pytest.mark.one_server


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Two inboxes on servers of their own."""
    monkeypatch.setattr(inbox_told, "ANSWER_SECONDS", 3.0)
    with contextlib.ExitStack() as stack:
        eu, us = (stack.enter_context(attach(tmp_path / n, fast=True, linger_seconds=0.2)).url for n in ("eu", "us"))
        for url in (eu, us):
            with postgres.connect(url) as conn:
                migrate.apply(conn)
        yield eu, us


@contextlib.contextmanager
def alone(url: str) -> Iterator[None]:
    """While what is committed there waits for a standby that is not there."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET synchronous_standby_names = 's1'")
        conn.execute("ALTER DATABASE tenure SET synchronous_commit = on")
        conn.execute("SELECT pg_reload_conf()")
        yield
        conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
        conn.execute("SELECT pg_reload_conf()")


@pytest.fixture
def unheard(both: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The first of them is alone."""
    with alone(both[0]):
        yield both


def act(urls: tuple[str, str], *words: str) -> Result:
    """A command over both."""
    eu, us = urls
    env = {"TENURE_SHARDS": f"eu={eu},us={us}", "TENURE_DATABASE_URL": None}
    return CliRunner().invoke(tenure, [*words], env=env)


def test_an_inbox_whose_commit_is_not_answered_is_given_up_and_the_others_go_on(unheard: tuple[str, str]) -> None:
    answer = act(unheard, "queues", "pause", "mail")
    assert (answer.exit_code, answer.stdout) == (TRY_LATER, "us: mail is paused\n"), answer.output
    assert "1 of 2 inboxes answer: eu says: the database does not answer (the server has not answered for 3 s)" in (
        answer.stderr
    )
    assert "it may have been done in eu: look into `tenure audit --inbox eu`" in answer.stderr
    assert is_paused(unheard[1])
    eventually(lambda: is_paused(unheard[0]))  # and so it is in its audit, though its standby is away still


def test_rows_are_changed_where_a_commit_is_answered(unheard: tuple[str, str]) -> None:
    for url in unheard:
        with psycopg.connect(url) as conn:
            conn.execute("SET synchronous_commit = local")
            conn.execute("SELECT tenure.enqueue('mail', '{}')")
    answer = act(unheard, "cancel", "kind:mail", "--yes", "--json")
    assert answer.exit_code == TRY_LATER, answer.output
    told = {each["inbox"]: each for each in json.loads(answer.stdout)["inboxes"]}
    assert told["us"]["changed"] == 1
    assert "the server has not answered for 3 s" in told["eu"]["error"]
    assert told["eu"]["in_doubt"]


def is_paused(url: str) -> bool:
    with psycopg.connect(url) as conn:
        return conn.execute("SELECT FROM tenure.queues WHERE queue = 'mail' AND paused").fetchone() is not None


@pytest.mark.parametrize("as_json", [False, True])
def test_if_no_inbox_answers_each_that_may_have_done_it_is_named(unheard: tuple[str, str], as_json: bool) -> None:
    with alone(unheard[1]):
        answer = act(unheard, "queues", "pause", "mail", *(["--json"] if as_json else []))
    assert isinstance(answer.exception, NoAnswer), answer.output
    assert explain(answer.exception)[1] == UNREACHABLE
    for inbox in ("eu", "us"):
        assert f"it may have been done in {inbox}: look into `tenure audit --inbox {inbox}`" in answer.stderr
    if as_json:
        assert [each["in_doubt"] for each in json.loads(answer.stdout)["inboxes"]] == [True, True]


def test_a_stream_whose_events_take_long_to_erase_is_erased(both: tuple[str, str]) -> None:
    for url in both:
        with psycopg.connect(url) as conn:
            postgres.run(conn, append("order:1", [NewEvent("order.paid")]), "tenure")
            conn.execute(SLOW)
    answer = act(both, "journal", "order:1", "--erase", "--yes")
    assert (answer.exit_code, answer.stdout) == (0, "eu: erased 1 event\nus: erased 1 event\n"), answer.output


def test_over_http_an_inbox_whose_commit_is_not_answered_is_given_up_too(
    unheard: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHANGING", Patience(silence_seconds=1, statement_seconds=2))
    eu, us = unheard
    whole = app(database_url=eu, shards={"eu": eu, "us": us}, access=local)
    with running(whole) as address:
        answer = httpx.post(f"{address}/api/queues/mail/pause", headers=CHANGING, timeout=60)
    told = answer.json()["inboxes"]
    assert (answer.status_code, told["us"]) == (207, {"answers": True}), told
    assert "it may have been done, look into the audit of this inbox" in told["eu"]["error"]
    eventually(lambda: is_paused(eu))
