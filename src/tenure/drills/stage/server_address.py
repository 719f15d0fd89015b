"""The address of the server behind a drill's line: where it is, how to dial it, and how clients reach it through us."""

from __future__ import annotations

import os
import socket
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ... import postgres
from .handshake import options_with


def reached(conn: postgres.QueueConnection) -> str:
    """The address of the server that this connection reached, whatever its own address left open."""
    words: dict[str, Any] = {**conn.info.get_parameters(), "host": conn.info.host, "port": conn.info.port}
    return make_conninfo(**words | {"hostaddr": conn.info.hostaddr or None, "password": conn.info.password or None})


class ServerAddress:
    """A Postgres server: a TCP port, or a unix socket."""

    def __init__(self, url: str) -> None:
        self._given = conninfo_to_dict(url)
        self._host = str(self._given.get("hostaddr") or self._given.get("host") or "127.0.0.1")
        self._port = int(self._given.get("port") or 5432)

    @property
    def is_unix_socket(self) -> bool:
        """Is the server a unix socket?"""
        return self._host.startswith("/")

    def dial(self) -> socket.socket:
        """A new connection to the server."""
        if not self.is_unix_socket:
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def through(self, listener: socket.socket, secret: str) -> str:
        """The server's address through this listener, with the secret in its options."""
        address, port = listener.getsockname()
        named = str(self._given.get("host") or address)  # a certificate is checked by the server's own name
        words = {"host": named, "hostaddr": address, "port": port}
        if self.is_unix_socket:  # libpq asks no unix socket for encryption, and must not ask us for it either
            words |= {"host": address, "sslmode": "disable", "gssencmode": "disable"}
        # Options in an address hide those of the environment.
        options = str(self._given.get("options") or os.environ.get("PGOPTIONS", ""))
        return make_conninfo(**{**self._given, **words, "options": options_with(secret, options)})
