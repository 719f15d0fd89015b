"""A yard: an empty schema on the shop's database with a server of its own, for tests that change a fleet or a queue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import expect

from faces.browser.shop import Shop, served
from tenure.verbs import fleet
from world import World, new_world

OPERATOR = {"TENURE_WEB_TOKENS": "ann:operate:a-token-of-the-yard"}
expect.set_options(timeout=90_000)  # a machine with other work is slow, not wrong


@dataclass(frozen=True)
class Yard:
    """The address of the server, and the world below it."""

    url: str
    world: World

    def hire(self, worker: str, *queues: str, seen_seconds: float = 0.0, **said: Any) -> str:
        """A worker of the registry, without a process, seen so long ago."""
        told = {"version": "0.1.0", "host": "yard", "pid": 7, "slots": 8, "slots_used": 3, "wakeup": "notify"}
        self.world.run(fleet.register(worker, {**told, "queues": list(queues or ("default",)), **said}))
        self.world.sql(
            "UPDATE workers SET last_seen_at = clock_timestamp() - %s * interval '1 s' WHERE id = %s",
            seen_seconds,
            worker,
        )
        return worker

    def dismiss(self, *workers: str) -> None:
        """Take these out of the registry, or all."""
        self.world.sql("DELETE FROM workers WHERE %s = '{}' OR id = ANY (%s)", list(workers), list(workers))

    def dead(self, kind: str, n: int, error: str = "ValueError: no", *, fail: bool = False, **options: Any) -> None:
        """n rows of a kind that ended badly, with this error."""
        for _ in range(n):
            self.world.enqueue(kind, **options)
            job = (self.world.claim_ordered if options.get("ordered") else self.world.claim)("yard", 1)[0]
            (self.world.fail if fail else self.world.dead_letter)(job.lease, error)

    def count(self, kind: str, status: str) -> int:
        """How many rows of a kind stand in a status now."""
        return int(self.world.sql("SELECT count(*) FROM inbox WHERE kind = %s AND status = %s", kind, status)[0][0])

    def deeds(self, verb: str) -> list[tuple[Any, ...]]:
        """What the audit has of a verb, the latest first: actor, via, target, rows, reason."""
        return self.world.sql(
            "SELECT actor, via, target, rows, reason FROM audit WHERE verb = %s ORDER BY id DESC", verb
        )


def enter_as_operator(page: Any) -> None:
    """Log in with the token of OPERATOR."""
    page.get_by_label("Access token or password").fill("a-token-of-the-yard")
    page.get_by_role("button", name="Log in").click()


@contextlib.contextmanager
def open_yard(shop: Shop, *options: str) -> Iterator[Yard]:
    """The schema and its server while the block lasts."""
    with new_world(shop.world.url) as world, served(world, *options) as url:
        yield Yard(url, world)
