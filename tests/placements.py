"""Two inboxes on servers of their own, and a placement of ranges that tests change: the door without Citus."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from uuid import UUID

from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from tenure import postgres, verbs
from tenure.embedded import attach
from tenure.model.rows import Claimed
from tenure.postgres import migrate
from tenure.postgres.citus_door import text_of
from tenure.postgres.handoff import Handoff, adopt
from tenure.verbs import settle

RANGES = 4
DOOR = f"""
CREATE SCHEMA tenure_door;
CREATE TABLE tenure_door.placement (range bigint PRIMARY KEY, inbox int NOT NULL);
INSERT INTO tenure_door.placement SELECT n, 1 FROM generate_series(0, {RANGES - 1}) AS n;
CREATE TABLE tenure_door.places (inbox int, host text, port int, is_here boolean);
CREATE FUNCTION tenure_door.here() RETURNS int LANGUAGE sql STABLE
AS 'SELECT p.inbox FROM tenure_door.places AS p WHERE p.is_here';
CREATE FUNCTION tenure_door.range_of(routing_key text) RETURNS bigint LANGUAGE sql IMMUTABLE
AS 'SELECT abs(hashtext(routing_key)) % {RANGES}';
CREATE FUNCTION tenure_door.place(routing_key text, OUT range bigint, OUT inbox int, OUT placed bigint)
LANGUAGE sql STABLE AS $$
  SELECT p.range, p.inbox, p.xmin::text::bigint FROM tenure_door.placement AS p
  WHERE p.range = tenure_door.range_of(routing_key)
$$;
CREATE FUNCTION tenure_door.ranges_here() RETURNS TABLE (range bigint, placed bigint) LANGUAGE sql STABLE
AS 'SELECT p.range, p.xmin::text::bigint FROM tenure_door.placement AS p WHERE p.inbox = tenure_door.here()';
CREATE FUNCTION tenure_door.hold_range(routing_key text) RETURNS void LANGUAGE sql VOLATILE
AS 'SELECT pg_advisory_xact_lock_shared(tenure_door.range_of(routing_key))';
CREATE FUNCTION tenure_door.nodes() RETURNS TABLE (inbox int, host text, port int) LANGUAGE sql
AS 'SELECT p.inbox, p.host, p.port FROM tenure_door.places AS p ORDER BY 1';
CREATE FUNCTION tenure_door.members() RETURNS TABLE (inbox int, host text, port int) LANGUAGE sql
AS 'SELECT p.inbox, p.host, p.port FROM tenure_door.places AS p ORDER BY 1';
"""


def number(job: Claimed) -> int:
    """Which of the rows that were sent it is."""
    return int(json.loads(job.payload)["n"])


class Placements:
    """The inboxes by number, and what can be done to the ranges of their keys."""

    def __init__(self, urls: Mapping[int, str]) -> None:
        self.urls = urls
        self.conns = {inbox: postgres.connect(url) for inbox, url in urls.items()}
        self._others = {inbox: postgres.connect(url) for inbox, url in urls.items()}
        for inbox in urls:
            self.know(inbox)
        self.everything_at_home()

    def know(self, inbox: int, away: int | None = None) -> None:
        """This inbox knows where the others are; of the one that is away, a wrong address."""
        self.conns[inbox].execute("DELETE FROM tenure_door.places")
        for other, url in self.urls.items():
            words = conninfo_to_dict(url)
            host = "/nowhere" if other == away else words["host"]
            values = [other, host, words["port"], other == inbox]
            self.conns[inbox].execute("INSERT INTO tenure_door.places VALUES (%s, %s, %s, %s)", values)

    def everything_at_home(self) -> None:
        """No rows, and all ranges at home in the first inbox."""
        for conn in self.conns.values():
            tables = "live, dead, heads, arrivals, waiting, ranges"
            conn.execute(f"TRUNCATE tenure.{tables.replace(', ', ', tenure.')}".encode())
            conn.execute("UPDATE tenure_door.placement SET inbox = 1")
        for inbox in self.urls:
            self.adopt(inbox)

    def home(self, key: str) -> int:
        """Where the range of a key is."""
        (found,) = self.conns[1].execute("SELECT inbox FROM tenure_door.place(%s)", [key]).fetchone() or (0,)
        return int(found)

    def send(self, key: str, n: int, *, ordered: bool = True, hold: bool = False) -> UUID:
        """A row to the inbox of its key, as the door would."""
        asked = "SELECT row_id FROM tenure.enqueue('count', %s, %s, ordered => %s, hold => %s)"
        (id,) = self.conns[self.home(key)].execute(asked, [Jsonb({"n": n}), key, ordered, hold]).fetchone() or (None,)
        assert isinstance(id, UUID)
        return id

    def move(self, *keys: str, to: int) -> None:
        """The ranges of keys go to another inbox in one transaction, and wait for those who hold them."""
        conns = list(self._others.values())
        with contextlib.ExitStack() as stack:
            for conn in conns:
                stack.enter_context(conn.transaction())
            for conn, key in product(conns, keys):
                conn.execute("SELECT pg_advisory_xact_lock(tenure_door.range_of(%s))", [key])
            for conn, key in product(conns, keys):
                change = "UPDATE tenure_door.placement SET inbox = %s WHERE range = tenure_door.range_of(%s)"
                conn.execute(change, [to, key])

    def let_a_row_wait(self, key: str) -> None:
        """In the second inbox, because the first has a row of its range."""
        self.send(key, 0)
        self.move(key, to=2)
        self.send(key, 1)
        self.adopt(2)

    def adopt(self, inbox: int, without: tuple[str, ...] = ()) -> Handoff:
        """What the chore does there."""
        return adopt(self.conns[inbox], self.urls[inbox], "tenure", without)

    def claim(self, inbox: int, n: int = 100) -> list[Claimed]:
        """Rows that could run there, claimed."""
        return postgres.run(self.conns[inbox], verbs.claim_ordered("A", n))

    def work(self, inbox: int, n: int = 100) -> list[tuple[str, int]]:
        """Claim and complete what there is, up to n keys a time: key and number, as they were done."""
        done = []
        while jobs := self.claim(inbox, n):
            for job in jobs:
                done.append((job.partition_key, number(job)))
                postgres.run(self.conns[inbox], settle.complete([job.lease]))
        return done

    def close(self) -> None:
        """End the connections."""
        for conn in (*self.conns.values(), *self._others.values()):
            conn.close()


@contextlib.contextmanager
def placed(folder: Path) -> Iterator[Placements]:
    """Two servers, with an inbox and the handoff on each."""
    with contextlib.ExitStack() as stack:
        urls = {n: stack.enter_context(attach(folder / str(n), fast=True, linger_seconds=0.2)).url for n in (1, 2)}
        for url in urls.values():
            with postgres.connect(url) as conn:
                migrate.apply(conn)
                conn.execute(DOOR.encode())
                conn.execute(text_of("handoff", "tenure"))
        found = Placements(urls)
        stack.callback(found.close)
        yield found
