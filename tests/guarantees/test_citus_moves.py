"""Ranges that Citus moves: an enqueue and a move wait for each other, and ordered keys keep their order."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.conninfo import make_conninfo
from psycopg.errors import InternalError_, SerializationFailure

from citus_cluster import Cluster
from crew import Hired, eventually
from guarantees.test_citus_door import changed
from patience import SECONDS_MAX
from slices import slice_of
from tenure import Inbox, Job, postgres, verbs
from tenure.model.rows import NewRow
from tenure.postgres.handoff import adopt, adopt_all
from tenure.verbs import settle
from tenure.worker.config import Terms

ORDERED = "SELECT tenure_door.enqueue(%s, %s, %s, ordered => true)"


def enqueue(conn: psycopg.Connection[Any], key: str, n: int) -> None:
    """One ordered row through the door."""
    conn.execute(ORDERED, ["moved", json.dumps({"n": n}), key])


MOVE = """
SELECT citus_move_shard_placement(tenure_door.range_of(%s),
                                  f.nodename, f.nodeport, t.nodename, t.nodeport, %s::citus.shard_transfer_mode)
FROM pg_dist_node AS f, pg_dist_node AS t WHERE f.groupid = tenure_door.home(%s) AND t.groupid = %s
"""


def move(cluster: Cluster, key: str, to: str, mode: str = "block_writes") -> None:
    """Citus moves the range of a key to another node, once it has dropped what an earlier move has left there."""

    def moved() -> bool:
        with cluster.at() as conn, contextlib.suppress(InternalError_):
            conn.execute(MOVE, [key, mode, key, int(to)])
            return True
        return False

    assert eventually(moved)


def away_from(cluster: Cluster, key: str) -> str:
    """An inbox that is not the home of the key."""
    return next(inbox for inbox in cluster.nodes if inbox != cluster.home(key))


def work(cluster: Cluster, inbox: str) -> list[int]:
    """Claim and complete the ordered rows of a node."""
    done = []
    with postgres.connect(cluster.nodes[inbox]) as conn:
        while jobs := postgres.run(conn, verbs.claim_ordered("A", 10)):
            for job in jobs:
                done.append(json.loads(job.payload)["n"])
                postgres.run(conn, settle.complete([job]))
    return done


def test_rows_wait_in_the_new_home_until_the_old_one_has_none(cluster: Cluster) -> None:
    key, (old, new) = homes(cluster, "order")
    with cluster.at() as conn:
        for n in (0, 1, 2):
            enqueue(conn, key, n)
        move(cluster, key, new)
        for n in (3, 4):
            enqueue(conn, key, n)
    adopt_all(cluster.url, "tenure")
    assert work(cluster, new) == []
    assert work(cluster, old) == [0, 1, 2]
    adopt_all(cluster.url, "tenure")
    assert work(cluster, new) == [3, 4]


def homes(cluster: Cluster, key: str) -> tuple[str, tuple[str, str]]:
    """A key, its home, and another; what earlier tests have moved is adopted."""
    adopt_all(cluster.url, "tenure")
    return key, (cluster.home(key), away_from(cluster, key))


def test_many_rows_wait_as_one_does(cluster: Cluster) -> None:
    key, (old, new) = homes(cluster, "many")
    rows = [NewRow("moved", {"n": n}, key=key, ordered=True) for n in range(4)]
    with cluster.at() as conn:
        postgres.run(conn, verbs.enqueue_many(rows[:2]), "tenure_door")
        move(cluster, key, new)
        postgres.run(conn, verbs.enqueue_many(rows[2:]), "tenure_door")
    assert work(cluster, new) == []
    assert work(cluster, old) == [0, 1]
    adopt_all(cluster.url, "tenure")
    assert work(cluster, new) == [2, 3]


def test_many_ordered_rows_keep_the_order_in_which_they_are_given_with_names_and_without(cluster: Cluster) -> None:
    rows = [
        NewRow("moved", {"n": n}, key="given", ordered=True, idempotency_key=name)
        for n, name in enumerate((None, "given:9", "given:10", None, "given:1", None))
    ]
    with cluster.at() as conn:
        assert {each.outcome for each in postgres.run(conn, verbs.enqueue_many(rows), "tenure_door")} == {"enqueued"}
    assert work(cluster, cluster.home("given")) == [0, 1, 2, 3, 4, 5]


def test_many_ordered_rows_keep_their_order_also_where_they_go_to_two_nodes(cluster: Cluster) -> None:
    cluster.empty()
    keys = [key for inbox in cluster.nodes for key in cluster.keys(inbox, 4, "both")]
    rows = [NewRow("moved", {"n": n}, key=keys[n * n % len(keys)], ordered=True) for n in range(100)]
    with cluster.at() as conn:
        postgres.run(conn, verbs.enqueue_many(rows), "tenure_door")
    for inbox in cluster.nodes:
        with cluster.at(inbox) as conn:
            kept = conn.execute("SELECT (payload ->> 'n')::int FROM tenure.live ORDER BY seq").fetchall()
        assert len(kept) > 10
        assert kept == sorted(kept)
    cluster.empty()


def waits(act: Callable[[], object]) -> threading.Thread:
    """A thread that does it; it has not got far after a while."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(1.5)
    assert thread.is_alive(), "it waits"
    return thread


def test_a_move_waits_for_an_open_enqueue(cluster: Cluster) -> None:
    key, (old, new) = homes(cluster, "open")
    for place in (None, old, new):
        home, other = cluster.home(key), away_from(cluster, key)
        with cluster.at(place) as conn:
            with conn.transaction():
                enqueue(conn, key, 0)
                mover = waits(partial(move, cluster, key, other))
            mover.join(SECONDS_MAX)
        assert cluster.home(key) == other
        assert work(cluster, home) == [0]
        adopt_all(cluster.url, "tenure")


def test_without_the_lock_a_row_is_left_behind_by_a_move(cluster: Cluster) -> None:
    key, (_, new) = homes(cluster, "unlocked")
    gutted = "CREATE OR REPLACE FUNCTION tenure_door.hold_range(routing_key text) RETURNS void LANGUAGE sql AS ''"
    with changed(cluster, gutted), cluster.at() as conn, conn.transaction():
        enqueue(conn, key, 0)
        move(cluster, key, new)
        with cluster.at() as other:
            enqueue(other, key, 1)
        adopt_all(cluster.url, "tenure")
        assert work(cluster, new) == [1], "before 0, which is not committed yet"


def test_an_enqueue_waits_for_a_move_and_finds_the_new_home_or_is_to_be_sent_again(cluster: Cluster) -> None:
    key, _ = homes(cluster, "during")
    for place in (None, *cluster.nodes):
        adopt_all(cluster.url, "tenure")
        new = away_from(cluster, key)
        answers: list[str] = []

        def late(place: str | None = place, answers: list[str] = answers) -> None:
            with cluster.at(place) as conn:
                try:
                    enqueue(conn, key, 0)
                    answers.append("sent")
                except SerializationFailure:
                    answers.append("again")

        with moving(cluster, key, new):
            thread = waits(late)
        thread.join(SECONDS_MAX)
        assert answers == ["sent"] or (answers == ["again"] and place is not None), place
        left = cluster.rows("moved")
        assert not left[next(inbox for inbox in cluster.nodes if inbox != new)], "never in the old home"
        adopt_all(cluster.url, "tenure")
        assert work(cluster, new) == [0] * (answers == ["sent"])


def alone(conn: psycopg.Connection[Any], row: NewRow) -> str:
    """The outcome of a row that is sent by itself."""
    return postgres.run(conn, verbs.enqueue(row), "tenure_door").outcome


def among_many(conn: psycopg.Connection[Any], row: NewRow) -> str:
    """The outcome of a row that is one of many."""
    return postgres.run(conn, verbs.enqueue_many([row]), "tenure_door")[0].outcome


@pytest.mark.parametrize("sent", [alone, among_many])
def test_an_idempotency_key_whose_range_moves_is_taken_in_the_new_home_or_is_to_be_sent_again(
    cluster: Cluster, sent: Callable[[psycopg.Connection[Any], NewRow], str]
) -> None:
    name, _ = homes(cluster, "named")
    row = NewRow("named", {}, idempotency_key=name)
    for n, place in enumerate((None, *cluster.nodes) * 2):
        new = away_from(cluster, name)
        row = replace(row, key=None if n < 3 else cluster.keys(new, 1, "far")[0])
        cluster.empty()
        answers: list[str] = []

        def late(place: str | None = place, answers: list[str] = answers, row: NewRow = row) -> None:
            with cluster.at(place) as conn:
                try:
                    answers.append(sent(conn, row))
                except SerializationFailure:
                    answers.append("again")

        with moving(cluster, name, new):
            thread = waits(late)
        thread.join(SECONDS_MAX)
        assert answers == ["enqueued"] or (answers == ["again"] and place is not None), place
        with cluster.at(place) as conn:
            assert sent(conn, row) == ("enqueued" if answers == ["again"] else "duplicate")


def test_who_is_led_to_a_node_that_has_lost_the_range_meanwhile_sends_again(cluster: Cluster) -> None:
    """As Citus does it, if the range moves between its choice of the node and the call there."""
    key = cluster.keys("1", 1, "late")[0]
    rest = "NULL, NULL, NULL, 0, NULL, false, NULL, NULL, NULL, NULL"
    put = f"SELECT tenure_door.put(%s, 'given', 'late', '{{}}', %s, {rest})"
    none, ours = "'{NULL}'", ["'{late}'", "ARRAY['{}'::jsonb]", "ARRAY[%s]"]
    rows = ", ".join([*ours, none, "'{0}'", none, "'{0}'", none, "'{false}'", none, none, none])
    many = f"SELECT tenure_door.put_many(%s, ARRAY[%s], {rows})"
    take = "SELECT tenure_door.take_key(%s, '')"
    note = "SELECT tenure_door.note_key(%s, NULL)"
    led = make_conninfo(cluster.nodes["2"], application_name="citus_internal gpid=10000000001")
    with psycopg.connect(led, autocommit=True) as conn:
        for call, given in ((put, [key, key]), (many, [key, key, key]), (take, [key]), (note, [key])):
            with pytest.raises(SerializationFailure, match="has moved while its row was sent: send it again"):
                conn.execute(call.encode(), given)


@contextlib.contextmanager
def moving(cluster: Cluster, key: str, to: str) -> Iterator[None]:
    """A move that is not committed before the block ends."""
    with cluster.at() as conn, conn.transaction():
        conn.execute(MOVE, [key, "block_writes", key, int(to)])
        yield


def test_unordered_rows_do_not_wait(cluster: Cluster) -> None:
    key, (_, new) = homes(cluster, "free")
    with cluster.at() as conn:
        conn.execute("SELECT tenure_door.enqueue('loose', '{}', %s)", [key])
        move(cluster, key, new)
        conn.execute("SELECT tenure_door.enqueue('loose', '{}', %s)", [key])
    with postgres.connect(cluster.nodes[new]) as worker:
        assert len(postgres.run(worker, verbs.claim("A", 5))) == 1


def test_many_unordered_rows_do_not_wait_for_a_move(cluster: Cluster) -> None:
    key, (old, new) = homes(cluster, "free")
    sent = threading.Event()

    def send() -> None:
        with cluster.at() as conn:
            postgres.run(conn, verbs.enqueue_many([NewRow("loose", {}, key=key)] * 2), "tenure_door")
        sent.set()

    sender = threading.Thread(target=send, daemon=True)
    with moving(cluster, key, new):
        sender.start()
        assert sent.wait(SECONDS_MAX), "it waits for the move"
    assert cluster.rows("loose")[old] == [key] * 2


def test_a_new_range_is_at_home_at_once(cluster: Cluster) -> None:
    for inbox, url in cluster.nodes.items():
        with postgres.connect(url) as conn:
            assert adopt(conn, url, "tenure").reasons == {}, inbox
            assert adopt(conn, url, "tenure").adopted == (0, 0)


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_keys_keep_their_order_while_ranges_move_under_load(cluster: Cluster, mode: str) -> None:
    moves, keys = slice_of(100, 10 if mode == "block_writes" else 3), [f"drill:{n}" for n in range(20)]
    adopt_all(cluster.url, "tenure")
    inbox, ran = Inbox(citus=True), defaultdict[str, list[int]](list)

    @inbox.handler("drill", key="{key}", ordered=True)
    def drill(job: Job, key: str, n: int) -> None:
        ran[key].append(n)

    sent, over = defaultdict[str, int](int), threading.Event()

    def produce(mine: list[str]) -> None:
        with cluster.at() as conn:
            while not over.wait(0.01):
                key = random.choice(mine)
                with contextlib.suppress(SerializationFailure):  # it is sent again
                    drill.enqueue(conn, key=key, n=sent[key])
                    sent[key] += 1

    producers = [threading.Thread(target=produce, args=(keys[n::2],), daemon=True) for n in (0, 1)]
    hired = Hired(inbox, Terms(shards=cluster.nodes, citus=cluster.url, queues=inbox.queues, poll_seconds=0.25))
    try:
        for each in producers:
            each.start()
        for n in range(moves):
            key = keys[n % len(keys)]
            move(cluster, key, away_from(cluster, key), mode)
        over.set()
        for each in producers:
            each.join(SECONDS_MAX)
        eventually(lambda: sum(map(len, ran.values())) >= sum(sent.values()))
    finally:
        over.set()
        hired.stop()
    assert dict(ran) == {key: list(range(n)) for key, n in sent.items()}, "none lost, none twice, none out of order"
