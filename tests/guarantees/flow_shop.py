"""A shop for tests of workflows: a world, its flows, a ledger of what was done, and a worker."""

from __future__ import annotations

from typing import Any

from crew import eventually, working
from tenure import Inbox
from tenure.shapes.flow import Flows
from world import World


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

    def names(self) -> list[tuple[Any, ...]]:
        return self.world.sql("SELECT path, n, name, state FROM steps ORDER BY path, n")
