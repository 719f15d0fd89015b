"""The SQL of webhooks: who is told, who learns a secret, who gets the probe, and what a call changes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from crew import eventually
from guarantees.facts import Beside, user_connection, waits_for_a_lock
from patience import SECONDS_MAX
from tenure.model.rows import Claimed, Lane
from tenure.verbs import endpoints, questions
from tenure.verbs.endpoints import Call, EndpointRow, EndpointStates
from world import World

QUEUE = "webhooks"


def add(world: World, tenant: str = "acme", *kinds: str, state: str = "active") -> UUID:
    id = uuid4()
    assert world.run(endpoints.add_endpoint(id, tenant, f"https://{id}.example", kinds or ("*",), f"secret of {id}"))
    world.sql("UPDATE endpoints SET state = %s WHERE id = %s", state, id)
    return id


def send(world: World, tenant: str = "acme", kind: str = "order.paid", body: bytes = b"{}") -> UUID:
    return world.run(endpoints.send_webhook(tenant, kind, body, queue=QUEUE)).webhook_id


def held(world: World, body: bytes = b"{}") -> tuple[Claimed, UUID]:
    """A delivery of acme that worker A holds, and its webhook."""
    webhook = send(world, body=body)
    return world.claim_one(lanes=[Lane(QUEUE)]), webhook


def state(world: World, id: UUID) -> EndpointRow:
    (found,) = world.run(endpoints.endpoints(id=id))
    return found


def told(world: World) -> set[UUID]:
    """The endpoints that rows are for."""
    return {UUID(key.removeprefix("endpoint:")) for (key,) in world.sql("SELECT partition_key FROM live")}


def log(world: World, job: Claimed, to: UUID, verdict: Any, *, fence: int, slow: float = 0.0, conn: Any = None) -> Any:
    how: dict[str, Any] = {"status": 500, "ms": 1, "address": None, "note": "no", "verdict": verdict}
    logged = endpoints.log_delivery(job.lease._replace(fence=fence), 1, uuid4(), to, slow_seconds=slow, **how)
    return world.run(logged, conn)[0]


def called(world: World, endpoint: UUID, webhook: UUID, row: str = "new_id()") -> None:
    world.sql(
        "INSERT INTO deliveries (row_id, fence_token, attempt, endpoint_id, webhook_id, ms)"
        f" VALUES ({row}, 1, 1, %s, %s, 1)",
        *(endpoint, webhook),
    )


@contextmanager
def older(world: World) -> Iterator[tuple[psycopg.Connection[Any], datetime]]:
    """A transaction, and a moment after its beginning: what asks for now() there is behind the clock."""
    conn = world.connect()
    with conn.transaction():
        conn.execute("SELECT now(), pg_sleep(0.01)")
        ((moment,),) = world.sql("SELECT clock_timestamp()")
        world.sql("SELECT pg_sleep(0.01)")
        yield conn, moment


# -- who is told


def test_a_webhook_goes_to_the_endpoints_of_its_tenant_that_want_its_kind(world: World) -> None:
    wanted = {add(world, "acme", "user.made", "order.paid"), add(world, "acme", "order.*"), add(world)}
    wanted.add(add(world, state="paused"))
    for other in ("order.pai", "order.paid.late", "user.*"):
        add(world, "acme", other)
    add(world, "other")
    add(world, state="disabled")
    sent = world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue=QUEUE))
    assert sent.sent == 4
    assert told(world) == wanted
    assert world.run(endpoints.send_webhook("nobody", "order.paid", b"{}", queue=QUEUE)).sent == 0
    assert world.count("webhooks") == 2  # one that nobody wants yet is kept


@pytest.mark.parametrize(("tenant", "kind", "body"), [("t", "a b", b""), ("t", "", b""), ("t", "k", b"x" * 1_048_577)])
def test_what_cannot_be_a_webhook_is_refused(world: World, tenant: str, kind: str, body: bytes) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="needs a tenant, a kind"):
        send(world, tenant, kind, body)
    assert world.count("webhooks") == 0


def test_a_tenant_has_so_many_endpoints_that_are_not_disabled(world: World) -> None:
    def may(tenant: str = "acme") -> bool:
        adding = endpoints.add_endpoint(uuid4(), tenant, "https://a.example", ["*"], "s")
        return world.run(type(adding)(adding.name, {**adding.params, "n": 2}, adding.read))

    assert [may(), may(), may(), may("other")] == [True, True, False, True]
    world.sql("UPDATE endpoints SET state = 'disabled' WHERE tenant = 'acme'")
    assert [may(), may(), may()] == [True, True, False]


def test_one_endpoint_is_tested_and_none_that_is_disabled(world: World) -> None:
    add(world)
    id, off = add(world, "acme", "user.*"), add(world, state="disabled")
    assert world.run(endpoints.try_endpoint(id, queue=QUEUE)) is not None
    assert world.run(endpoints.try_endpoint(off, queue=QUEUE)) is None
    assert (told(world), world.count("webhooks")) == ({id}, 1)


def test_kept_webhooks_are_sent_again_to_one_endpoint_and_to_none_that_is_disabled(world: World) -> None:
    named, _, foreign = send(world), send(world), send(world, "other")
    id, off = add(world), add(world, state="disabled")
    add(world)
    assert world.run(endpoints.resend_webhook(id, [named, foreign], queue=QUEUE)) == [named]
    assert world.run(endpoints.resend_webhook(off, [named], queue=QUEUE)) == []
    assert (told(world), world.count("live")) == ({id}, 1)


# -- secrets


def test_a_rotation_is_of_one_endpoint_and_open_until_the_overlap_is_over_by_the_clock(world: World) -> None:
    other, id = add(world), add(world)
    with older(world) as (conn, moment):
        rotated = world.run(endpoints.rotate_secret(id, "new", 60.0), conn)
        assert rotated is not None
        assert rotated.until is not None
        assert rotated.until > moment + timedelta(seconds=60)
    assert world.run(endpoints.rotate_secret(id, "newer", 60.0)) == (None, rotated.until)
    assert world.run(endpoints.rotate_secret(uuid4(), "newer", 60.0)) is None
    assert dict(world.sql("SELECT id, secret FROM endpoints")) == {other: f"secret of {other}", id: "new"}
    with older(world) as (conn, moment):
        world.sql("UPDATE endpoints SET before_until = %s WHERE id = %s", moment, id)
        again = world.run(endpoints.rotate_secret(id, "newer", 60.0), conn)
        assert again is not None
        assert again.until is not None


def test_of_two_rotations_at_once_the_second_finds_that_of_the_first_open(world: World) -> None:
    id = add(world)
    first, second = world.connect(), world.connect()
    with first.transaction():
        rotated = world.run(endpoints.rotate_secret(id, "new", 60.0), first)
        assert rotated is not None
        rotating = Beside(lambda: world.run(endpoints.rotate_secret(id, "newer", 60.0), second))
        waits_for_a_lock(world, second)
    assert rotating.result() == (None, rotated.until)
    assert world.sql("SELECT secret, secret_before FROM endpoints") == [("new", f"secret of {id}")]


def test_a_rotation_without_an_overlap_ends_the_one_that_is_open_and_no_secret_before_is_kept(world: World) -> None:
    other, id = add(world), add(world)
    for each in (other, id):
        world.run(endpoints.rotate_secret(each, "new", 3600.0))
    rotated = world.run(endpoints.rotate_secret(id, "newest", 0.0))
    assert rotated is not None
    assert rotated.until is not None
    kept = {row[0]: row[1:] for row in world.sql("SELECT id, secret, secret_before FROM endpoints")}
    assert kept == {other: ("new", f"secret of {other}"), id: ("newest", None)}
    assert world.sql("SELECT before_until <= clock_timestamp() FROM endpoints WHERE id = %s", id) == [(True,)]


def ask(world: World, job: Claimed, webhook: UUID, endpoint: UUID, conn: Any = None, **wrong: Any) -> Call | None:
    return world.run(endpoints.begin_delivery(job.lease._replace(**wrong), webhook, endpoint), conn)


def test_only_the_holder_of_a_delivery_learns_its_address_its_body_and_its_secret(world: World) -> None:
    add(world, "other")
    spare = send(world, body=b"another")  # acme has no endpoint yet
    id = add(world)
    job, webhook = held(world, b"its own")
    call = ask(world, job, webhook, id)
    assert call is not None
    assert (call.outcome, call.url, call.secret) == ("go", f"https://{id}.example", f"secret of {id}")
    assert (bytes(call.body or b""), call.tenant, call.secret_before) == (b"its own", "acme", None)
    for wrong in ({"generation": 2}, {"fence": job.lease.fence + 1}, {"id": UUID(int=1)}):
        assert ask(world, job, webhook, id, **wrong) is None
    assert ask(world, job, webhook, add(world)) is None
    assert ask(world, job, spare, id) is None
    with older(world) as (conn, moment):
        world.sql("UPDATE live SET lease_expires_at = %s WHERE id = %s", moment, job.id)
        assert ask(world, job, webhook, id, conn) is None


@pytest.mark.parametrize("outcome", ["paused", "disabled", "gone"])
def test_an_endpoint_that_is_off_is_not_called_and_its_secret_is_not_told(world: World, outcome: str) -> None:
    id = add(world)
    job, webhook = held(world)
    if outcome == "gone":
        world.sql("DELETE FROM webhooks")
    else:
        world.sql("UPDATE endpoints SET state = %s", outcome)
    call = ask(world, job, webhook, id)
    assert call is not None
    assert (call.outcome, call.secret, call.body) == (outcome, None, None)
    world.sql("DELETE FROM endpoints")
    gone = ask(world, job, webhook, id)
    assert gone is not None
    assert gone.outcome == "gone"


def test_what_one_tenant_is_told_is_never_sent_to_another(world: World) -> None:
    """Whoever may enqueue can write a row that names both."""
    webhook, id = send(world, "acme", body=b"of acme"), add(world, "other")
    world.enqueue("webhook", {"webhook": str(webhook), "endpoint": str(id)}, queue=QUEUE)
    call = ask(world, world.claim_one(lanes=[Lane(QUEUE)]), webhook, id)
    assert call is not None
    assert (call.outcome, call.secret, call.body) == ("gone", None, None)


def test_the_secret_before_signs_until_its_time_is_over_by_the_clock(world: World) -> None:
    id = add(world)
    job, webhook = held(world)
    world.run(endpoints.rotate_secret(id, "new", 60.0))
    call = ask(world, job, webhook, id)
    assert call is not None
    assert (call.secret, call.secret_before) == ("new", f"secret of {id}")
    with older(world) as (conn, moment):
        world.sql("UPDATE endpoints SET before_until = %s", moment)
        late = ask(world, job, webhook, id, conn)
        assert late is not None
        assert (late.secret, late.secret_before) == ("new", None)
        assert late.moment > moment.timestamp()


# -- the circuit


def test_while_the_circuit_is_open_nobody_calls_then_one_probes_by_the_clock(world: World) -> None:
    other, id = add(world, "other"), add(world)
    job, webhook = held(world)
    with older(world) as (conn, moment):
        world.sql("UPDATE endpoints SET failures = 5, open_until = %s", moment + timedelta(seconds=60))
        waits = ask(world, job, webhook, id, conn)
        assert waits is not None
        assert (waits.outcome, waits.secret) == ("open", None)
        assert 5 < (waits.wait_seconds or 0) < 60
    with older(world) as (conn, moment):
        world.sql("UPDATE endpoints SET open_until = %s", moment)
        outcomes = [call.outcome for _ in range(2) if (call := ask(world, job, webhook, id, conn)) is not None]
        assert outcomes == ["go", "open"]
    ((probe,),) = world.sql("SELECT probe_until FROM endpoints WHERE id = %s", id)
    assert probe > moment + timedelta(seconds=30)
    assert world.sql("SELECT probe_until FROM endpoints WHERE id = %s", other) == [(None,)]
    with older(world) as (conn, moment):  # the prober died
        world.sql("UPDATE endpoints SET probe_until = %s", moment)
        again = ask(world, job, webhook, id, conn)
        assert again is not None
        assert again.outcome == "go"


def test_who_waited_while_the_circuit_was_opened_again_gets_no_probe(world: World) -> None:
    id = add(world)
    job, webhook = held(world)
    world.sql("UPDATE endpoints SET failures = 5, open_until = clock_timestamp()")
    asking, tripping = world.connect(), world.connect()
    waits = "SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted"
    with ThreadPoolExecutor(1) as pool:
        with tripping.transaction():
            tripping.execute("UPDATE endpoints SET open_until = clock_timestamp() + interval '1 hour'")
            asked = pool.submit(ask, world, job, webhook, id, asking)
            eventually(lambda: world.sql(waits, asking.info.backend_pid))
        call = asked.result(SECONDS_MAX)
    assert call is not None
    assert (call.outcome, call.secret) == ("open", None)


def test_failures_in_a_row_open_the_circuit_for_longer_and_longer_and_a_success_closes_it(world: World) -> None:
    other, id = add(world, "other"), add(world)
    job, _ = held(world)
    assert log(world, job, other, "failed", fence=90) is None
    changes = [log(world, job, id, "failed", fence=n) for n in range(7)]
    assert changes == [None] * 4 + ["tripped"] + [None] * 2
    assert (state(world, id).failures, state(world, other).failures) == (5, 1)

    def opened(fence: int, **how: Any) -> float:
        world.sql("UPDATE endpoints SET open_until = clock_timestamp() WHERE id = %s", id)
        assert log(world, job, id, "failed", fence=fence, **how) == "tripped"
        return float(world.sql(
            "SELECT round(date_part('epoch', open_until - clock_timestamp())) FROM endpoints WHERE id = %s", id
        )[0][0])  # fmt: skip

    assert [opened(n) for n in range(10, 14)] == [60, 120, 240, 480]
    world.sql("UPDATE endpoints SET failures = 2000000 WHERE id = %s", id)
    assert [opened(14), opened(15, slow=7200.0)] == [3600, 7200]
    assert log(world, job, id, "ok", fence=16) == "restored"
    found = state(world, id)
    assert (found.failures, found.failing_since, found.open_until) == (0, None, None)
    assert state(world, other).failures == 1
    ((before,),) = world.sql("SELECT xmin FROM endpoints WHERE id = %s", id)
    assert log(world, job, id, "ok", fence=17) is None
    assert world.sql("SELECT xmin FROM endpoints WHERE id = %s", id) == [(before,)]  # a healthy one is only read
    assert log(world, job, other, "ok", fence=18) is None, "its circuit was closed"
    assert log(world, job, id, "failed", fence=19, slow=100.0) == "tripped"


def test_a_call_is_logged_once_and_a_circuit_is_open_by_the_clock(world: World) -> None:
    id = add(world)
    job, _ = held(world)
    for _ in range(2):
        log(world, job, id, "failed", fence=7)
    assert world.count("deliveries") == 1
    with older(world) as (conn, moment):
        world.sql("UPDATE endpoints SET failures = 5, open_until = %s", moment)
        assert log(world, job, id, "failed", fence=8, conn=conn) == "tripped"
    assert log(world, job, uuid4(), "failed", fence=9) is None  # its endpoint is gone: only the log has it
    assert world.count("deliveries") == 3


def test_410_and_days_of_failure_disable_one_endpoint(world: World) -> None:
    other, id, gone = add(world, "other"), add(world), add(world, "third")
    job, _ = held(world)
    assert log(world, job, id, "failed", fence=1) is None
    world.sql("UPDATE endpoints SET failing_since = clock_timestamp() - interval '4 days 23 hours' WHERE id = %s", id)
    assert log(world, job, id, "failed", fence=2) is None
    world.sql("UPDATE endpoints SET failing_since = clock_timestamp() - interval '5 days 1 minute' WHERE id = %s", id)
    assert log(world, job, id, "failed", fence=3) == "disabled"
    world.sql("UPDATE endpoints SET open_until = clock_timestamp() + interval '1 hour' WHERE id = %s", gone)
    assert log(world, job, gone, "gone", fence=4) == "disabled"  # also while its circuit is open
    assert [state(world, each).state for each in (id, gone, other)] == ["disabled", "disabled", "active"]


# -- what operators change


def test_an_active_endpoint_begins_anew_and_what_waits_for_it_is_due_by_the_clock(world: World) -> None:
    other, id = add(world), add(world)
    world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="elsewhere"))
    send(world)
    later = "clock_timestamp() + interval '1 hour'"
    world.sql(f"UPDATE live SET available_at = {later}")
    world.sql(f"UPDATE endpoints SET failures = 5, open_until = {later}")
    assert world.run(endpoints.set_endpoint(id, "paused", queue=QUEUE)) == 0
    assert world.sql("SELECT count(*) FROM live WHERE available_at > clock_timestamp()") == [(4,)]
    with older(world) as (conn, moment):
        assert world.run(endpoints.set_endpoint(id, "active", queue=QUEUE), conn) == 1
    ((key, queue, due),) = world.sql(
        "SELECT partition_key, queue, available_at FROM live WHERE available_at <= clock_timestamp()"
    )
    assert (key, queue, due > moment) == (f"endpoint:{id}", QUEUE, True)
    assert (state(world, id).open_until, state(world, other).failures) == (None, 5)
    assert world.run(endpoints.set_endpoint(uuid4(), "active", queue=QUEUE)) is None


def test_rows_that_are_due_held_or_locked_are_left_as_they_are(world: World) -> None:
    id = add(world)
    send(world)
    with older(world) as (conn, moment):
        world.sql("UPDATE live SET available_at = %s", moment)
        assert world.run(endpoints.set_endpoint(id, "active", queue=QUEUE), conn) == 0  # it is due already
    job = world.claim_one(lanes=[Lane(QUEUE)])
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 hour'")
    assert world.run(endpoints.set_endpoint(id, "active", queue=QUEUE)) == 0  # it is held
    world.retry(job.lease, delay=3600.0)
    asking = world.connect()
    asking.execute("SET lock_timeout = '5s'")
    with world.connect() as locking, locking.transaction():
        locking.execute("SELECT id FROM live FOR UPDATE")
        assert world.run(endpoints.set_endpoint(id, "active", queue=QUEUE), asking) == 0  # and waits for nobody
    assert world.run(endpoints.set_endpoint(id, None, queue=QUEUE, url="https://b.example")) == 1
    assert (state(world, id).url, state(world, id).state) == ("https://b.example", "active")


def test_calls_that_end_at_once_are_counted_one_after_the_other(world: World) -> None:
    id = add(world)
    job, _ = held(world)
    first, second = user_connection(world), world.connect()

    def both(one: str, other: str, fence: int) -> tuple[Any, Any]:
        change = log(world, job, id, one, fence=fence, conn=first)
        beside = Beside(lambda: log(world, job, id, other, fence=fence + 1, conn=second))
        waits_for_a_lock(world, second)
        first.commit()
        return change, beside.result()

    assert both("failed", "failed", 1) == (None, None)
    assert state(world, id).failures == 2
    world.sql("UPDATE endpoints SET failures = 4")
    assert both("failed", "ok", 3) == ("tripped", "restored")


def test_a_limit_of_the_queue_is_set_once_and_never_over_an_operators(world: World) -> None:
    listener = world.connect()
    listener.execute(f'LISTEN "{world.run(questions.channel())}"'.encode())
    assert world.run(endpoints.begin_webhooks(QUEUE))
    assert [each.payload for each in listener.notifies(timeout=SECONDS_MAX, stop_after=1)] == ["queues"]
    world.sql("UPDATE queues SET max_per_key = 9")
    assert not world.run(endpoints.begin_webhooks(QUEUE))
    assert world.sql("SELECT queue, max_per_key FROM queues") == [(QUEUE, 9)]


def test_states_and_secrets_in_clear_are_counted(world: World) -> None:
    for of, n in (("active", 1), ("paused", 2), ("disabled", 3)):
        for _ in range(n):
            add(world, state=of)
    for id in (add(world), add(world, state="paused")):
        world.sql("UPDATE endpoints SET open_until = clock_timestamp() WHERE id = %s", id)
    assert world.run(endpoints.endpoint_states()) == EndpointStates(1, 1, 3, 3, 8)
    world.sql("UPDATE endpoints SET secret = '{}'")
    assert world.run(endpoints.endpoint_states()).in_clear == 0
    world.sql("UPDATE endpoints SET secret_before = 'whsec_x' WHERE state = 'active'")
    assert world.run(endpoints.endpoint_states()).in_clear == 2


# -- what is forgotten


def test_what_is_past_retention_is_forgotten_by_the_clock_and_four_days_are_always_kept(world: World) -> None:
    id = add(world)
    with older(world) as (conn, moment):
        for age in (moment - timedelta(days=4), moment - timedelta(days=3)):
            world.sql("INSERT INTO webhooks (id, tenant, kind, body) VALUES (id_at(%s), 'acme', 'k', '')", age)
            called(world, id, uuid4(), f"id_at('{age.isoformat()}')")
        assert world.run(endpoints.keep_webhooks(6 * 86_400)) == (0, 0)
        assert world.run(endpoints.keep_webhooks(0, n=0)) == (0, 0)
        assert world.run(endpoints.keep_webhooks(0), conn) == (1, 1)
    assert (world.count("webhooks"), world.count("deliveries")) == (1, 1)


def test_a_tenant_is_erased_with_every_call_to_it_and_about_it_and_no_other(world: World) -> None:
    mine, other = add(world), add(world, "other")
    about = [send(world) for _ in range(3)]
    foreign = send(world, "other")
    for endpoint, webhook in ((mine, uuid4()), (other, about[0]), (other, foreign)):
        called(world, endpoint, webhook)
    assert world.run(endpoints.erase_tenant("acme", n=2)) == (1, 2, 2)
    assert world.run(endpoints.erase_tenant("acme")) == (0, 1, 0)
    assert world.sql("SELECT id FROM endpoints") == [(other,)]
    assert world.sql("SELECT id FROM webhooks") == [(foreign,)]
    assert world.sql("SELECT webhook_id FROM deliveries") == [(foreign,)]
