"""A connection for those who watch for long: while the database is away they say so, and then go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import psycopg

from .. import postgres
from ..errors import ServerBehind
from ..postgres import migrate
from ..postgres.connection import QueueConnection
from ..postgres.sqlstates import trouble_of
from .database import Database

T = TypeVar("T")


class Reconnecting:
    """One session after another on a database. The first must come about, or the command ends with why it does not."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self._name = database, name
        self._away: datetime | None = None
        self.conn = self._connect()

    def __enter__(self) -> Reconnecting:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()

    @property
    def schema(self) -> str:
        """Where to look."""
        return self._database.schema

    @property
    def away(self) -> str:
        """Since when nobody answers, in words; empty while somebody does."""
        return f"the database is away since {self._away:%H:%M:%SZ}" if self._away else ""

    def ask(self, look: Callable[[QueueConnection, str], T]) -> T | None:
        """The answer, or None while the database is away; the next call connects anew."""
        try:
            if self.conn.closed:
                self.conn = self._connect()
                self._away = None
            return look(self.conn, self.schema)
        except (psycopg.Error, ServerBehind) as error:
            if trouble_of(error) != "away":
                raise
            self._away = self._away or datetime.now(UTC)
            with contextlib.suppress(psycopg.Error):
                self.conn.close()
            return None

    def _connect(self) -> QueueConnection:
        conn = postgres.connect(self._database.url, application_name=self._name)
        try:
            migrate.require(conn, self.schema)
        except BaseException:
            conn.close()
            raise
        return conn
