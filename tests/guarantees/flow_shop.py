"""A shop for tests of workflows: a world, its flows, a ledger of what was done, and a worker."""

from __future__ import annotations

from typing import Any

import psycopg

from crew import eventually, working
from tenure import Inbox
from tenure.shapes.flow import Flows
from world import World


class Crash(BaseException):
    """The attempt ends here, as if its process had died: nothing is recorded of it."""


class Shop:
    """A world with workflows, a ledger of what was done, and a worker."""

    def __init__(self, world: World) -> None:
        self.world, self.inbox, self.did = world, Inbox(schema=world.schema), list[Any]()
        self.flows = Flows(self.inbox)
        world.sql("CREATE TABLE effects_of_ours (what text)")

    def insert(self, what: str) -> bytes:
        return f"INSERT INTO {self.world.schema}.effects_of_ours VALUES ('{what}')".encode()

    def work(self, **terms: Any) -> Any:
        return working(self.world, self.inbox, **{"poll_seconds": 0.2, **terms})

    def do(self, what: Any, answer: Any = None) -> Any:
        self.did.append(what)
        return answer

    async def ado(self, what: Any, answer: Any = None) -> Any:
        return self.do(what, answer)

    def ended(self, id: Any, status: str = "completed", *, forward: bool = False) -> None:
        def over() -> bool:
            if forward:
                self.world.due()
            return self.world.status(id) == status

        eventually(over, seconds=60)

    def asleep(self, id: Any, n: int = 1) -> None:
        """Wait until it waits for n things."""
        query = (
            "SELECT count(*) FROM steps JOIN live ON id = row_id AND status = 'pending'"
            " WHERE row_id = %s AND state IN ('waiting', 'retrying')"
        )
        eventually(lambda: self.world.sql(query, id)[0][0] == n, seconds=60)

    def forward(self) -> None:
        """Let every wait be over."""
        self.world.sql("UPDATE steps SET until = clock_timestamp() WHERE state IN ('waiting', 'retrying')")
        self.world.due()

    def later(self) -> None:
        """Let what it waits for now be over, except signals that the test sends: ok and go, and never."""
        self.world.sql(
            "UPDATE steps SET until = clock_timestamp() WHERE state IN ('waiting', 'retrying')"
            " AND until > clock_timestamp() AND name NOT IN ('wait:ok', 'wait:go', 'wait:never')"
        )
        self.world.due()

    def still(self, id: Any) -> None:
        """Wait until it is parked, or is in a step that is named long."""
        query = (
            "SELECT 1 FROM live JOIN steps ON row_id = id AND state IN ('waiting', 'retrying') AND until = available_at"
            " WHERE id = %s AND status = 'pending' AND until > clock_timestamp()"
        )
        eventually(lambda: "long" in self.did or self.world.sql(query, id))

    def ours(self) -> list[str]:
        """What fenced steps have written."""
        return [what for (what,) in self.world.sql("SELECT what FROM effects_of_ours")]

    def recorded(self, name: str, state: str = "done") -> bool:
        """Whether a step of this name stands so; from any thread."""
        query = f"SELECT 1 FROM {self.world.schema}.steps WHERE name = %s AND state = %s"
        with psycopg.connect(self.world.url, autocommit=True) as conn:
            return conn.execute(query.encode(), [name, state]).fetchone() is not None

    def taken_over(self, id: Any) -> None:
        """Another worker has the row from now on, and nobody here knows it yet; from any thread."""
        query = f"UPDATE {self.world.schema}.live SET lease_generation = lease_generation + 1 WHERE id = %s"
        with psycopg.connect(self.world.url, autocommit=True) as conn:
            conn.execute(query.encode(), [id])

    def names(self) -> list[tuple[Any, ...]]:
        return self.world.sql("SELECT path, n, name, state FROM steps ORDER BY path, n")


class Rigged(Shop):
    """A shop whose steps fail for as long as they are named in `broken`."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.broken = set[str]()

    def body(self, name: str) -> str:
        self.do(name)
        if name in self.broken:
            raise ValueError(f"{name} is broken")
        return name

    async def abody(self, name: str) -> str:
        return self.body(name)
