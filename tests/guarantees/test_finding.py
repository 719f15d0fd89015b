"""Finding rows: a filter finds exactly the rows it names, wherever they stand; pages repeat and omit nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from guarantees.facts import user_connection
from plans import Plans
from slices import slice_of
from tenure import sql, verbs
from tenure.model.filter import EVERYTHING, Filter, parse
from tenure.model.rows import Lane, NewRow
from tenure.verbs import capacity, fleet, questions, search, settle
from tenure.verbs.search import Count
from tenure.verbs.statement import Statement
from world import World

STATES = ("runnable", "scheduled", "processing", "completed", "failed", "dead_letter", "cancelled")
NASTY = (
    "'; DROP TABLE live; --",
    '"',
    "\\",
    "%",
    "_",
    "100%_\\",
    "$1",
    "%(kind)s",
    ":kind",
    "{}",
    "\n",
    "é",
    "*",
    "null",
)


@pytest.fixture
def rows(world: World) -> dict[str, UUID]:
    """One row in each state, each with everything of its own."""
    ids: dict[str, UUID] = {}
    for n, state in enumerate(STATES):
        ids[state] = world.enqueue(
            f"kind_{state}",
            {"n": n, "who": {"name": state}, "yes": n == 0},
            key=f"key:{state}",
            queue=f"queue_{state}",
            idempotency_key=f"sent-{state}",
            delay_seconds=600 if state == "scheduled" else 0,
        )
    for state in ("processing", "completed", "failed", "dead_letter"):
        (job,) = world.claim(f"worker-{state}", 1, lanes=[Lane(f"queue_{state}")])
        end: dict[str, Any] = {
            "completed": settle.complete([job]),
            "failed": settle.fail([job], [f'Traceback\n  File "x.py"\nValueError: {state} no 17']),
            "dead_letter": settle.dead_letter([job], [f"Traceback\n  File \"x.py\"\nKeyError: '{state}' at 0xff"]),
        }
        if state in end:
            world.run(end[state])
    world.run(verbs.cancel([ids["cancelled"]], reason="asked by the customer"))
    return ids


def found(world: World, text: str | Filter, **options: Any) -> list[UUID]:
    filter = parse(text) if isinstance(text, str) else text
    page = world.run(search.page(filter, **options))
    assert page.done, "all of it was looked at"
    assert page.rows == [world.row(row.id) for row in page.rows], "a row of a page is the row itself"
    return [row.id for row in page.rows]


def every_page(world: World, filter: Filter, n: int, **options: Any) -> Iterator[list[UUID]]:
    before: UUID | None = None
    for _ in range(1000):
        page = world.run(search.page(filter, before=before, n=n, **options))
        assert len(page.rows) <= n
        yield [row.id for row in page.rows]
        if page.done:
            return
        before = page.next
    raise AssertionError("it never ends")


# -- each field finds its rows and no others, in every state


@pytest.mark.parametrize(
    "text",
    [
        "status:{state}",
        "kind:kind_{state}",
        "kind:kind_{start}*",
        "queue:queue_{state}",
        "queue:queue_{start}*",
        "key:key:{state}",
        "key:key:{start}*",
        "payload.who.name:{state}",
        "payload.n:{n}",
        "payload.n:{n} payload.who.name:{state}",
        "idempotency:sent-{state}",
        "id:{id}",
        "{id}",
        "kind:kind_{state} queue:queue_{state} key:key:{state} status:{state} ordered:no attempts:{attempts} age:<5m",
    ],
)
def test_a_field_finds_its_row_and_no_other(world: World, rows: dict[str, UUID], text: str) -> None:
    for n, state in enumerate(STATES):
        attempts = 0 if state in ("runnable", "scheduled", "cancelled") else 1
        filled = text.format(state=state, start=state[:5], n=n, id=rows[state], attempts=attempts)
        assert found(world, filled) == [rows[state]], filled
        assert world.run(search.count(parse(filled))) == Count(1), filled
        assert world.run(search.count(parse(filled), cap=None)) == Count(1), filled
        assert world.run(search.ids(parse(filled))).ids == [rows[state]], filled
        if "status" not in text:
            counts = world.run(search.statuses(parse(filled)))
            half = ["pending"] if state in ("runnable", "scheduled") else []
            assert {name for name, count in counts.items() if count.n} == {state, *half}, filled
            assert not any(count.more for count in counts.values()), filled


@pytest.mark.parametrize(
    "text",
    [
        "status:{state} kind:kind_other",
        "kind:kind_{state} queue:queue_other",
        "kind:KIND_{state}",
        "kind:kind_{start}",
        "key:key:{state} attempts:>1",
        "payload.n:99 kind:kind_{state}",
        "payload.nothing:1 kind:kind_{state}",
        "payload.who:1 kind:kind_{state}",
        "idempotency:sent-{state} kind:kind_other",
        "id:{id} kind:kind_other",
        "kind:kind_{state} ordered:yes",
        "kind:kind_{state} age:>1h",
        "kind:kind_{state} worker:nobody",
        "kind:kind_{state} error:nothing",
        "kind:kind_{state} fingerprint:000000000000",
    ],
)
def test_one_word_that_does_not_hold_is_enough(world: World, rows: dict[str, UUID], text: str) -> None:
    for state in STATES:
        filled = text.format(state=state, start=state[:4], id=rows[state])
        assert found(world, filled) == [], filled
        assert world.run(search.count(parse(filled))) == Count(0), filled
        assert world.run(search.ids(parse(filled))).ids == [], filled


def test_states_are_asked_for_together_and_pending_is_both_halves(world: World, rows: dict[str, UUID]) -> None:
    assert set(found(world, "status:pending")) == {rows["runnable"], rows["scheduled"]}
    assert set(found(world, "status:runnable,failed,completed")) == {
        rows[s] for s in ("runnable", "failed", "completed")
    }
    assert set(found(world, "status:pending,processing")) == {rows[s] for s in ("runnable", "scheduled", "processing")}
    assert set(found(world, "")) == set(rows.values())


def test_a_worker_is_the_holder_or_the_one_that_ended_it(world: World, rows: dict[str, UUID]) -> None:
    for state in ("processing", "completed", "failed", "dead_letter"):
        assert found(world, f"worker:worker-{state}") == [rows[state]]
        assert world.run(search.ids(Filter(worker=f"worker-{state}"))).ids == [rows[state]]
    assert len(found(world, "worker:worker-*")) == 4
    assert found(world, "worker:worker-processing status:runnable") == []


def test_an_error_is_found_by_any_part_of_it_in_any_case(world: World, rows: dict[str, UUID]) -> None:
    assert found(world, "error:VALUEERROR") == [rows["failed"]]
    assert found(world, 'error:"by the customer"') == [rows["cancelled"]]
    assert set(found(world, "error:traceback")) == {rows["failed"], rows["dead_letter"]}
    assert found(world, "error:%") == []


def test_errors_that_differ_in_numbers_and_quotes_have_one_fingerprint(world: World, rows: dict[str, UUID]) -> None:
    def fingerprint(error: str | None) -> str:
        return str(world.sql("SELECT fingerprint(%s)", error)[0][0])

    alike = fingerprint('Traceback\n  File "y.py"\n    line 3\nValueError: failed no 9182\n \n')
    assert found(world, f"fingerprint:{alike}") == [rows["failed"]]
    assert fingerprint('boom: "a"') == fingerprint("boom: 'b c'")
    assert fingerprint("row 01a1dec8-cd34-460f-94f5-1593c6671199 at 0xFFEE01") == fingerprint("row 7 at 1")
    assert fingerprint("ValueError: a") != fingerprint("ValueError: b") != fingerprint("KeyError: a")
    assert fingerprint(None) == fingerprint("") == fingerprint("\n")
    assert len(alike) == 12
    assert found(world, f"fingerprint:{fingerprint('asked by the customer')}") == [rows["cancelled"]]


def test_a_row_that_waits_to_be_tried_again_is_found_by_its_error(world: World) -> None:
    id = world.enqueue()
    world.retry(world.claim_one().lease, "ValueError: boom 1", delay=60)
    (((fingerprint),),) = world.sql("SELECT fingerprint('ValueError: boom 2')")
    assert found(world, f"fingerprint:{fingerprint}") == found(world, "error:boom") == [id]


def test_age_is_the_time_since_a_row_was_created(world: World, rows: dict[str, UUID]) -> None:
    for table in ("live", "dead", "archive"):
        world.sql(
            f"UPDATE {table} SET created_at = created_at - interval '1 hour'"
            " WHERE kind IN ('kind_runnable', 'kind_failed', 'kind_completed')"
        )
    old = {rows["runnable"], rows["failed"], rows["completed"]}
    assert set(found(world, "age:>30m")) == old
    assert set(found(world, "age:<30m")) == set(rows.values()) - old
    assert found(world, "age:>2h") == []
    assert set(found(world, "age:<2h")) == set(rows.values())


def test_a_row_without_a_key_has_its_id_for_one(world: World) -> None:
    ids = [world.enqueue(), world.enqueue(), world.enqueue()]
    world.fail(next(job for job in world.claim("A", 3) if job.id == ids[1]).lease)
    for id in ids:
        assert found(world, f"key:{id}") == [id]
        assert found(world, f"bucket:{world.row(id).partition_bucket} key:{id}") == [id]


def test_ordered_rows_are_found_by_key_queue_and_bucket(world: World) -> None:
    ids = [world.enqueue(key="k", ordered=True, queue="orders") for _ in range(3)]
    other = world.enqueue(key="k", queue="orders")
    bucket = world.row(other).partition_bucket
    for text in ("key:k", "queue:orders", f"bucket:{bucket}", "key:k queue:orders status:runnable"):
        assert found(world, text) == [other, *reversed(ids)]
        assert found(world, f"{text} ordered:yes") == ids[::-1]
        assert found(world, f"{text} ordered:no") == [other]
    (job,) = world.claim_ordered("A", queues=["orders"])
    assert found(world, "status:processing") == [job.id]


def test_the_rows_of_a_key_cost_a_question_no_look_at_those_of_others(world: World) -> None:
    world.sql(
        "INSERT INTO live (kind, payload, queue, partition_key)"
        " SELECT 'k', '{}', 'q' || n % 20, 'key' || n FROM generate_series(1, 20000) AS n"
    )
    world.sql("ANALYZE live")
    mine = world.enqueue("k", key="mine", queue="q7")
    plans = Plans(world)
    assert found(world, "key:mine") == [mine]
    for asked in (search.page(parse("key:mine")), search.count(parse("key:mine")), search.ids(parse("key:mine"))):
        plans.of(asked)  # the catalogues are read
        assert "Seq Scan" not in plans.of(asked)
        assert plans.buffers < 400


# -- values stay values


@pytest.mark.parametrize("nasty", NASTY)
def test_a_value_is_never_anything_but_a_value(world: World, nasty: str) -> None:
    ends = {"queue": nasty, "key": nasty, "idempotency_key": nasty}
    ids = [world.enqueue(nasty, {nasty.replace(".", ""): nasty}, **ends)]
    ids += [world.enqueue(f"{nasty}x", {"x": "x"}), world.enqueue("x"), world.enqueue("xxxx", key="xxxx")]
    literal = nasty[:-1] + "\\*" if nasty.endswith("*") else nasty
    for filter in (
        Filter(kind=literal), Filter(queue=literal), Filter(key=literal), Filter(idempotency_key=nasty),
        Filter(payload=((nasty, nasty),)),
    ):  # fmt: skip
        assert found(world, filter) == found(world, str(filter)) == [ids[0]], str(filter)
        assert world.run(search.count(filter)) == Count(1)
    if not nasty.endswith("\\"):  # `\*` is a star
        assert set(found(world, Filter(kind=f"{nasty}*"))) == set(ids[:2])
    assert found(world, Filter(worker=literal)) == found(world, Filter(error=nasty)) == []
    world.fail(
        next(job for job in world.claim("A", 9, lanes=[Lane(nasty)]) if job.id == ids[0]).lease, f"it said {nasty}!"
    )
    assert found(world, Filter(error=nasty)) == found(world, Filter(error=f"said {nasty}!")) == [ids[0]]
    assert found(world, Filter(kind=literal)) == found(world, Filter(key=literal)) == [ids[0]]


# -- pages


def many(world: World, n: int = 60) -> list[UUID]:
    """Rows in all three tables, mixed in time; newest first."""
    world.run(verbs.enqueue_many([NewRow(f"kind_{k % 3}", {"k": k}, key=f"key:{k % 7}") for k in range(n)]))
    for k, job in enumerate(world.claim("A", n // 2)):
        world.run([settle.complete([job]), settle.fail([job], ["boom"]), settle.release([job])][k % 3])
    return [id for (id,) in world.sql("SELECT id FROM inbox ORDER BY id DESC")]


@pytest.mark.parametrize(
    ("n", "search_max"),
    slice_of(list(itertools.product([1, 7, 60, 100], [1, 10, 20_000])), [(1, 10), (7, 1), (60, 20_000), (100, 10)]),
)
def test_pages_repeat_and_omit_nothing(world: World, n: int, search_max: int) -> None:
    everything = many(world)
    for text in ("", "kind:kind_1", "key:key:3", "status:failed,runnable", "kind:nothing"):
        filter = parse(text)
        pages = [id for page in every_page(world, filter, n, search_max=search_max) for id in page]
        whole = found(world, filter, n=1000)
        assert pages == whole
        assert whole == [id for id in everything if id in set(whole)]
        assert world.run(search.count(filter)) == world.run(search.count(filter, cap=None)) == Count(len(whole))
    assert found(world, "", n=1000) == everything


def test_ids_go_on_like_pages_do(world: World) -> None:
    everything, named, before = many(world), [], None
    while True:
        some = world.run(search.ids(EVERYTHING, before=before, n=8, search_max=20))
        named += some.ids
        if some.done:
            break
        before = some.next
    assert named == everything


@pytest.mark.parametrize("text", ["", "kind:kind_1", "kind:nothing", "status:failed"])
@pytest.mark.parametrize("search_max", [1, 9])
def test_no_more_rows_are_looked_at_than_asked(world: World, text: str, search_max: int) -> None:
    many(world)
    page = world.run(search.page(parse(text), search_max=search_max))
    assert page.searched == search_max
    assert not page.done
    assert len(page.rows) <= search_max
    rest = world.run(search.page(parse(text), n=100, search_max=1000))
    assert rest.done
    assert search_max < rest.searched <= 60


def test_a_search_ends_with_its_time_and_says_where(world: World) -> None:
    everything = many(world, 400)
    page = world.run(search.page(parse("kind:nothing"), search_seconds=0))
    assert (page.rows, page.done) == ([], False)
    assert 0 < page.searched < 400
    assert page.next == everything[page.searched - 1]
    counted = world.run(search.count(parse("kind:kind_1"), cap=None))
    assert counted == Count(sum(1 for id in everything if world.row(id).kind == "kind_1"))


def test_rows_of_one_table_are_found_without_a_look_at_the_others(world: World) -> None:
    many(world)
    for text, table in (("status:failed", "dead"), ("status:completed", "archive"), ("status:pending", "live")):
        assert world.run(search.page(parse(text))).searched == world.count(table)


def test_a_page_of_nothing_is_done(world: World) -> None:
    assert world.run(search.page(EVERYTHING)) == search.Page([], None, 0, True)
    assert world.run(search.count(EVERYTHING)) == Count(0)
    assert world.run(search.ids(EVERYTHING)) == search.Ids([], None, 0, True)


def test_a_held_row_off_the_beaten_track_is_found_by_those_who_act(world: World) -> None:
    """Held by a claim of long ago, with many rows due before it now: where nobody looks for held rows."""
    world.run(verbs.enqueue_many([NewRow("k", key="same") for _ in range(100)]))
    (first,) = world.claim("A", 1)
    world.sql("UPDATE live SET available_at = available_at + interval '1 second' WHERE id = %s", first.id)
    world.sql("UPDATE live SET available_at = available_at - interval '1 day' WHERE id <> %s", first.id)
    assert world.run(search.ids(parse("status:processing"))).ids == [first.id]
    assert world.run(search.count(parse("status:processing"), cap=None)) == Count(1)


def ended(world: World, n: int, error: str, key: str = "often", kind: str = "a") -> None:
    """So many dead letters of this error, one after the other."""
    for _ in range(n):
        world.enqueue(kind, key=key)
        world.dead_letter(world.claim_one().lease, error)


def test_few_dead_rows_are_found_behind_many_others_however_few_are_looked_at(world: World) -> None:
    ended(world, 3, "seldom", key="seldom")
    ended(world, 9, "often")
    (seldom,) = world.sql("SELECT DISTINCT fingerprint FROM dead WHERE last_error = 'seldom'")[0]
    for text in (f"fingerprint:{seldom}", "key:seldom"):
        newest, *older = [row.id for row in world.run(search.page(parse(text), n=5, search_max=4)).rows]
        assert len(older) == 2, text
        following = search.page(parse(text), n=1, before=newest, search_max=1)
        assert [row.id for row in world.run(following).rows] == older[:1], text


def test_a_completed_row_is_found_by_the_error_it_once_had(world: World) -> None:
    id = world.enqueue("a")
    world.retry(world.claim_one().lease, "the bank was closed", delay=0)
    world.complete(world.claim_one().lease)
    (alike,) = world.sql("SELECT fingerprint('the bank was closed')")[0]
    assert [row.id for row in world.run(search.page(parse(f"fingerprint:{alike}"))).rows] == [id]


def test_a_search_whose_time_is_up_has_looked_at_fifty_rows(world: World) -> None:
    many(world)
    page = world.run(search.page(parse("kind:nobody_knows"), search_seconds=0.0))
    assert (page.rows, page.searched, page.done) == ([], 50, False)


def test_dead_rows_of_other_buckets_are_not_found(world: World) -> None:
    for key in ("one", "other"):
        ended(world, 1, "no", key=key)
    bucket = world.run(questions.bucket("one"))
    assert bucket != world.run(questions.bucket("other"))
    assert [row.partition_key for row in world.run(search.page(parse(f"bucket:{bucket}"))).rows] == ["one"]


def test_an_id_and_the_key_of_another_row_find_neither(world: World) -> None:
    one, other = (world.enqueue("a", idempotency_key=key) for key in ("one", "other"))
    assert found(world, f"id:{one} idempotency:other") == []
    assert len(found(world, f"id:{other} idempotency:other")) == 1


def test_in_a_long_transaction_too_what_became_due_meanwhile_is_runnable(world: World) -> None:
    other = world.connect()
    with world.conn.transaction():
        world.sql("SELECT now()")
        id = world.run(verbs.enqueue(NewRow("a")), other).id
        assert [row.id for row in world.run(search.page(parse("status:runnable"))).rows] == [id]


# -- counts


def test_a_count_stops_at_its_cap(world: World) -> None:
    many(world)
    assert world.run(search.count(EVERYTHING, cap=11)) == Count(10, True)
    assert world.run(search.count(EVERYTHING, cap=61)) == Count(60)
    assert world.run(search.count(parse("kind:kind_1"), cap=5)) == Count(4, True)
    assert world.run(search.count(parse("status:failed"), cap=5)) == Count(4, True)
    assert world.run(search.count(parse("status:runnable"), cap=5)) == Count(4, True)
    assert world.run(search.count(parse("key:key:3 status:runnable"), cap=2)) == Count(1, True)


def test_few_dead_rows_are_counted_behind_many_others(world: World) -> None:
    ended(world, 9, "often")
    ended(world, 2, "seldom", kind="b")
    for _ in range(2):
        world.enqueue("a")
        world.fail(world.claim_one().lease)
    assert world.run(search.count(parse("status:failed"), cap=5)) == Count(2)
    assert world.run(search.count(parse("status:dead_letter kind:b"), cap=5)) == Count(2)
    assert world.run(search.count(parse("status:dead_letter error:seldom"), cap=5)).more, "not every row was looked at"


def test_states_are_counted_whatever_state_the_filter_names(world: World, rows: dict[str, UUID]) -> None:
    one_each = {"pending": Count(2), **dict.fromkeys(STATES, Count(1))}
    assert world.run(search.statuses(EVERYTHING)) == one_each
    assert world.run(search.statuses(parse("status:failed"))) == one_each
    assert world.run(search.statuses(parse("kind:kind_* status:failed"))) == one_each
    only_failed = {**dict.fromkeys(one_each, Count(0)), "failed": Count(1)}
    assert world.run(search.statuses(parse("kind:kind_failed"))) == only_failed


def test_every_count_by_state_is_what_its_page_holds(world: World) -> None:
    many(world)
    for text in ("", "kind:kind_1", "key:key:3"):
        for state, count in world.run(search.statuses(parse(text))).items():
            assert count == Count(len(found(world, f"{text} status:{state}", n=1000))), (text, state)


def old_rows(world: World, table: str, n: int = 12_000) -> None:
    """So many rows of two days ago, with ids of that age."""
    ended = ", finished_at, status, seq, lease_generation, fence_token, attempts, max_attempts, priority, ordered, hold"
    values = ", at, 'dead_letter', n, 1, n, 1, 5, 0, false, false"
    more, its = (ended, values) if table == "dead" else ("", "")
    world.sql(
        f"""INSERT INTO {table} (id, created_at, available_at, kind, payload, queue{more})
            SELECT (left(id_at(at)::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, at, at, 'old', '{{}}', 'default'{its}
            FROM generate_series(1, {n}) AS n,
                 LATERAL (SELECT clock_timestamp() - interval '2 days' + n * interval '1 ms' AS at) AS clock"""
    )


def test_a_count_of_the_young_is_not_lost_among_the_old(world: World) -> None:
    """A part of the rows is enough to count many; it says nothing of the few that an age or an id picks out."""
    for _ in range(20):
        world.enqueue("young")
        world.dead_letter(world.claim_one().lease)
        world.enqueue("young", delay_seconds=0)
        world.sql("UPDATE live SET available_at = 'infinity'")
    world.sql("UPDATE live SET available_at = statement_timestamp()")
    (buried,) = world.sql("SELECT id FROM dead WHERE kind = 'young' ORDER BY id LIMIT 1")[0]
    old_rows(world, "live")
    old_rows(world, "dead")
    for text, n in (
        ("status:dead_letter age:<5m", 20), ("status:runnable age:<5m", 20), ("queue:default age:<5m", 40),
        ("status:pending queue:default age:<5m", 20), (f"status:dead_letter id:{buried}", 1),
    ):  # fmt: skip
        assert world.run(search.count(parse(text))) == Count(n), text
        assert world.run(search.count(parse(text), cap=None)) == Count(n), text
    many_old = world.run(search.count(parse("status:dead_letter age:>1d")))  # as many as its moment allows
    assert many_old.more
    assert many_old.n > 20
    counts = world.run(search.statuses(parse("queue:default age:<5m")))
    assert (counts["runnable"], counts["dead_letter"]) == (Count(20), Count(20))
    alike = world.sql("SELECT fingerprint FROM dead WHERE kind = 'old' LIMIT 1")[0][0]
    (oldest,) = world.sql("SELECT id FROM dead WHERE kind = 'old' ORDER BY id LIMIT 1")[0]
    assert world.run(search.page(parse(f"id:{oldest} fingerprint:{alike}"), search_max=100)).rows[0].id == oldest
    assert world.run(search.count(parse(f"fingerprint:{alike} age:<5m"))) == Count(0)


@pytest.mark.parametrize("table", ["live", "dead"])
def test_a_search_for_the_old_does_not_begin_with_the_young(world: World, table: str) -> None:
    many(world)
    old_rows(world, table, 5)
    page = world.run(search.page(parse("age:>25h"), search_max=9))
    assert ([row.kind for row in page.rows], page.searched, page.done) == (["old"] * 5, 5, True)
    assert world.run(search.ids(parse("age:>25h"), before=page.rows[1].id)).ids == [row.id for row in page.rows[2:]]
    assert len(found(world, "age:>0s", n=100)) == 65


def test_the_overview_says_how_the_inbox_stands(world: World, rows: dict[str, UUID]) -> None:
    for worker in ("A", "B", "C", "D"):
        world.run(fleet.register(worker))
    world.run(fleet.drain("C"))
    world.sql("UPDATE workers SET status = 'dead' WHERE id = 'D'")
    world.sql("UPDATE live SET available_at = available_at - interval '1 hour' WHERE id = %s", rows["runnable"])
    view = world.run(search.overview())
    assert view[:5] == (Count(1), Count(1), Count(1), Count(2), Count(1))
    assert (view.workers_alive, view.workers_draining, view.workers_dead) == (2, 1, 1)
    assert view.oldest_runnable_seconds is not None
    assert 3600 <= view.oldest_runnable_seconds < 3700


def test_the_overview_of_an_empty_inbox(world: World) -> None:
    assert world.run(search.overview()) == (*[Count(0)] * 5, None, 0, 0, 0)


def test_an_ordered_row_that_could_run_is_runnable_and_ages(world: World) -> None:
    world.enqueue(key="k", ordered=True)
    world.enqueue(key="k", ordered=True, delay_seconds=60)
    world.sql("UPDATE live SET available_at = available_at - interval '1 hour'")
    world.sql("UPDATE live SET available_at = available_at + interval '2 hours' WHERE seq = 2")
    view = world.run(search.overview())
    assert (view.runnable, view.scheduled) == (Count(1), Count(1))
    assert view.oldest_runnable_seconds is not None
    assert view.oldest_runnable_seconds >= 3600


def test_the_autoscalers_question_looks_at_one_row_of_an_ordered_key(world: World) -> None:
    world.sql(
        "INSERT INTO live (kind, payload, partition_key, ordered, queue)"
        " SELECT 'k', '{}', 'k' || n % 3, true, 'q' || n % 2 FROM generate_series(1, 6000) AS n"
    )
    world.sql("UPDATE live SET available_at = 'infinity' WHERE seq IN (SELECT min(seq) FROM live WHERE queue = 'q0')")
    world.sql("ANALYZE live")
    assert world.run(capacity.backlog()) == 5, "a key whose first row is not due has nothing to run"
    explained = b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql.prepared("backlog", world.schema)
    (((plan,),),) = world.conn.execute(explained).fetchall()

    def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for further in node.get("Plans", []):
            yield from nodes(further)

    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan["Plan"])) < 100


# -- dead letters, effects, keys


def test_what_ended_badly_is_grouped_by_state_kind_and_error_the_latest_first(world: World) -> None:
    errors = (
        ("a", "ValueError: order 1"),
        ("a", "ValueError: order 2"),
        ("a", "KeyError: 'x'"),
        ("b", "ValueError: order 3"),
    )
    ids = []
    for kind, error in errors:
        ids.append(world.enqueue(kind))
        world.dead_letter(world.claim_one().lease, error)
    ids.append(world.enqueue("a"))
    world.fail(world.claim_one().lease, "ValueError: order 4")
    world.run(verbs.cancel([world.enqueue("a")]))
    groups = world.run(search.dead_groups())
    assert [(g.status, g.kind, g.rows, g.last_error, g.sample_id) for g in groups] == [
        ("failed", "a", Count(1), "ValueError: order 4", ids[4]),
        ("dead_letter", "b", Count(1), "ValueError: order 3", ids[3]),
        ("dead_letter", "a", Count(1), "KeyError: 'x'", ids[2]),
        ("dead_letter", "a", Count(2), "ValueError: order 2", ids[1]),
    ]
    assert groups[3].first_at < groups[3].last_at
    assert groups[0].first_at == groups[0].last_at
    assert world.run(search.dead_groups(n=1)) == groups[:1]
    for group in groups:
        text = f"status:{group.status} kind:{group.kind} fingerprint:{group.fingerprint}"
        assert len(found(world, text)) == group.rows.n
    assert {id for g in groups for id in found(world, f"fingerprint:{g.fingerprint}")} == set(ids)


def test_the_effects_of_a_row_are_told(world: World) -> None:
    id = world.enqueue()
    lease = world.claim_one().lease
    world.run(verbs.once(lease, "receipt"))
    (effect,) = world.run(search.effects(id))
    assert (effect.effect, effect.fence_token) == ("receipt", lease.fence)
    assert world.run(search.effects(UUID(int=1))) == []


def test_the_idempotency_key_of_a_row_and_since_when_it_is_taken(world: World) -> None:
    sent, plain = world.enqueue(idempotency_key="k"), world.enqueue()
    first = world.run(search.first_sent(sent))
    assert first is not None
    assert first[0] == "k"
    assert world.run(search.first_sent(plain)) is None


def test_finding_needs_no_pinned_plans_and_no_right_to_write(world: World, rows: dict[str, UUID]) -> None:
    conn = user_connection(world)
    conn.execute("SET TRANSACTION READ ONLY")
    asked: list[Statement[Any]] = [
        search.page(EVERYTHING), search.ids(EVERYTHING), search.count(EVERYTHING), search.statuses(EVERYTHING),
        search.overview(), search.dead_groups(), search.effects(rows["failed"]), search.first_sent(rows["failed"]),
    ]  # fmt: skip
    for question in asked:
        assert world.run(question, conn) == world.run(question) or question.name == "overview"
