"""The door of a Citus cluster: a row reaches the node of its key in the caller's transaction; keys are known to all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from citus_cluster import Cluster
from crew import eventually
from patience import SECONDS_MAX
from tenure import postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres.citus_door import open_door
from tenure.verbs import settle
from tenure.verbs.citus_keys import forget_keys

DOOR = "tenure_door"
PUT_MANY_OF_BEFORE = """
CREATE FUNCTION tenure_door.put_many(
  text, text[], text[], jsonb[], text[], text[], smallint[], timestamptz[], float8[], int[], boolean[],
  boolean[], jsonb[]
) RETURNS uuid[] LANGUAGE sql AS 'SELECT NULL::uuid[]'
"""
DECLARE = """
INSERT INTO tenure.kinds
  (kind, form, queue, keyed, key_template, ordered, hold, priority, max_attempts, encrypted, worker, started_at,
   seen_at)
SELECT 'by_' || keyed, 'x', 'default', keyed, template, false, false, 0, 10, false, 'A', now(), now()
FROM (VALUES ('by_template', 'order:{order_id}'), ('in_code', NULL), ('never', NULL)) AS k (keyed, template)
"""
SEND = "SELECT row_id, outcome FROM tenure_door.enqueue(%s, %s, %s, idempotency_key => %s)"


def send(
    conn: psycopg.Connection[Any], kind: str, key: str | None, payload: str = "{}", once: str | None = None
) -> Any:
    """One row through the door, from psql's side: its id and the outcome."""
    return conn.execute(SEND, [kind, payload, key, once]).fetchone()


def two_homes(cluster: Cluster, prefix: str) -> tuple[str, str]:
    """A key of each of two nodes."""
    first, second = list(cluster.nodes)[:2]
    return cluster.keys(first, 1, prefix)[0], cluster.keys(second, 1, prefix)[0]


def test_a_row_reaches_the_node_of_its_key_from_wherever_it_is_sent(cluster: Cluster) -> None:
    keys = [f"k:{n}" for n in range(20)]
    for place in (None, *cluster.nodes):
        with cluster.at(place) as conn:
            for key in keys:
                assert send(conn, "reach", key)[1] == "enqueued"
    found = cluster.rows("reach")
    assert {inbox: set(rows) for inbox, rows in found.items()} == {
        inbox: {key for key in keys if cluster.home(key) == inbox} for inbox in cluster.nodes
    }
    assert sum(map(len, found.values())) == 20 * (1 + len(cluster.nodes))
    assert all(found.values()), "both nodes have some"


def test_a_row_without_a_key_goes_to_some_node(cluster: Cluster) -> None:
    with cluster.at() as conn:
        for _ in range(30):
            send(conn, "keyless", None)
    assert sum(map(len, cluster.rows("keyless").values())) == 30
    assert all(cluster.rows("keyless").values())


def test_rows_on_two_nodes_are_committed_together_or_not_at_all(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "both")
    with cluster.at() as conn:
        with conn.transaction(force_rollback=True):
            send(conn, "both", one)
            send(conn, "both", two)
        assert not any(cluster.rows("both").values())
        with conn.transaction():
            send(conn, "both", one)
            send(conn, "both", two)
            assert not any(cluster.rows("both").values()), "nothing is seen before the commit"
    assert cluster.rows("both") == {cluster.home(one): [one], cluster.home(two): [two]}


def test_an_idempotency_key_is_known_on_every_node(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "known")
    first, second = cluster.nodes
    with cluster.at(first) as a, cluster.at(second) as b, cluster.at() as c:
        id, outcome = send(a, "known", one, once="known:1")
        assert outcome == "enqueued"
        assert send(b, "known", two, once="known:1") == (id, "duplicate"), "another node, another partition key"
        assert send(c, "known", None, once="known:1") == (id, "duplicate")
        assert send(b, "known", one, '{"other": 1}', once="known:1") == (id, "conflict")
    assert sum(map(len, cluster.rows("known").values())) == 1


def test_a_conflict_with_a_row_that_was_sent_to_its_node_directly_leaves_no_key_behind(cluster: Cluster) -> None:
    one, _ = two_homes(cluster, "direct")
    with cluster.at(cluster.home(one)) as there, cluster.at() as conn:
        direct = "SELECT tenure.enqueue('direct', '{}', %s, idempotency_key => 'direct:1')"
        there.execute(direct, [one])
        assert send(conn, "direct", one, '{"other": 1}', once="direct:1")[1] == "conflict"
        assert conn.execute("SELECT FROM tenure_door.idempotency WHERE key = 'direct:1'").fetchone() is None


def test_a_rolled_back_sender_frees_its_idempotency_key(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "freed")
    with cluster.at() as conn:
        with conn.transaction(force_rollback=True):
            send(conn, "freed", one, once="freed:1")
        assert send(conn, "freed", two, once="freed:1")[1] == "enqueued"


def test_a_second_sender_on_another_node_waits_for_the_first(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "waits")
    first, second = cluster.nodes
    answers: list[Any] = []

    def later() -> None:
        with cluster.at(second) as conn:
            answers.append(send(conn, "waits", two, once="waits:1"))

    thread = threading.Thread(target=later, daemon=True)
    with cluster.at(first) as conn:
        with conn.transaction():
            id, _ = send(conn, "waits", one, once="waits:1")
            thread.start()
            thread.join(1.5)
            assert thread.is_alive(), "it waits"
        thread.join(SECONDS_MAX)
    assert answers == [(id, "duplicate")]


UNDELEGATED = """
SELECT tenure_door.put(%s, 'one', 'lost', '{}', %s, 'default', 0, NULL, 0, 5, false, false, NULL, NULL, 0), 1
"""


def test_what_citus_does_not_delegate_is_refused(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "lost")
    with cluster.at(cluster.home(one)) as conn:
        with pytest.raises(psycopg.Error) as refused:
            conn.execute(UNDELEGATED, [two, two])
        assert refused.value.sqlstate == "TN002"
        assert f"belongs to inbox {cluster.home(two)}" in str(refused.value)
    assert not any(cluster.rows("lost").values())


def test_without_the_guard_the_row_is_on_the_wrong_node(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "wrong")
    here = cluster.home(one)
    gutted = "CREATE OR REPLACE FUNCTION tenure_door.check_home(routing_key text) RETURNS void LANGUAGE sql AS ''"
    with changed(cluster, gutted), cluster.at(here) as conn:
        conn.execute(UNDELEGATED.replace("'lost'", "'wrong'"), [two, two])
    assert cluster.rows("wrong")[here] == [two]


@contextmanager
def changed(cluster: Cluster, statement: str) -> Iterator[None]:
    """The door with another function in it while the block lasts."""
    with cluster.at() as conn:
        conn.execute(statement.encode())
    try:
        yield
    finally:
        list(open_door(cluster.url))


@contextmanager
def awaited(cluster: Cluster) -> Iterator[None]:
    """Every inbox has a worker that sleeps: whoever enqueues wants to wake it."""
    asleep = "INSERT INTO tenure.workers (id, waiting) VALUES ('sleeper', true)"
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            conn.execute(asleep.encode())
    try:
        yield
    finally:
        for inbox in cluster.nodes:
            with cluster.at(inbox) as conn:
                conn.execute("DELETE FROM tenure.workers WHERE id = 'sleeper'")


def test_a_transaction_of_two_nodes_commits_while_workers_sleep(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "asleep")
    with awaited(cluster), cluster.at() as conn, conn.transaction():
        send(conn, "asleep", one)
        send(conn, "asleep", two)
    assert sum(map(len, cluster.rows("asleep").values())) == 2


def test_a_note_in_a_transaction_that_is_prepared_would_undo_it(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "noted")
    noisy = (
        "CREATE OR REPLACE FUNCTION tenure.wake_for(queue text, bucket int, ordered boolean) RETURNS void "
        "LANGUAGE sql AS $$SELECT pg_notify(tenure.channel(), 'x')$$"
    )
    quiet = {}
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            conn.execute("SET citus.enable_ddl_propagation TO off")
            quiet[inbox] = conn.execute("SELECT pg_get_functiondef('tenure.wake_for'::regproc)").fetchone()[0]  # type: ignore[index]
            conn.execute(noisy.encode())
    try:
        with awaited(cluster), cluster.at() as conn:
            conn.autocommit = False
            send(conn, "noted", one)
            send(conn, "noted", two)
            with pytest.raises(psycopg.Error, match="cannot PREPARE"):
                conn.commit()
    finally:
        for inbox, text in quiet.items():
            with cluster.at(inbox) as conn:
                conn.execute("SET citus.enable_ddl_propagation TO off")
                conn.execute(text.encode())
    assert not any(cluster.rows("noted").values())


def test_a_row_of_one_node_wakes_its_worker(cluster: Cluster) -> None:
    one, _ = two_homes(cluster, "heard")
    with awaited(cluster), cluster.at(cluster.home(one)) as ear, cluster.at() as conn:
        channel = ear.execute("SELECT tenure.channel()").fetchone()[0]  # type: ignore[index]
        ear.execute(f'LISTEN "{channel}"'.encode())
        postgres.run(conn, verbs.enqueue(NewRow("heard", {}, key=one)), DOOR)
        assert len(list(ear.notifies(timeout=SECONDS_MAX, stop_after=1))) == 1
        conn.execute(SEND.replace("SELECT", "SELECT /* alone */").encode(), ["heard", "{}", one, None])
        assert len(list(ear.notifies(timeout=SECONDS_MAX, stop_after=1))) == 1


def test_many_rows_reach_their_nodes_and_the_answers_keep_their_order(cluster: Cluster) -> None:
    rows = [NewRow("many", {"n": n}, key=f"many:{n % 7}") for n in range(40)]
    rows += [NewRow("many", {"n": n}, key=f"many:{n}", idempotency_key=f"many:{n % 3}") for n in (3, 2, 1, 0, 4)]
    with cluster.at() as conn:
        answers = postgres.run(conn, verbs.enqueue_many(rows), DOOR)
    assert [each.outcome for each in answers[:40]] == ["enqueued"] * 40
    assert [each.outcome for each in answers[40:]] == ["enqueued", "enqueued", "enqueued", "conflict", "conflict"]
    payloads = {}
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            asked = "SELECT id, partition_key, payload FROM tenure.live WHERE kind = 'many'"
            for id, key, payload in conn.execute(asked):
                assert cluster.home(key) == inbox
                payloads[id] = payload
    assert [payloads[each.id]["n"] for each in answers if each.outcome == "enqueued"] == [*range(40), 3, 2, 1]


def test_rows_that_replace_their_like_are_unique_through_the_door(cluster: Cluster) -> None:
    one, _ = two_homes(cluster, "unique")
    first, second = cluster.nodes
    row = NewRow("unique", {}, key=one, idempotency_key="unique:1", again="after_start")
    again = NewRow("unique", {}, key=one, idempotency_key="unique:2", again="after_end")
    with cluster.at(first) as a, cluster.at(second) as b:
        for each in (row, again):
            sent = postgres.run(a, verbs.enqueue(each), DOOR)
            found = postgres.run(b, verbs.enqueue(each), DOOR)
            assert (sent.outcome, found.outcome, found.id) == ("enqueued", "duplicate", sent.id)


@pytest.mark.parametrize("again", ["after_start", "after_end"])
def test_a_name_can_be_used_again_through_the_door_when_its_row_has_ended(cluster: Cluster, again: Any) -> None:
    one, _ = two_homes(cluster, "again")
    row = NewRow("again", {}, key=one, idempotency_key="again:1", again=again)
    with cluster.at() as conn, postgres.connect(cluster.nodes[cluster.home(one)]) as worker:
        sent = postgres.run(conn, verbs.enqueue(row), DOOR)
        assert postgres.run(conn, verbs.enqueue(row), DOOR) == (sent.id, "duplicate")
        (job,) = postgres.run(worker, verbs.claim("A", 5))
        postgres.run(worker, settle.complete([job]))
        assert postgres.run(conn, verbs.enqueue(row), DOOR).outcome == "enqueued"


def test_what_python_sends_is_not_completed_by_what_a_handler_has_declared(cluster: Cluster) -> None:
    one, _ = two_homes(cluster, "told")
    heard: list[str | None] = []
    with cluster.at() as conn:
        conn.add_notice_handler(lambda notice: heard.append(notice.message_primary))
        for row in (NewRow("told", {}, key=one), NewRow("told", {}, key=one, idempotency_key="told:1")):
            postgres.run(conn, verbs.enqueue(row), DOOR)
        assert not heard
        send(conn, "told", one)
        assert heard == ["no worker has declared kind told yet: the row goes to queue default"]


def test_sql_gives_the_key_itself_where_the_handler_would_make_one(cluster: Cluster) -> None:
    """The node is chosen before the key is made: the row would wait where nobody looks for its key."""
    for place in cluster.nodes:
        with cluster.at(place) as conn:
            conn.execute(DECLARE)
    with cluster.at() as conn:
        for kind in ("by_by_template", "by_in_code"):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{kind} .* give partition_key"):
                send(conn, kind, None, '{"order_id": 1}')
            assert send(conn, kind, "order:1", '{"order_id": 1}')[1] == "enqueued"
        assert send(conn, "by_never", None)[1] == "enqueued"
    for place in cluster.nodes:
        with cluster.at(place) as conn:
            conn.execute("DELETE FROM tenure.kinds WHERE kind LIKE 'by\\_%'")


def test_keys_are_forgotten_by_age(cluster: Cluster) -> None:
    with cluster.at() as conn, postgres.connect(next(iter(cluster.nodes.values()))) as worker:
        send(conn, "forgotten", None, once="forgotten:1")
        assert postgres.run(worker, forget_keys()) == 0
        conn.execute("UPDATE tenure_door.idempotency SET created_at = '1999-01-01' WHERE key = 'forgotten:1'")
        assert postgres.run(worker, forget_keys()) == 1, "on the connection of a worker, with its fixed plans"


def test_a_key_that_is_being_sent_again_is_not_forgotten_meanwhile(cluster: Cluster) -> None:
    one, _ = two_homes(cluster, "again")
    with cluster.at() as conn, postgres.connect(next(iter(cluster.nodes.values()))) as worker:
        send(conn, "kept", one, once="kept:1")
        conn.execute("UPDATE tenure_door.idempotency SET created_at = '1999-01-01' WHERE key = 'kept:1'")
        with conn.transaction():
            assert send(conn, "kept", one, once="kept:1")[1] == "duplicate"
            worker.execute("SET statement_timeout = '1s'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                postgres.run(worker, forget_keys())
        worker.execute("RESET statement_timeout")
        assert postgres.run(worker, forget_keys()) == 1


def test_rows_of_all_inboxes_are_counted_in_one_question(cluster: Cluster) -> None:
    one, two = two_homes(cluster, "counted")
    with cluster.at() as conn:
        send(conn, "counted", one)
        send(conn, "counted", two)
        counts = conn.execute("SELECT inbox, answers, status, n FROM tenure_door.counts()").fetchall()
    assert {(str(inbox), answers) for inbox, answers, _, _ in counts} == {(inbox, True) for inbox in cluster.nodes}
    assert all(n > 0 for _, _, status, n in counts if status == "pending")


def test_twenty_calls_of_one_session_go_where_they_should(cluster: Cluster) -> None:
    """Postgres may keep a plan without the values after five calls: Citus could not tell the node from it."""
    with cluster.at() as conn:
        conn.execute("SET plan_cache_mode = force_generic_plan")
        for n in range(20):
            send(conn, "planned", f"planned:{n}")
    assert sum(map(len, cluster.rows("planned").values())) == 20
    assert eventually(lambda: all(cluster.rows("planned").values()))


def test_a_function_of_a_door_of_before_goes_when_its_like_comes(cluster: Cluster) -> None:
    """Else its name would stand for two, and could not be granted."""
    with cluster.at() as conn:
        conn.execute(PUT_MANY_OF_BEFORE)
    list(open_door(cluster.url))
    for place in (None, *cluster.nodes):
        with cluster.at(place) as conn:
            assert conn.execute("SELECT count(*) FROM pg_proc WHERE proname = 'put_many'").fetchone() == (1,)
