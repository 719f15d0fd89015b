"""An act over several inboxes, one of which does not answer: it is given up in time and named, and the others go on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from tenure import postgres
from tenure.cli import inbox_told, tenure
from tenure.embedded import attach
from tenure.errors import TRY_LATER
from tenure.postgres import migrate

pytestmark = pytest.mark.one_server


@pytest.fixture
def unheard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Two inboxes on servers of their own: what is committed in the first waits for a standby that is not there."""
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(attach(tmp_path / n, fast=True, linger_seconds=0.2)).url for n in ("eu", "us")]
        for url in urls:
            with postgres.connect(url) as conn:
                migrate.apply(conn)
        with psycopg.connect(urls[0], autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = 's1'")
            conn.execute("ALTER DATABASE tenure SET synchronous_commit = on")
            conn.execute("SELECT pg_reload_conf()")
            monkeypatch.setattr(inbox_told, "ANSWER_SECONDS", 3.0)
            yield urls[0], urls[1]
            conn.execute("ALTER SYSTEM RESET synchronous_standby_names")
            conn.execute("SELECT pg_reload_conf()")


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
    assert "it may have been done in eu: `tenure audit --inbox eu` says whether" in answer.stderr
    with psycopg.connect(unheard[1]) as conn:
        assert conn.execute("SELECT paused FROM tenure.queues WHERE queue = 'mail'").fetchone() == (True,)


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
