"""A connection for commands that watch: they say when the database is away, and go on when it is back."""

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
    """A session that is opened again when it breaks. If the first one fails, the command ends with the reason."""

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
        """The schema to look into."""
        return self._database.schema

    @property
    def away(self) -> str:
        """Since when the database is away, in words; empty while it answers."""
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
