"""Where drills are forbidden: a database can say so itself, and nothing is made in it, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tenure.cli import main
from tenure.drills.host import Hosts
from tenure.drills.plan import Plan
from tenure.drills.stage.stage import Stage
from tenure.errors import BadSettings

pytestmark = pytest.mark.one_server
NAME = "tenure_test_forbidden"
MARK = "ALTER DATABASE {} SET tenure.drills = {}"


class Place:
    """A database of its own, which may be marked."""

    def __init__(self, server_url: str) -> None:
        self._server_url, self.url = server_url, make_conninfo(server_url, dbname=NAME)
        self.run(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
        self.run(f"CREATE DATABASE {NAME}")

    def mark(self, word: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as conn:
            conn.execute(sql.SQL(MARK).format(sql.Identifier(NAME), sql.Literal(word)))

    def run(self, text: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as conn:
            conn.execute(text.encode())

    def schemas(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as conn:
            return conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenure%'").fetchall()


@pytest.fixture
def place(server_url: str) -> Iterator[Place]:
    place = Place(server_url)
    yield place
    place.run(f"DROP DATABASE {NAME} WITH (FORCE)")


def played(url: str) -> None:
    """A stage, built and left again."""
    with Stage(url, lambda _: None) as stage:
        stage.build()


@pytest.mark.parametrize("word", ["forbid", "production"])
def test_a_database_that_forbids_them_is_not_touched(place: Place, word: str) -> None:
    place.mark(word)
    with pytest.raises(BadSettings, match=f"forbidden in the database '{NAME}' by its own setting .* '{word}'"):
        played(place.url)
    assert place.schemas() == []


@pytest.mark.parametrize("word", ["", "allow"])
def test_one_that_allows_them_is_as_good_as_one_that_says_nothing(place: Place, word: str) -> None:
    played(place.url)
    place.mark(word)
    played(place.url)


@pytest.mark.parametrize("words", [["drill", "receipt", "--on"], ["demo", "--port", "0", "--database-url"]])
def test_a_command_ends_with_one_sentence_and_78(
    place: Place, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mark("forbid")
    monkeypatch.setattr("sys.argv", ["tenure", *words, place.url])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (78, 1), said
    assert said.startswith(f"tenure: drills are forbidden in the database '{NAME}'")
    assert place.schemas() == []


def test_a_stage_of_a_server_is_refused_with_the_same_sentence(place: Place) -> None:
    place.mark("forbid")
    hosts = Hosts(place.url)
    with pytest.raises(BadSettings, match="forbidden in the database"):
        hosts.open(Plan()).begun.result(90)
    hosts.end()
    assert place.schemas() == []
