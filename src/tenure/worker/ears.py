"""Ears: LISTEN on the channel of the schema, and on one for echoes, where a note to ourselves must come back.

The server wakes every listening session for every note. So the whole fleet hears each echo, and a worker that heard the
echo of another need not send one: its ears work.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from ..postgres.connection import QueueConnection
from ..postgres.runner import run
from ..verbs.fleet import echo
from ..verbs.questions import channel


class Ears:
    """What one session hears. A broken LISTEN looks like a quiet one, so it is tested with a note to ourselves."""

    def __init__(self) -> None:
        self.channel = ""  # of the schema; empty until opened
        self.echoes = ""  # the channel for echoes
        self.session = ""  # a name that no other session has
        self.echo_heard = False  # of another worker, since somebody last set it to False
        self._awaited = ""  # the note to ourselves that has not come back yet

    def open(self, conn: QueueConnection) -> None:
        """Listen on this session from now on."""
        self.channel = run(conn, channel())
        self.echoes, self.session = f"{self.channel}_echo", secrets.token_hex(6)
        for name in (self.channel, self.echoes):
            conn.execute(f'LISTEN "{name}"'.encode())

    def send_echo(self, conn: QueueConnection) -> None:
        """Send a note to ourselves."""
        self._awaited = secrets.token_hex(4)
        run(conn, echo(self.echoes, self._awaited))

    @property
    def echo_missing(self) -> bool:
        """True while the note to ourselves has not come back."""
        return bool(self._awaited)

    def notes(self, conn: QueueConnection, seconds: float) -> Iterator[str]:
        """The notes on the channel of the schema within these seconds; echoes are not among them."""
        for heard in conn.notifies(timeout=seconds, stop_after=1):
            if heard.channel != self.echoes:
                yield heard.payload
                continue
            if heard.payload == self._awaited:
                self._awaited = ""
            else:
                self.echo_heard = True
