"""Guarantee 9: fenced() writes and the completion commit together or not at all; a fence refuses older tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from guarantees.facts import Beside, together, user_connection, waits_for_a_lock
from tenure import postgres, verbs
from tenure.app.fence import fenced
from tenure.app.job import Job
from tenure.app.unawaited import Unawaited
from tenure.errors import BadSettings, InvalidPayload, RolledBack, ServerBehind, StaleFence, StaleLease
from tenure.model.rows import Lease
from world import World


@pytest.fixture
def shop(world: World) -> World:
    """A world with a table of the user's own and one row in the inbox."""
    world.sql("CREATE TABLE receipts (n int)")
    world.enqueue(max_attempts=100)
    return world


def _receipts(world: World) -> list[int]:
    return [n for (n,) in world.sql("SELECT n FROM receipts ORDER BY n")]


def _lose(world: World, lease: Lease) -> None:
    with world.connect() as elsewhere:
        elsewhere.execute("UPDATE live SET lease_expires_at = clock_timestamp() WHERE id = %s", [lease.id])
        assert len(world.run(verbs.sweep_pages(), elsewhere)) == 1


@pytest.mark.parametrize("autocommit", [True, False])
def test_writes_and_completion_commit_together(shop: World, autocommit: bool) -> None:
    lease = shop.claim_one("A").lease
    conn = user_connection(shop, autocommit=autocommit)
    with fenced(conn, lease, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
        assert _receipts(shop) == []
        assert shop.status(lease.id) == "processing"
    assert _receipts(shop) == [1]
    assert (shop.status(lease.id), shop.row(lease.id).finished_by) == ("completed", "A")
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_body_that_raises_leaves_nothing_and_the_row_is_still_held(shop: World, autocommit: bool) -> None:
    lease = shop.claim_one("A").lease
    conn = user_connection(shop, autocommit=autocommit)

    def body() -> None:
        with fenced(conn, lease, schema=shop.schema) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            assert shop.run(verbs.once(lease, "receipt"), conn)
            shop.run(verbs.fence("printer", lease.fence), conn)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert _receipts(shop) == []
    assert (shop.count("effects"), shop.count("fences")) == (0, 0)
    assert shop.status(lease.id) == "processing"
    assert shop.run(verbs.holding(lease)) > 0
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_database_error_in_the_body_leaves_nothing(shop: World) -> None:
    lease = shop.claim_one("A").lease

    def body() -> None:
        with fenced(shop.conn, lease, schema=shop.schema) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            tx.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        body()
    assert _receipts(shop) == []
    assert shop.complete(lease).ok


def test_a_lease_lost_meanwhile_leaves_nothing(shop: World) -> None:
    lease = shop.claim_one("A").lease

    def body() -> None:
        with fenced(shop.conn, lease, schema=shop.schema) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            _lose(shop, lease)

    with pytest.raises(StaleLease, match="complete"):
        body()
    assert _receipts(shop) == []
    assert shop.status(lease.id) == "pending"
    assert shop.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_lease_that_ran_out_meanwhile_leaves_nothing_unless_late_is_accepted(shop: World) -> None:
    lease = shop.claim_one("A").lease

    def body(n: int, accept_late: bool) -> None:
        with fenced(shop.conn, lease, schema=shop.schema, accept_late=accept_late) as tx:
            tx.execute("INSERT INTO receipts VALUES (%s)", [n])
            with shop.connect() as elsewhere:
                elsewhere.execute("UPDATE live SET lease_expires_at = clock_timestamp()")

    with pytest.raises(StaleLease, match="lease_expired"):
        body(1, accept_late=False)
    assert _receipts(shop) == []
    shop.sql("UPDATE live SET lease_expires_at = clock_timestamp() + interval '1 minute'")
    body(2, accept_late=True)
    assert _receipts(shop) == [2]
    assert shop.status(lease.id) == "completed"


def test_the_body_does_not_run_under_a_stale_lease(shop: World) -> None:
    lease = shop.claim_one("A").lease
    _lose(shop, lease)
    ran = False
    with pytest.raises(StaleLease), fenced(shop.conn, lease, schema=shop.schema):
        ran = True
    assert not ran
    assert shop.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_where_the_row_is_not_the_error_names_the_connection(shop: World) -> None:
    lease = shop.claim_one("A").lease
    shop.sql("DELETE FROM live")  # as on a connection to another database
    named = pytest.raises(StaleLease, match="no_such_row in the database of this connection")
    with named, fenced(shop.conn, lease, schema=shop.schema):
        raise AssertionError("the body has run")


def test_the_lease_can_be_renewed_while_the_body_runs(shop: World) -> None:
    lease = shop.claim_one("A", lease_seconds=5).lease
    elsewhere = shop.connect()
    with fenced(shop.conn, lease, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
        renewed = Beside(lambda: shop.run(verbs.renew([lease], lease_seconds=600), elsewhere)).result()
        assert len(renewed.kept) == 1
    assert shop.status(lease.id) == "completed"


def test_inside_another_transaction_it_refuses_to_be_a_savepoint(shop: World) -> None:
    lease = shop.claim_one("A").lease
    with shop.conn.transaction(), pytest.raises(BadSettings, match="not in a transaction"):
        fenced(shop.conn, lease, schema=shop.schema).__enter__()
    assert shop.status(lease.id) == "processing"


def test_on_a_connection_of_another_isolation_a_renewal_meanwhile_does_no_harm(shop: World) -> None:
    lease = shop.claim_one("A").lease
    conn = shop.connect()
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    with fenced(conn, lease, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
        shop.run(verbs.renew([lease]))
    assert _receipts(shop) == [1]
    assert shop.status(lease.id) == "completed"
    assert conn.isolation_level is IsolationLevel.REPEATABLE_READ


def test_a_holder_that_falls_silent_inside_its_block_does_not_keep_the_next_one_waiting(shop: World) -> None:
    stale = shop.claim_one("A", lease_seconds=3).lease
    paused = shop.connect()
    block = fenced(paused, stale, schema=shop.schema)
    assert shop.run(verbs.once(stale, "receipt"), block.__enter__())
    shop.expire(stale)
    shop.sweep()
    shop.due()
    current = shop.claim_one("B").lease
    waiting = Beside(lambda: shop.run(verbs.once(current, "receipt")))  # until the server has ended A's transaction
    assert waiting.result()
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        block.__exit__(None, None, None)
    assert _receipts(shop) == []


ROLLBACKS: dict[str, Callable[[Any], object]] = {
    "the class": lambda _tx: psycopg.Rollback,
    "one without a target": lambda _tx: psycopg.Rollback(),
    "one for the connection": psycopg.Rollback,
}


@pytest.mark.parametrize("way", ROLLBACKS)
def test_a_body_that_rolls_back_by_psycopgs_own_word_does_not_leave_quietly(shop: World, way: str) -> None:
    """Negative control: where psycopg swallows its Rollback, nobody learns that the writes are gone."""
    lease = shop.claim_one("A").lease

    def body() -> None:
        with fenced(shop.conn, lease, schema=shop.schema) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            raise ROLLBACKS[way](tx)  # type: ignore[misc]

    with pytest.raises(RolledBack, match=f"row {lease.id} is not completed") as told:
        body()
    assert isinstance(told.value.__cause__, psycopg.Rollback)
    assert told.value.lease == lease
    assert _receipts(shop) == []
    assert shop.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert shop.complete(lease).ok  # it is still ours: nothing about it is stale


def test_a_rollback_of_a_transaction_elsewhere_does_not_leave_quietly_either(shop: World) -> None:
    lease = shop.claim_one("A").lease

    def body() -> None:
        with shop.connect().transaction() as outer, fenced(shop.conn, lease, schema=shop.schema) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            raise psycopg.Rollback(outer)

    with pytest.raises(RolledBack):
        body()
    assert (_receipts(shop), shop.status(lease.id)) == ([], "processing")


@pytest.mark.parametrize("named", [False, True])
def test_a_savepoint_rolled_back_inside_the_body_is_no_end_of_it(shop: World, named: bool) -> None:
    lease = shop.claim_one("A").lease
    with fenced(shop.conn, lease, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
        with tx.transaction() as part:
            tx.execute("INSERT INTO receipts VALUES (2)")
            raise psycopg.Rollback(part) if named else psycopg.Rollback
        tx.execute("INSERT INTO receipts VALUES (3)")
    assert _receipts(shop) == [1, 3]
    assert shop.status(lease.id) == "completed"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("word", ["ROLLBACK", "COMMIT", "COMMIT AND CHAIN", "ROLLBACK; BEGIN"])
def test_a_body_that_ends_the_transaction_by_itself_completes_nothing(shop: World, word: str, keep: bool) -> None:
    """Negative control: without the question the completion would commit alone, in a transaction of its own."""
    lease = shop.claim_one("A").lease

    def body() -> None:
        with fenced(shop.conn, lease, schema=shop.schema, keep=keep) as tx:
            tx.execute("INSERT INTO receipts VALUES (1)")
            tx.execute(word)
            if word not in ("ROLLBACK", "COMMIT"):  # this is in a transaction again, and undone with it
                tx.execute("INSERT INTO receipts VALUES (2)")

    with pytest.raises(BadSettings, match="leave COMMIT and ROLLBACK to fenced"):
        body()
    assert 2 not in _receipts(shop)
    assert shop.status(lease.id) == "processing"
    assert shop.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_the_wrong_kind_of_with_is_named(shop: World) -> None:
    lease = shop.claim_one("A").lease
    with pytest.raises(TypeError, match="write `with"):
        asyncio.run(fenced(shop.conn, lease, schema=shop.schema).__aenter__())


def test_of_many_bodies_at_once_under_one_lease_one_commits(shop: World) -> None:
    lease = shop.claim_one("A").lease
    connections = [shop.connect() for _ in range(5)]

    def body(number: int) -> int:
        done = 0
        for _ in range(20):
            try:
                with fenced(connections[number], lease, schema=shop.schema) as tx:
                    tx.execute("INSERT INTO receipts VALUES (%s)", [number])
            except StaleLease:
                continue
            done += 1
        return done

    done = sum(together(5, body))
    assert (len(_receipts(shop)), done) == (1, 1)


def test_a_body_run_again_while_its_lost_commit_was_still_under_way_leaves_one_effect(shop: World) -> None:
    """The reply to a commit was lost and the holder tries again under the same lease: "already mine" is no licence."""
    lease = shop.claim_one("A").lease
    first, second = user_connection(shop), shop.connect()
    again = fenced(second, lease, schema=shop.schema)
    with fenced(first, lease, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (1)")
        again.__enter__()
        second.execute("INSERT INTO receipts VALUES (2)")
    with pytest.raises(StaleLease, match="completed"):
        again.__exit__(None, None, None)
    assert _receipts(shop) == [1]


def test_on_an_awaiting_connection_too(shop: World) -> None:
    lease = shop.claim_one("A").lease

    async def story() -> None:
        conn: Any = await psycopg.AsyncConnection.connect(shop.url, autocommit=True)
        async with conn:
            with pytest.raises(ZeroDivisionError):
                await body(conn, 1, error=ZeroDivisionError())
            with pytest.raises(RolledBack):
                await body(conn, 1, error=psycopg.Rollback())
            with pytest.raises(BadSettings, match="leave COMMIT and ROLLBACK"):
                await body(conn, 1, word="ROLLBACK")
            with pytest.raises(StaleLease):
                await body(conn, 2, lose=True)
            shop.due()
            again = shop.claim_one("A").lease
            with pytest.raises(StaleLease):
                await body(conn, 3)
            await body(conn, 4, lease=again)

    async def body(
        conn: Any,
        n: int,
        *,
        error: Exception | None = None,
        word: str = "",
        lose: bool = False,
        lease: Lease = lease,
    ) -> None:
        async with fenced(conn, lease, schema=shop.schema) as tx:
            await tx.execute(f"INSERT INTO {shop.schema}.receipts VALUES (%s)", [n])
            assert await postgres.run(conn, verbs.once(lease, "receipt"), shop.schema)
            if error:
                raise error
            if word:
                await tx.execute(word)
            if lose:
                _lose(shop, lease)

    asyncio.run(story())
    assert _receipts(shop) == [4]
    assert shop.status(lease.id) == "completed"
    assert shop.count("effects") == 1


# -- once


def test_an_effect_is_marked_once_whatever_the_attempt(shop: World) -> None:
    first = shop.claim_one("A").lease
    assert shop.run(verbs.once(first, "receipt")) is True
    assert shop.run(verbs.once(first, "receipt")) is False
    assert shop.run(verbs.once(first, "mail")) is True
    shop.retry(first, delay=0)
    second = shop.claim_one("B").lease
    assert shop.run(verbs.once(second, "receipt")) is False
    assert shop.run(verbs.once(second, "third")) is True
    assert shop.sql("SELECT effect, fence_token FROM effects ORDER BY effect") == [
        ("mail", first.fence), ("receipt", first.fence), ("third", second.fence),
    ]  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_a_forgotten_await_is_an_error_and_never_a_yes(shop: World) -> None:
    job = Job(shop.claim_one("A"), schema=shop.schema)

    async def story() -> list[bool]:
        async with await psycopg.AsyncConnection.connect(shop.url) as conn:
            with pytest.raises(TypeError, match=r"await is missing: .* write `await job.once\(tx, 'receipt'\)`"):
                assert job.once(conn, "receipt")
            with pytest.raises(TypeError, match=r"write `await job.holding\(tx\)`"):
                assert not job.holding(conn)
            assert await job.holding(conn) > 0
            return [
                await job.once(conn, "receipt"),
                await asyncio.create_task(job.once(conn, "mail")),
                await asyncio.wait_for(job.once(conn, "mail"), 60),
                (await asyncio.gather(job.once(conn, "third")))[0],
            ]

    assert asyncio.run(story()) == [True, True, False, True]
    assert shop.count("effects") == 3


@pytest.mark.filterwarnings("error")
def test_what_is_raised_into_an_unawaited_call_reaches_it() -> None:
    async def called() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "cancelled"
        return "slept"

    async def story() -> str:
        task = asyncio.create_task(Unawaited(called(), "called()"))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(story()) == "cancelled"


def test_an_effect_of_one_row_says_nothing_of_another(shop: World) -> None:
    shop.enqueue()
    one, two = shop.claim("A", 2)
    assert shop.run(verbs.once(one.lease, "receipt")) is True
    assert shop.run(verbs.once(two.lease, "receipt")) is True


def test_a_mark_rolled_back_was_never_made_and_a_second_caller_waits_to_learn_it(shop: World) -> None:
    lease = shop.claim_one("A").lease
    first, second = user_connection(shop), shop.connect()
    assert shop.run(verbs.once(lease, "receipt"), first) is True
    waiting = Beside(lambda: shop.run(verbs.once(lease, "receipt"), second))
    waits_for_a_lock(shop, second)
    first.rollback()
    assert waiting.result() is True
    assert shop.run(verbs.once(lease, "receipt")) is False


def test_of_ten_callers_at_once_one_is_first(shop: World) -> None:
    lease = shop.claim_one("A").lease
    connections = [shop.connect() for _ in range(10)]
    answers = together(10, lambda n: shop.run(verbs.once(lease, "receipt"), connections[n]))
    assert sorted(answers) == [False] * 9 + [True]


def test_an_effect_name_that_cannot_be_is_refused(shop: World) -> None:
    lease = shop.claim_one("A").lease
    with pytest.raises(InvalidPayload, match="effect"):
        verbs.once(lease, "")


# -- fence


def test_a_resource_refuses_a_token_older_than_one_it_has_seen(shop: World) -> None:
    assert shop.run(verbs.fence("printer", 5)) == 5
    assert shop.run(verbs.fence("printer", 5)) == 5  # the same holder again
    assert shop.run(verbs.fence("printer", 7)) == 7
    with pytest.raises(StaleFence, match="'printer' has seen fence 7: fence 6 is older") as refused:
        shop.run(verbs.fence("printer", 6))
    assert (refused.value.resource, refused.value.fence, refused.value.current) == ("printer", 6, 7)
    assert shop.sql("SELECT fence_token FROM fences") == [(7,)]
    assert shop.run(verbs.fence("plotter", 6)) == 6


def test_a_job_that_was_taken_over_may_not_touch_a_resource_that_its_successor_has_touched(shop: World) -> None:
    first = Job(shop.claim_one("A"), schema=shop.schema)
    assert first.fence_off(shop.conn, "printer") == first.fence
    _lose(shop, first.lease)
    shop.due()
    second = Job(shop.claim_one("B"), schema=shop.schema)
    assert first.fence_off(shop.conn, "printer") == first.fence  # the successor has not touched it yet
    assert second.fence_off(shop.conn, "printer") == second.fence
    with pytest.raises(StaleFence):
        first.fence_off(shop.conn, "printer")


def test_an_async_job_fences_a_resource_off_too(shop: World) -> None:
    job = Job(shop.claim_one("A"), schema=shop.schema)

    async def body() -> int:
        async with await psycopg.AsyncConnection.connect(shop.url) as conn:
            return int(await job.fence_off(conn, "printer"))

    assert asyncio.run(body()) == job.fence


def test_a_refused_fence_does_not_abort_the_callers_transaction(shop: World) -> None:
    shop.run(verbs.fence("printer", 7))
    conn = user_connection(shop)
    conn.execute("INSERT INTO receipts VALUES (1)")
    with pytest.raises(StaleFence):
        shop.run(verbs.fence("printer", 6), conn)
    conn.commit()
    assert _receipts(shop) == [1]


def test_check_and_write_cannot_be_torn_apart(shop: World) -> None:
    newer, older = user_connection(shop), shop.connect()
    shop.run(verbs.fence("printer", 7), newer)
    waiting = Beside(lambda: shop.run(verbs.fence("printer", 6), older))
    waits_for_a_lock(shop, older)
    newer.commit()
    with pytest.raises(StaleFence):
        waiting.result()


def test_tokens_are_comparable_across_rows(shop: World) -> None:
    shop.enqueue()
    shop.enqueue()
    fences = [shop.claim_one("A").lease.fence for _ in range(3)]
    assert fences == sorted(set(fences))
    shop.run(verbs.fence("printer", fences[2]))
    with pytest.raises(StaleFence):
        shop.run(verbs.fence("printer", fences[1]))


# -- the token across failover, restore and promotion

PROMOTIONS = {
    "promotion": "UPDATE incarnation SET timeline = timeline + 1",
    "restore_into_a_new_cluster": "UPDATE incarnation SET system_identifier = system_identifier + 1, started_at = NULL",
    "copy_of_the_database": "UPDATE incarnation SET stored_in = 'base/1/1'",
}


@pytest.mark.parametrize("way", PROMOTIONS)
def test_the_first_claim_on_another_server_raises_the_epoch(shop: World, way: str) -> None:
    shop.enqueue()
    shop.enqueue()
    before = shop.claim_one("A").lease
    shop.sql(PROMOTIONS[way])
    shop.sql("SELECT setval('fence_seq', 1, false)")  # a lost tail hands out the sequence again
    after, later = shop.claim_one("A").lease, shop.claim_one("A").lease
    assert before.epoch < after.epoch == later.epoch
    assert before.fence < after.fence < later.fence
    assert shop.sql("SELECT epoch FROM incarnation") == [(after.epoch,)]
    shop.run(verbs.fence("printer", after.fence))
    with pytest.raises(StaleFence):
        shop.run(verbs.fence("printer", before.fence))


@pytest.mark.parametrize("way", PROMOTIONS)
def test_another_server_is_another_epoch_also_where_the_clock_is_behind(shop: World, way: str) -> None:
    shop.claim_one("A")
    shop.sql("UPDATE incarnation SET epoch = 7000, ahead = 0")  # the clock says so in 2084
    shop.sql(PROMOTIONS[way])
    shop.sql("SELECT setval('fence_seq', 1, false)")
    shop.enqueue()
    assert shop.claim_one("A").lease.epoch == 7_001


def test_a_restart_begins_further_ahead_and_within_minutes_in_the_same_epoch(shop: World) -> None:
    """It may be the server it was, or a copy of it that was put back: nothing in it says which."""
    shop.enqueue()
    shop.enqueue()
    leases = [shop.claim_one("A").lease]
    for _ in range(2):
        shop.sql("UPDATE incarnation SET started_at = started_at - interval '1 day'")
        shop.sql("SELECT setval('fence_seq', 1, false)")
        leases.append(shop.claim_one("A").lease)
    fences = [lease.fence for lease in leases]
    assert fences == sorted(set(fences))
    assert leases[2].epoch - leases[1].epoch <= 1  # three days have one epoch


def test_a_restart_with_a_clock_that_is_behind_takes_the_next_epoch(shop: World) -> None:
    shop.claim_one("A")
    shop.enqueue()
    shop.sql("UPDATE incarnation SET epoch = 7000, started_at = NULL")
    assert shop.claim_one("A").lease.epoch == 7_001


@pytest.mark.parametrize("way", ["ahead = ahead", "started_at = NULL"])
def test_what_a_sequence_carries_into_the_next_epoch_is_not_taken_back(shop: World, way: str) -> None:
    """At the end of an epoch the sequence counts on into the next."""
    shop.claim_one("A")
    shop.enqueue()
    shop.enqueue()
    shop.sql("SELECT setval('fence_seq', 1099511627775)")
    shop.sql("UPDATE incarnation SET epoch = 7000, ahead = 7")
    before = shop.claim_one("A").lease
    assert before.epoch == 7_001
    shop.sql(f"UPDATE incarnation SET {way}")
    (after,) = shop.run(verbs.claim("A", 1, seen_epoch=before.epoch))
    assert after.lease.fence > before.fence


def test_a_fence_is_a_number_that_json_carries_whole(shop: World) -> None:
    assert 0 < shop.claim_one("A").lease.fence < 2**53


def test_when_no_epoch_is_left_nothing_is_handed_out_and_one_sentence_says_so(shop: World) -> None:
    shop.claim_one("A")
    shop.enqueue()
    shop.sql("UPDATE incarnation SET epoch = 8388606, started_at = NULL")
    last = shop.claim_one("A").lease
    assert (last.epoch, last.fence > 0) == (8_388_607, True)
    shop.enqueue()
    shop.sql("UPDATE incarnation SET started_at = NULL")
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded, match="has used up its fences"):
        shop.claim_one("A")


def test_a_claim_is_written_to_disk_whatever_the_session_says(shop: World) -> None:
    """Else a crash could take the claim back, and the sequence with it: the next holder would get the same token."""
    shop.sql("SET synchronous_commit = off")
    with shop.conn.transaction():
        shop.claim_one("A")
        assert shop.sql("SHOW synchronous_commit") == [("local",)]
    assert shop.sql("SHOW synchronous_commit") == [("off",)]
    shop.sql("SET synchronous_commit = remote_apply")
    shop.enqueue()
    with shop.conn.transaction():
        shop.claim_one("A")
        assert shop.sql("SHOW synchronous_commit") == [("remote_apply",)]


@pytest.mark.parametrize("way", PROMOTIONS)
def test_claims_at_once_on_another_server_raise_the_epoch_once(shop: World, way: str) -> None:
    shop.enqueue()
    shop.sql(PROMOTIONS[way])
    first, second = user_connection(shop), shop.connect()
    (one,) = shop.run(verbs.claim("A", 1), first)
    waiting = Beside(lambda: shop.run(verbs.claim("B", 1), second))
    waits_for_a_lock(shop, second)
    first.commit()
    (two,) = waiting.result()
    assert one.lease.epoch == two.lease.epoch > 1


@pytest.mark.parametrize("ordered", [False, True])
def test_a_server_behind_what_was_seen_hands_out_nothing(shop: World, ordered: bool) -> None:
    ((id,),) = shop.sql("SELECT id FROM live")
    if ordered:
        id = shop.enqueue(key="order:1", ordered=True)
    claim: Any = verbs.claim_ordered if ordered else verbs.claim
    before = shop.row(id)
    shop.sql("SELECT next_fence(0)")
    ((here,),) = shop.sql("SELECT epoch FROM incarnation")
    with pytest.raises(ServerBehind, match=f"epoch {here}, epoch {here + 1} was seen") as behind:
        shop.run(claim("A", 1, seen_epoch=here + 1))
    assert "connect to the current primary" in str(behind.value)
    assert shop.row(id) == before
    assert not shop.keys_taken()
    assert len(shop.run(claim("A", 1, seen_epoch=here))) == 1


def test_a_block_is_not_entered_on_the_strength_of_another_row_of_the_same_claim(shop: World) -> None:
    shop.enqueue()
    first, second = shop.claim("A", 2)
    assert first.fence == second.fence
    shop.complete(first.lease)
    with pytest.raises(StaleLease):
        fenced(shop.conn, first, schema=shop.schema).__enter__()
    with fenced(shop.conn, second, schema=shop.schema) as tx:
        tx.execute("INSERT INTO receipts VALUES (2)")
    assert _receipts(shop) == [2]
