"""Headers: what a producer sends along with a row goes with it wherever it goes, and is nobody else's business."""

from __future__ import annotations

import json
import threading
from typing import Any
from uuid import UUID

import psycopg
import pytest

from crew import eventually, working
from tenure import Inbox, Job, postgres, verbs
from tenure.errors import BadSettings, InvalidPayload
from tenure.model.filter import Filter
from tenure.model.limits import HEADERS_BYTES_MAX
from tenure.model.rows import Claimed, NewRow
from tenure.verbs import questions, queues, search
from world import World

SENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tenant": "Ünal & Söhne"}


def carried(world: World, id: UUID) -> Any:
    """The headers of a row wherever it stands, as values; the view and the question must agree."""
    text = world.row(id).headers
    ((seen,),) = world.sql("SELECT headers::text FROM inbox WHERE id = %s", id)
    assert text == seen
    assert [row.headers for row in world.run(search.page(Filter(ids=(id,)))).rows] == [text]
    return None if text is None else json.loads(text)


def read(job: Claimed) -> Any:
    return None if job.headers is None else json.loads(job.headers)


@pytest.mark.parametrize("headers", [SENT, None], ids=["sent", "none"])
def test_headers_go_with_their_row_through_its_whole_life(world: World, headers: dict[str, str] | None) -> None:
    id = world.enqueue(headers=headers, max_attempts=2)
    assert carried(world, id) == headers

    job = world.claim_one()
    assert read(job) == headers
    world.release(job.lease)
    job = world.claim_one()
    assert read(job) == headers
    world.retry(job.lease, delay=0)
    assert (world.status(id), carried(world, id)) == ("pending", headers)

    job = world.claim_one()
    world.expire(job.lease)
    world.sweep()
    assert (world.status(id), carried(world, id)) == ("dead_letter", headers)

    world.run(verbs.redrive([id]))
    assert (world.status(id), carried(world, id)) == ("pending", headers)
    world.complete(world.claim_one().lease)
    assert (world.status(id), carried(world, id)) == ("completed", headers)


@pytest.mark.parametrize("end", ["fail", "dead_letter", "cancel"])
def test_headers_stand_with_what_ended_badly(world: World, end: str) -> None:
    id = world.enqueue(headers=SENT)
    if end == "cancel":
        world.run(verbs.cancel([id]))
    else:
        getattr(world, end)(world.claim_one())
    assert world.status(id) in ("failed", "dead_letter", "cancelled")
    assert carried(world, id) == SENT


@pytest.mark.parametrize("way", ["claim", "claim_in_crowd", "claim_ordered", "claim_limited", "claimed"])
def test_every_way_of_claiming_hands_them_over(world: World, way: str) -> None:
    ordered = way == "claim_ordered"
    id = world.enqueue(headers=SENT, key="k" if ordered else None, ordered=ordered)
    plain = world.enqueue(key="other" if ordered else None, ordered=ordered)
    if way == "claim_limited":
        world.run(queues.limit("default", max_running=5))
        jobs = world.run(queues.claim_limited("A", 2, "default"))
    elif way == "claimed":
        world.claim("A", 2, claim_id=7)
        jobs = world.run(questions.claimed("A", 7))
    elif ordered:
        jobs = world.claim_ordered()
    elif way == "claim_in_crowd":
        jobs = world.run(verbs.claim("A", 2, in_crowd=True))
    else:
        jobs = world.claim("A", 2)
    assert {job.id: read(job) for job in jobs} == {id: SENT, plain: None}
    assert {job.worker for job in jobs} == {"A"}


def test_each_row_of_a_batch_keeps_its_own(world: World) -> None:
    rows = [NewRow("k", headers={"n": str(n)} if n % 2 else None) for n in range(4)]
    ids = [each.id for each in world.run(verbs.enqueue_many(rows))]
    assert [carried(world, id) for id in ids] == [None, {"n": "1"}, None, {"n": "3"}]


def test_copy_brings_them_too(world: World) -> None:
    with world.conn.transaction():
        postgres.copy(world.conn, [NewRow("a", headers=SENT), NewRow("b"), NewRow("c", headers={})], world.schema)
    assert {job.kind: read(job) for job in world.claim("A", 3)} == {"a": SENT, "b": None, "c": None}


def test_other_headers_do_not_make_another_row(world: World) -> None:
    first = world.enqueued(headers=SENT, idempotency_key="k")
    again = world.enqueued(headers={"traceparent": "another"}, idempotency_key="k")
    assert (again.id, again.outcome) == (first.id, "duplicate")
    assert carried(world, first.id) == SENT, "those of the first stay"


def test_any_language_may_send_them(world: World) -> None:
    ((id,),) = world.sql("SELECT row_id FROM enqueue('k', '{}', headers => %s::jsonb)", json.dumps(SENT))
    assert carried(world, id) == SENT
    ((id,),) = world.sql("SELECT row_id FROM enqueue('k', '{}')")
    assert carried(world, id) is None
    fits = json.dumps({"a": "x" * (HEADERS_BYTES_MAX - 9)})
    assert len(fits) == HEADERS_BYTES_MAX
    world.sql("SELECT row_id FROM enqueue('k', '{}', headers => %s::jsonb)", fits)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ('["a"]', 'headers=["a"] must be an object of texts'),
        ('"a"', 'headers="a" must be an object of texts'),
        ('{"a": 1}', 'headers={"a": 1} must be an object of texts: quote its numbers'),
        ('{"a": "b", "c": {}}', "must be an object of texts"),
        ('{"a": null}', "must be an object of texts"),
        (json.dumps({"a": "x" * (HEADERS_BYTES_MAX - 8)}), "headers have 4097 bytes, the limit is 4096"),
    ],
)
def test_the_sql_function_takes_nothing_but_texts(world: World, headers: str, words: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        world.sql("SELECT row_id FROM enqueue('k', '{}', headers => %s::jsonb)", headers)
    assert words in (refused.value.diag.message_primary or ""), "in our words, not the server's"


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("a", "b")], r"headers=\[\('a', 'b'\)\] must be a mapping of text to text, not list"),
        ("traceparent", "headers='traceparent' must be a mapping"),
        ({"a": 1}, r"headers\['a'\]=1 must have text as name and value: use str\(\)"),
        ({"a": None}, r"headers\['a'\]=None must have text as name and value"),
        ({1: "a"}, r"headers\[1\]='a' must have text as name and value"),
        ({"a": "\0"}, r"headers\['a'\] contains a NUL"),
        ({"\ud800": "a"}, "headers: the name .* contains a lone surrogate"),
        ({"a": "ü" * (HEADERS_BYTES_MAX // 2)}, "headers have 4105 bytes, the limit is 4096"),
    ],
)
def test_headers_that_are_no_texts_are_refused_before_anything_is_sent(headers: Any, words: str) -> None:
    with pytest.raises(InvalidPayload, match=words):
        verbs.enqueue(NewRow("k", headers=headers))


def test_the_largest_headers_come_back_whole(world: World) -> None:
    largest = {"a": "x" * (HEADERS_BYTES_MAX - 9)}
    assert carried(world, world.enqueue(headers=largest)) == largest


@pytest.mark.one_server
def test_a_handler_reads_what_its_producer_sent_along(world: World) -> None:
    inbox, heard, both = Inbox(), {}, threading.Event()

    @inbox.handler("k")
    def handle(job: Job, n: int) -> None:
        heard[n] = job.sent_headers
        if len(heard) == 2:
            both.set()

    with working(world, inbox):
        handle.using(headers={"tenant": "a"}).enqueue(world.conn, n=1)
        handle.enqueue(world.conn, n=2)
        eventually(both.is_set)
    assert heard[1]["tenant"] == "a"
    assert "tenant" not in heard[2]


@pytest.mark.parametrize("headers", ["[1]", "1", '"a"', "null", '{"a": 1}', '{"a": null}', '{"a": {"b": "c"}}'])
def test_headers_that_a_copy_let_in_are_borne(world: World, headers: str) -> None:
    with world.unguarded(), world.conn.cursor().copy("COPY live (kind, payload, headers) FROM STDIN") as stream:
        stream.write_row(("k", "{}", headers))
    assert Job(world.claim_one()).sent_headers == {}


def test_headers_that_no_row_could_have_are_no_option() -> None:
    inbox = Inbox()

    @inbox.handler("k")
    def handle() -> None: ...

    with pytest.raises(InvalidPayload, match="must have text as name and value"):
        verbs.enqueue(handle.using(headers={"a": 1}).row())  # type: ignore[dict-item]
    with pytest.raises(BadSettings, match="unknown option 'header'"):
        handle.using(header={"a": "b"})  # type: ignore[call-arg]
