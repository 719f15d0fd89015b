"""The filter language: words mean what they say, and words without a meaning are refused in a sentence."""

from __future__ import annotations

import contextlib
import string
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.errors import USAGE
from tenure.model.filter import (
    ASKABLE,
    ATTEMPTS_MAX,
    EVERYTHING,
    FIELDS,
    IDS_MAX,
    LENGTH_MAX,
    TEXT_MAX,
    BadFilter,
    Filter,
    parse,
)

ONE, TWO = UUID(int=1), UUID("01a1dec8-cd34-460f-94f5-1593c6671199")
CHARACTERS = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, min_size=1, max_size=20) | st.text('"\\ *:,.\n', min_size=1, max_size=6)
FILTERS = st.builds(
    Filter,
    statuses=st.lists(st.sampled_from(ASKABLE), unique=True).map(tuple),
    kind=st.none() | TEXTS,
    queue=st.none() | TEXTS,
    key=st.none() | TEXTS,
    worker=st.none() | TEXTS,
    error=st.none() | TEXTS,
    payload=st.lists(st.tuples(TEXTS, TEXTS | st.just(""))).map(tuple),
    attempts=st.none() | st.tuples(st.integers(0, 100), st.integers(100, 999_999_999) | st.just(ATTEMPTS_MAX)),
    older_seconds=st.none() | st.floats(0, 1e9) | st.integers(0, 10**9).map(float),
    newer_seconds=st.none() | st.floats(0, 1e9) | st.integers(0, 10**9).map(float),
    ids=st.lists(st.uuids(), unique=True, max_size=3).map(tuple),
    idempotency_key=st.none() | TEXTS,
    fingerprint=st.none() | st.text("0123456789abcdef", min_size=12, max_size=12),
    ordered=st.none() | st.booleans(),
    bucket=st.none() | st.integers(0, 1023),
)


@given(FILTERS)
@example(Filter(kind="\\*", payload=((".", ""),)))
@example(Filter(older_seconds=5e-324))
def test_a_filter_written_out_and_read_again_is_the_same(filter: Filter) -> None:
    assert parse(str(filter)) == filter


@given(FILTERS)
def test_what_is_written_is_one_line_of_words_in_the_same_order(filter: Filter) -> None:
    assert str(parse(str(filter))) == str(filter)


@given(st.text(alphabet=st.characters(), max_size=60) | st.text(string.punctuation + " kindage1", max_size=30))
def test_any_text_is_a_filter_or_is_refused_in_a_sentence(text: str) -> None:
    refusals: list[BadFilter] = []
    try:
        filter = parse(text)
        assert parse(str(filter)) == filter
    except BadFilter as bad:
        refusals.append(bad)
    assert all(len(str(bad)) > 10 and bad.exit_code == USAGE for bad in refusals)


def test_every_field_of_the_language() -> None:
    text = (
        'status:dead_letter,failed kind:send_receipt queue:mail key:order:9182 worker:w* error:"time out" '
        "payload.order_id:9182 payload.customer.country:pt attempts:>3 age:>1h age:<2d "
        f"id:{ONE},{TWO} idempotency:k fingerprint:0123456789ab ordered:yes bucket:17"
    )
    assert parse(text) == Filter(
        statuses=("dead_letter", "failed"), kind="send_receipt", queue="mail", key="order:9182", worker="w*",
        error="time out", payload=(("order_id", "9182"), ("customer.country", "pt")), attempts=(4, ATTEMPTS_MAX),
        older_seconds=3600, newer_seconds=172_800, ids=(ONE, TWO), idempotency_key="k", fingerprint="0123456789ab",
        ordered=True, bucket=17,
    )  # fmt: skip
    assert str(parse(text)) == text
    assert {word.split(":")[0].split(".")[0] for word in text.split()} >= {name.split(".")[0] for name in FIELDS}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", {}),
        ("  \n ", {}),
        (str(TWO), {"ids": (TWO,)}),
        (str(TWO).upper(), {"ids": (TWO,)}),
        ("attempts:3", {"attempts": (3, 3)}),
        ("attempts:>=3", {"attempts": (3, ATTEMPTS_MAX)}),
        ("attempts:<3", {"attempts": (0, 2)}),
        ("attempts:<=3", {"attempts": (0, 3)}),
        ("attempts:2..5", {"attempts": (2, 5)}),
        ("age:>1.5h", {"older_seconds": 5400.0}),
        ("age:<1w", {"newer_seconds": 604_800.0}),
        ("ordered:no", {"ordered": False}),
        (r'error:"she said \"no\""', {"error": 'she said "no"'}),
        (r'error:"C:\\temp"', {"error": r"C:\temp"}),
        (r"error:C:\temp", {"error": r"C:\temp"}),
        ('payload."order id":"a b"', {"payload": (("order id", "a b"),)}),
        ("payload.note:", {"payload": (("note", ""),)}),
        ("status:runnable,runnable", {"statuses": ("runnable",)}),
        ("key:a:b:c", {"key": "a:b:c"}),
    ],
)
def test_words_and_what_they_mean(text: str, means: dict[str, Any]) -> None:
    assert parse(text) == Filter(**means)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("held", "processing"),
        ("running", "processing"),
        ("dead", "dead_letter"),
        ("waiting", "scheduled"),
        ("delayed", "scheduled"),
    ],
)
def test_an_old_status_word_is_accepted_with_a_hint(old: str, new: str) -> None:
    filter = parse(f"kind:k status:{old}")
    assert filter == Filter(kind="k", statuses=(new,))
    (hint,) = filter.hints
    assert hint.partition(" (")[0] == f"status:{old} is now status:{new}"
    assert str(filter) == f"status:{new} kind:k"
    assert parse(str(filter)).hints == ()


def test_rows_that_wait_behind_their_key_are_told_apart_from_scheduled_ones() -> None:
    (hint,) = parse("status:waiting").hints
    assert hint.endswith(" (rows behind another row of their key are pending: `tenure queues blocked`)")


@pytest.mark.parametrize(("said", "meant"), [("ready", "runnable"), ("queued", "pending"), ("done", "completed")])
def test_a_status_of_another_queue_is_answered_with_ours(said: str, meant: str) -> None:
    with pytest.raises(BadFilter, match=f"there is no status '{said}': did you mean '{meant}'?"):
        parse(f"status:{said}")


def test_each_old_status_of_a_list_has_one_hint() -> None:
    filter = parse("status:held,failed,running,held,dead,dead_letter")
    assert filter.statuses == ("processing", "failed", "dead_letter")
    assert filter.hints == (
        "status:held is now status:processing",
        "status:running is now status:processing",
        "status:dead is now status:dead_letter",
    )


def test_a_hint_asks_nothing_of_a_row() -> None:
    assert not Filter(hints=("status:held is now status:processing",))
    assert parse("status:processing kind:held").hints == ()


@pytest.mark.parametrize(
    ("text", "word", "says"),
    [
        ("timeout", "timeout", "'timeout' must be FIELD:VALUE; the fields are status, kind, queue"),
        ("kind:a knid:b", "knid:b", "there is no field 'knid', did you mean 'kind'?"),
        ("zzz:b", "zzz:b", "there is no field 'zzz'; the fields are "),
        ("payload:b", "payload:b", "there is no field 'payload', did you mean 'payload.NAME'?"),
        ("payload.:b", "payload.:b", "a value of 0 characters"),
        ("kind:", "kind:", "'kind:' has no value: write it as kind:send_receipt"),
        ('kind:""', 'kind:""', "a value of 0 characters"),
        ("kind:a kind:b", "kind:b", "'kind:b' repeats a field"),
        ("age:>1h age:>2h", "age:>2h", "repeats a field"),
        ("status:gone", "status:gone", "there is no status 'gone': there are pending, "),
        ("status:held,gone", "status:held,gone", "there is no status 'gone'"),
        ("status:failed,", "status:failed,", "there is no status ''"),
        ('error:"time out', 'error:"time', "a quote is not closed"),
        ("age:1h", "age:1h", "age:1h must be an age: write age:>1h or age:<5m"),
        ("age:>5y", "age:>5y", "must be an age"),
        ("age:>99999w", "age:>99999w", "must be between 0 s and 100 years"),
        ("attempts:many", "attempts:many", "attempts:many must be a number"),
        ("attempts:<0", "attempts:<0", "attempts:<0 matches no number"),
        ("attempts:5..2", "attempts:5..2", "attempts:5..2 matches no number"),
        ("id:7", "id:7", "'7' must be a row id, like 00000000-"),
        ("bucket:1024", "bucket:1024", "bucket 1024 must be between 0 and 1023"),
        ("bucket:-1", "bucket:-1", "bucket:-1 must be a number from 0 to 1023"),
        ("bucket:²", "bucket:²", "must be a number"),
        ("ordered:true", "ordered:true", "ordered:true must be yes or no"),
        ("fingerprint:xyz", "fingerprint:xyz", "fingerprint 'xyz' must be 12 hex digits"),
        ("kind:a\x00b", "kind:a\x00b", "contains a NUL character, which Postgres cannot store"),
        ("payload.a\x00b:1", "payload.a\x00b:1", "contains a NUL character"),
        ("error:\udcff", "error:\udcff", "contains a lone surrogate"),
        (f"kind:{'x' * (TEXT_MAX + 1)}", f"kind:{'x' * (TEXT_MAX + 1)}", f"a value of {TEXT_MAX + 1} characters"),
    ],
)
def test_what_means_nothing_is_refused_with_the_word_that_is_wrong(text: str, word: str, says: str) -> None:
    with pytest.raises(BadFilter) as bad:
        parse(text)
    assert says in str(bad.value)
    assert "\n" not in str(bad.value)
    assert bad.value.word == word


@pytest.mark.parametrize("text", [" ".join(f"payload.{n}:1" for n in range(200)), f"id:{','.join([str(ONE)] * 2)}"])
def test_a_filter_has_a_length(text: str) -> None:
    if text.startswith("id:"):
        assert parse(text).ids == (ONE,)
        text = f"id:{','.join(str(UUID(int=n)) for n in range(IDS_MAX + 1))}"
    with pytest.raises(BadFilter, match="too "):
        parse(text)


def test_a_filter_made_in_python_is_checked_as_well() -> None:
    for wrong in ({"statuses": ("gone",)}, {"bucket": 1024}, {"attempts": (3, 2)}, {"newer_seconds": float("nan")}):
        with pytest.raises(BadFilter):
            Filter(**wrong)
    assert not EVERYTHING
    assert Filter(kind="k")


# -- what it costs to read

COSTLY: dict[str, Callable[[int], str]] = {
    "quotes that never close": lambda n: '\\"' * (n // 2),
    "escapes in a quote": lambda n: '"\\' * (n // 2),
    "many such words": lambda n: '\\" ' * (n // 3),
    "a field of such quotes": lambda n: "kind:" + '\\"' * (n // 2),
    "quotes in a name": lambda n: '"a"' * (n // 3),
    "one word": lambda n: "x" * n,
    "blanks": lambda n: " " * n,
    "many words": lambda n: "a:b " * (n // 4),
    "statuses": lambda n: "status:" + ",".join(["held"] * (n // 5)),
    "ids": lambda n: "id:" + ",".join([str(ONE)] * (n // 37)),
}


def seconds(text: str) -> float:
    """The least CPU time that reading this took, of a few times."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(BadFilter):
            parse(text)
        taken.append(time.thread_time() - began)
    return min(taken)


@pytest.mark.parametrize("make", COSTLY.values(), ids=COSTLY)
def test_a_filter_costs_what_it_is_long(make: Callable[[int], str]) -> None:
    """Four times as long takes four times as long, not sixteen times."""
    short, long = seconds(make(10_000)), seconds(make(40_000))
    assert long < 9 * max(short, 0.0005), (short, long)


def test_each_word_is_checked_once_however_many_there_are() -> None:
    few, many = (" ".join(f"payload.a{i}:{'x' * 900}" for i in range(n)) for n in (20, 80))
    assert seconds(many) < 9 * max(seconds(few), 0.0005)


def test_a_filter_has_a_length_and_a_number_of_words() -> None:
    with pytest.raises(BadFilter, match="more than 100 words"):
        parse("kind:a " + "payload.a:b " * 100)
    with pytest.raises(BadFilter, match="at most"):
        parse("kind:" + "x" * LENGTH_MAX)
