"""What is written by hand for speed is what Postgres reads back: array literals, lines of COPY, and plain JSON."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure import postgres, verbs
from tenure.errors import InvalidPayload
from tenure.model import payload
from tenure.model.copy_line import column
from tenure.model.plain_json import BYTES_MAX, plain_json
from tenure.model.rows import NewRow
from tenure.verbs.statement import text_array
from world import World

HOSTILE = [
    "", "NULL", "null", "\\", '"', '\\"', "\\N", "\\.", "{", "}", ",", " ", "\t", "\n", "\r", "\r\n", "\b", "\x7f", "'",
    "$1", "%s", "ü", "\u2028", "💥", "\\u0000", "{a,b}", '"x"',
]  # fmt: skip
_characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
texts = st.one_of(st.sampled_from(HOSTILE), st.text(_characters | st.sampled_from('\\"{},\t\n\r'), max_size=12))
on_a_server = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@on_a_server
@given(values=st.lists(texts | st.none(), max_size=12))
def test_a_text_array_is_read_as_it_was(world: World, values: list[str | None]) -> None:
    assert world.sql("SELECT %s::text[]", text_array(values)) == [(values,)]


def test_a_text_that_postgres_cannot_store_does_not_become_two() -> None:
    with pytest.raises(ValueError, match="NUL"):
        text_array(["a", "b\0c"])


@on_a_server
@given(rows=st.lists(st.tuples(texts | st.none(), texts | st.none()), max_size=8))
def test_a_line_of_copy_is_read_as_it_was(world: World, rows: list[tuple[str | None, str | None]]) -> None:
    with world.conn.transaction(force_rollback=True):
        world.sql("CREATE TEMP TABLE read (n int GENERATED ALWAYS AS IDENTITY, a text, b text)")
        with world.conn.cursor().copy("COPY read (a, b) FROM STDIN") as stream:
            stream.write("".join(f"{column(a)}\t{column(b)}\n" for a, b in rows))
        assert world.sql("SELECT a, b FROM read ORDER BY n") == rows


@on_a_server
@given(rows=st.lists(st.tuples(texts.filter(bool), st.dictionaries(texts, texts, max_size=3)), min_size=1, max_size=6))
def test_rows_come_in_as_they_were_by_every_way(world: World, rows: list[tuple[str, dict[str, str]]]) -> None:
    sent = [NewRow(f"k{n}", fields, key=key) for n, (key, fields) in enumerate(rows)]
    for send in (_one_by_one, _many, _copied):
        with world.conn.transaction(force_rollback=True):
            send(world, sent)
            found = world.sql("SELECT kind, payload, partition_key FROM live ORDER BY seq")
            assert found == [(row.kind, row.payload, row.key) for row in sent], send.__name__


def _one_by_one(world: World, rows: list[NewRow]) -> None:
    for row in rows:
        world.run(verbs.enqueue(row))


def _many(world: World, rows: list[NewRow]) -> None:
    world.run(verbs.enqueue_many(rows))


def _copied(world: World, rows: list[NewRow]) -> None:
    assert postgres.copy(world.conn, rows, world.schema) == len(rows)


def test_many_lines_are_written_in_parts_and_all_come_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.postgres.runner.COPY_CHARS", 300)
    sent = (NewRow("k", {"n": n}) for n in range(20))
    assert postgres.copy(world.conn, sent, world.schema) == 20
    assert world.sql("SELECT array_agg((payload ->> 'n')::int ORDER BY seq) FROM live") == [(list(range(20)),)]
    with pytest.raises(InvalidPayload):
        postgres.copy(world.conn, (NewRow("k", {"n": math.nan if n == 15 else n}) for n in range(20)), world.schema)
    assert world.count("live") == 20


# -- plain JSON is the JSON of the careful walk


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()


class Order(msgspec.Struct, rename="camel"):
    order_id: Any
    note_text: Any = None


@dataclass(slots=True)
class Sent:
    a: Any
    b: Any = 0


MOMENTS = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 5), date(2026, 1, 1), time(1), timedelta(1)]
ODD: list[Any] = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-4, 9.9e-5, 1e16, 9999999999999998.0, 5e-324, 2**63, 2**63 - 1,
    -(2**63), -(2**63) - 1, 10**4001, True, None, Decimal("1.50"), Decimal("NaN"), UUID(int=1), *MOMENTS, Colour.RED,
    Name("x"), b"x", "\0", "\\u0000", "\ud800", {1: 2, "1": 3}, {}, [], [[]], (1,), [{}], {"a": [1]}, [math.nan],
    ["\0"], {1, 2}, object(),
]  # fmt: skip
lists = st.lists(st.floats() | st.text())
plain = st.one_of(st.sampled_from(ODD), st.text(max_size=8), st.integers(), st.floats(), lists)
names = st.text(max_size=4) | st.sampled_from(["a", "\0", "\ud800", "ü"])
payloads = st.one_of(
    st.dictionaries(names | st.integers(0, 3), plain, max_size=4),
    st.builds(Order, plain, plain),
    st.builds(Sent, plain, plain),
)


def careful(value: Any) -> str | None:
    """The text of the careful walk; None if it refuses the value."""
    with patch.object(payload, "plain_json", lambda _: None):
        try:
            return payload.encode(value)
        except InvalidPayload:
            return None


@settings(max_examples=1500, deadline=None)
@given(value=payloads)
def test_plain_json_is_what_the_careful_walk_writes(value: Any) -> None:
    text = plain_json(value)
    if text is not None:
        assert text == careful(value)


def test_most_payloads_are_plain() -> None:
    fields = {"order_id": 9182, "email": "someone@example.com", "tags": ["a", "b"], "at": MOMENTS[0], "paid": 12.5}
    assert plain_json(fields) == careful(fields) is not None
    assert plain_json(Order(1, "x")) == '{"orderId":1,"noteText":"x"}'
    assert plain_json(Sent(1)) == '{"a":1,"b":0}'
    assert plain_json(None) == careful(None) == "null"  # what most steps return
    assert plain_json({"a": "x" * BYTES_MAX}) is None


def test_a_payload_of_another_shape_is_walked_with_care() -> None:
    for value in ("x", 7, [1], {"a": {"b": 1}}, {1: 2}, psycopg):
        assert plain_json(value) is None
