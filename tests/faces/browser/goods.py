"""What the shapes leave in a database, so that their pages have something to show."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from tenure.model.journal import NewEvent
from tenure.model.rows import Claimed, Lane, NewRow
from tenure.verbs import batches, endpoints, fleet, steps
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection
from tenure.verbs.schedules import Schedule, plan
from tenure.verbs.steps import Parking, Recording, Step, Wait
from world import World

# Every page that shows something of a filled database; ids in braces are those of `fill`.
PAGES = (
    "", "rows", "workers", "ring", "dead", "queues", "schedules", "flows", "flows?state=stuck", "flows/{flow}",
    "outbox", "hooks", "hooks/{hook}", "projections", "batches", "batches/{batch}", "audit",
)  # fmt: skip
QUEUE = "shapes"
BROKEN = "RuntimeError: the carrier answered 503 Service Unavailable: no parcel can be sent at the moment"


def fill(world: World) -> dict[str, Any]:
    """A few of each; gives the ids of those that have a page of their own."""
    _outboxes(world)
    _projections(world)
    _audit(world)
    world.run(plan(Schedule("nightly", "30 2 * * *", "report", zone="Europe/Berlin")))
    world.run(plan(Schedule("close_abandoned_carts_of_every_shop", "*/5 * * * *", "close_carts")))
    return {"hook": _hooks(world), "flow": _flows(world), "batch": _batches(world)}


def _audit(world: World) -> None:
    """What two people did."""
    for actor, via, verb, target, rows, reason in (
        ("ann@desk", "cli", "redrive", "status:dead_letter kind:charge_card", 1721, "the bank is back since noon"),
        ("bob", "web", "pause_queue", "a-queue-with-a-rather-long-name-indeed", 0, ""),
    ):
        world.sql(
            "INSERT INTO audit (actor, via, verb, target, rows, reason, done_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp())",
            *(actor, via, verb, target, rows, reason),
        )


def _hooks(world: World) -> UUID:
    """Three endpoints: one well, one whose circuit is open, one paused."""
    well, open_circuit, paused = uuid4(), uuid4(), uuid4()
    address = "https://acme.example/hooks/of/the/shop/in/berlin?key=hush"
    world.run(endpoints.add_endpoint(well, "acme", address, ["order.*", "refund.*"], "whsec_hush"))
    world.run(endpoints.add_endpoint(open_circuit, "bolt", "https://bolt.example/in", ["*"], "whsec_hush"))
    world.run(endpoints.add_endpoint(paused, "corner-store-of-a-long-name", "https://c.example/", ["*"], "whsec_hush"))
    world.run(endpoints.set_endpoint(paused, "paused", queue="webhooks"))
    world.sql(
        "UPDATE endpoints SET failures = 5, failing_since = clock_timestamp() - interval '1 hour', "
        "open_until = clock_timestamp() + interval '1 hour', note = 'ConnectTimeout' WHERE id = %s",
        open_circuit,
    )
    sent = world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks")).webhook_id
    for endpoint, status, ms, note in (
        (well, 500, 1120, '{"error": "the database of the shop is being upgraded, try again in ten minutes"}'),
        (well, 200, 20, "ok"),
        (well, 200, 34, None),
        (open_circuit, None, 5000, "ConnectTimeout"),
    ):
        world.sql(
            "INSERT INTO deliveries (row_id, fence_token, attempt, endpoint_id, webhook_id, status, ms, address, note) "
            "VALUES (new_id(), 1, 1, %s, %s, %s, %s, '203.0.113.7', %s)",
            *(endpoint, sent, status, ms, note),
        )
    return well


def _claimed(world: World, kind: str, n: int = 1, **options: Any) -> list[Claimed]:
    """So many new rows of a kind, held."""
    for _ in range(n):
        world.enqueue(kind, queue=QUEUE, **options)
    found = world.claim("shop-7f9c-1", 100, lanes=[Lane(QUEUE)])
    return [each for each in found if each.kind == kind]


def _flows(world: World) -> UUID:
    """One that waits, one that is undoing, one that ended badly."""
    headers = {"tenure-flow": "checkout", "tenure-version": "2"}
    waits, undoes, broken = _claimed(world, "checkout", 3, headers=headers)
    done = [
        Step("", 0, "charge", "done", result='{"charge": "ch_3N", "amount": 4200}'),
        Step("", 1, "reserve", "done", result='{"shelf": "B-17"}'),
    ]
    for each in (waits, undoes, broken):
        world.run(steps.record([Recording(each, 1, done, {"stage": '"paid"'})]))
    world.run(steps.park([Parking(waits, [Wait("", 2, "wait:shipped", seconds=86400.0)])]))
    failed = Step("", 2, "ship", "failed", tries=5, error=BROKEN)
    undo = Step("undo", 1, "undo:reserve", "done")
    world.run(steps.record([Recording(undoes, 1, [failed, undo])]))
    world.fail(broken.lease, BROKEN)
    return undoes.id


def _batches(world: World) -> int:
    """One that has failed in part, one that is new."""
    made = world.run(batches.open_group([NewRow("resize_image", queue=QUEUE)] * 12, name="pictures of order 9182"))
    for job in world.claim("shop-7f9c-2", 8, lanes=[Lane(QUEUE)]):
        if job.kind == "resize_image":
            world.complete(job.lease)
    for job in world.claim("shop-7f9c-2", 2, lanes=[Lane(QUEUE)]):
        world.fail(job.lease, "OSError: cannot identify image file '/var/shop/9182/3.png'")
    world.run(batches.open_group([NewRow("report", queue=QUEUE)] * 3, name=None))
    return made.id


def _projections(world: World) -> None:
    """One that reads, one whose first shard has stopped."""
    world.run(plan_projection("order_totals", shards=2, like=None))
    world.run(plan_projection("customers_by_city", shards=1, like=None))
    for n in range(40):
        world.run(append(f"order:{n}", [NewEvent("order.paid")]))
    world.sql(
        "UPDATE checkpoints SET state = 'stopped', stopped_at = 7, error = %s WHERE projection = 'order_totals' "
        "AND shard = 0",
        'UniqueViolation: duplicate key value violates unique constraint "totals_pkey"',
    )


def _outboxes(world: World) -> None:
    """One whose broker is reached, one whose broker is away."""
    for kind in ("outbox:shop", "outbox:shop", "outbox:billing"):
        world.enqueue(kind, queue="outbox", key="order:1", ordered=True)
    away = {"away_since": "2026-11-17T03:00:00Z", "error": "connection refused by 127.0.0.1:4222"}
    said = {"version": "0.1.0", "host": "yard", "pid": 7, "slots": 8, "slots_used": 3, "wakeup": "notify"}
    world.run(
        fleet.register(
            "relay-5f2a-1",
            {**said, "queues": ["outbox"], "kinds": ["outbox:shop", "outbox:billing"], "outbox:billing": away},
        )
    )
