"""A process that appends to the journal and reads it, as it is told: `append ORDER`, `commit`, `read`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from psycopg import Connection

from ... import postgres, sql
from ...model.journal import NewEvent
from ...verbs import journal
from . import protocol, shop
from .protocol import hear, say

# How it reads on: below the horizon, as the journal does, or, as the control, whatever number comes next.
Reads = Literal["horizon", "sequence"]
NEXT = "SELECT position, stream, version, id FROM tenure.journal WHERE position > %s ORDER BY position LIMIT 1000"


@dataclass(frozen=True, slots=True)
class Part(protocol.Part):
    """What a scribe needs to know."""

    reads: Reads = "horizon"


def main() -> None:
    """Do what is said until the drill is gone."""
    part = protocol.part_of(Part)
    with postgres.connect(part.url, application_name=f"tenure drill {part.name}") as conn:
        scribe = Scribe(part, conn)
        while True:
            word, _, rest = hear().strip().partition(" ")
            scribe.do(word, rest)


class Scribe:
    """One connection, and the number of the last event that it has read."""

    def __init__(self, part: Part, conn: Connection[Any]) -> None:
        self._part, self._conn, self._read = part, conn, 0

    def do(self, word: str, rest: str) -> None:
        """One word of the drill."""
        if word == "append":
            self._append(int(rest))
        elif word == "commit":
            self._conn.execute("COMMIT")
            self._say("event_committed")
        else:
            assert word == "read", f"expected append, commit or read, heard {word!r}"
            self._read_on()

    def _append(self, order: int) -> None:
        self._conn.execute("BEGIN")
        paid = NewEvent("order.paid", {"order_id": order})
        appended = postgres.run(self._conn, journal.append(f"order:{order}", [paid]), self._part.schema)
        self._say("event_appended", order=order, position=appended.position)

    def _read_on(self) -> None:
        """What comes after the last one; each goes to the ledger, with its position as the step."""
        found = self._next()
        for position, stream, version, id in found:
            order = int(stream.partition(":")[2])
            self._conn.execute(self._sql(shop.WRITE), [order, position, id, self._part.name, version])
            self._read = position
        self._say("events_read", positions=[each[0] for each in found], upto=self._read)

    def _next(self) -> list[tuple[Any, ...]]:
        if self._part.reads == "sequence":
            return self._conn.execute(self._sql(NEXT), [self._read]).fetchall()
        found = postgres.run(self._conn, journal.read_after(self._read), self._part.schema)
        return [(each.position, each.stream, each.version, each.id) for each in found]

    def _say(self, event: str, **fields: Any) -> None:
        say({"event": event, "worker": self._part.name, **fields})

    def _sql(self, text: str) -> bytes:
        return sql.in_schema(text, self._part.schema).encode()


if __name__ == "__main__":
    main()
