"""A shop with a past, built once by shop.sql for all browser tests, and `tenure serve` over it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx

import servers
from world import World, new_world

TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]
PAST = Path(__file__).with_name("shop.sql")
SESSIONS: dict[str, dict[str, str]] = {}  # by the address of a server, the cookie of who opened its link
ADDRESS = re.compile(r"(http://\S+?)/(\?link=\S+)?  ")
BIG = 12345678901234567890  # more than a float can hold; stands in the payload of the contested row


@dataclass(frozen=True)
class Shop:
    """A running `tenure serve` over that database: its address, the rows worth a visit, and a way to make more."""

    url: str
    world: World
    contested: UUID  # held by its third worker; the first one's late write was refused
    waiting: UUID  # behind it, same key
    ended: UUID  # completed

    def enqueue(self, kind: str, n: int) -> None:
        """n due rows of a kind of their own, for a test that will change them."""
        self.world.sql("INSERT INTO live (kind, payload) SELECT %s, '{}' FROM generate_series(1, %s)", kind, n)

    def dead(self, kind: str, n: int, status: str = "dead_letter") -> None:
        """n dead rows of a kind of their own."""
        self.world.sql(
            """INSERT INTO dead (id, seq, created_at, available_at, finished_at, lease_generation, fence_token,
                 attempts, max_attempts, priority, ordered, hold, status, kind, queue, payload, last_error)
               SELECT new_id(), n, t, t, t, 5, n, 5, 5, 0, false, false, %s, %s, 'default', '{}', 'ValueError: no'
               FROM generate_series(1, %s) AS n, clock_timestamp() AS t""",
            *(status, kind, n),
        )

    def count(self, kind: str, status: str) -> int:
        """How many rows of a kind stand in a status now."""
        return int(self.world.sql("SELECT count(*) FROM inbox WHERE kind = %s AND status = %s", kind, status)[0][0])


@contextlib.contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """The database, filled, and the server over it, while the block lasts."""
    with servers.running(servers.available()[0], folder) as database_url, new_world(database_url) as world:
        world.sql(PAST.read_text())
        race = world.sql("SELECT id FROM live WHERE partition_key = 'order:9182' ORDER BY seq")
        (contested,), (waiting,) = race
        ((ended,),) = world.sql("SELECT id FROM archive WHERE partition_key = 'order:2146'")
        with served(world) as url:
            yield Shop(url, world, contested, waiting, ended)


def until_address(lines: Iterable[str]) -> Iterator[str]:
    """These lines up to the one with an address: a server may say something of its settings before."""
    for line in lines:
        yield line
        if ADDRESS.search(line):
            return


@contextlib.contextmanager
def served(world: World, *options: str, **environ: str) -> Iterator[str]:
    """`tenure serve` over a world while the block lasts; gives its address without the last slash.

    Its link has been opened, once: a page that is visited there is let in.
    """
    place = ["--port", "0", "--database-url", world.url, "--schema", world.schema]
    command = [*TENURE, "serve", *place, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}) as process:
        try:
            assert process.stderr is not None
            said = list(until_address(process.stderr))
            found = ADDRESS.search(said[-1]) if said else None
            assert found, "".join(said)
            # A pipe that nobody reads fills up, and stops the server.
            threading.Thread(target=sys.stderr.writelines, args=[process.stderr], daemon=True).start()
            if found[2]:
                SESSIONS[found[1]] = dict(httpx.get(f"{found[1]}/{found[2]}").cookies)
            yield found[1]
        finally:
            process.terminate()
