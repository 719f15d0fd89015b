"""What a handler cannot be is refused where it is written, in one sentence, and not when the first row fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, ClassVar, TypedDict

import msgspec
import pytest

from crew import eventually, working
from tenure.app.clock_times import TICK, Cron
from tenure.app.handler import Handler, Options
from tenure.app.inbox import Inbox
from tenure.app.sender import Changes
from tenure.errors import BadSettings
from world import World


def plain(order_id: int) -> None:
    """A handler that can be anywhere."""


def two_sets(things: set[int] | list[int]) -> None:
    """JSON has one kind of array: nobody could tell these apart."""


def misspelt(order_id: datetime.never) -> None:  # type: ignore[name-defined]
    """An annotation that raises when it is read."""


def nested() -> Callable[[], None]:
    """A function that only this call knows."""

    def inner() -> None: ...

    return inner


REFUSED: dict[str, tuple[dict[str, Any], Callable[..., Any], str]] = {
    "an unknown pool": ({"pool": "fork"}, plain, "pool='fork' is not known: choose from loop, thread, process"),
    "an empty pool": ({"pool": ""}, plain, "pool='' is not known"),
    "text as attempts": ({"max_attempts": "3"}, plain, "'k' cannot be sent: max_attempts='3' must be a whole number"),
    "no attempts": ({"max_attempts": 0}, plain, "max_attempts=0 must be a whole number between 1 and 10000"),
    "a high priority": ({"priority": 1000}, plain, "priority=1000 must be a whole number between -100 and 100"),
    "an empty queue": ({"queue": ""}, plain, "queue='' has 0 bytes"),
    "a number as key": ({"key": 5}, plain, "key=5 must be text"),
    "a key of a field that is not there": (
        {"key": "order:{y}"},
        plain,
        "has key='order:{y}', but it does not take 'y': it takes order_id",
    ),
    "a key without a name": ({"key": "order:{}"}, plain, "but it does not take ''"),
    "a key of part of a field that is not there": ({"key": "{y.id}"}, plain, "but it does not take 'y'"),
    "a key with one brace": ({"key": "order:{order_id"}, plain, "which cannot be read"),
    "an empty key": ({"key": ""}, plain, "key='' has 0 bytes"),
    "hold without order": ({"key": "k", "hold": True}, plain, "hold=True needs ordered=True"),
    "text as a lease": ({"lease_seconds": "5"}, plain, "lease_seconds='5' must be a number between 1 and 86400"),
    "too short a lease": ({"lease_seconds": 0.001}, plain, "lease_seconds=0.001 must be .*: leave it out"),
    "a truth as a lease": ({"lease_seconds": True}, plain, "lease_seconds=True must be a number"),
    "a lease that is no number": ({"lease_seconds": float("nan")}, plain, "lease_seconds=nan must be"),
    "text as a timeout": ({"timeout_seconds": "5"}, plain, "timeout_seconds='5' must be a number above 0"),
    "no time at all": ({"timeout_seconds": 0}, plain, "timeout_seconds=0 must be .*: leave it out for no limit"),
    "endless time": ({"timeout_seconds": float("inf")}, plain, "timeout_seconds=inf must be"),
    "text as a type": ({"payload": "x"}, plain, "'k' has payload='x': give it a type, e.g. a dataclass"),
    "half a type": ({"payload": dict[str, int]}, plain, r"payload=dict\[str, int\]: give it a type"),
    "two arrays in one": ({}, two_sets, "has a parameter that is not JSON .*: use plain types"),
    "an annotation that raises": ({}, misspelt, "has an annotation that cannot be read .*never"),
    "a lambda elsewhere": (
        {"pool": "process"},
        lambda: None,
        "'<lambda>', which another process cannot import: define",
    ),
    "an inner function elsewhere": ({"pool": "process"}, nested(), "is 'nested.<locals>.inner', which another process"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_where_it_is_written(case: str) -> None:
    options, function, says = REFUSED[case]
    inbox = Inbox()
    with pytest.raises(BadSettings, match=says) as refused:
        inbox.handler("k", **options)(function)
    assert "\n" not in str(refused.value)
    assert not inbox.handlers


@pytest.mark.parametrize("kind", [plain, None, b"k", ["k"], 5])
def test_a_kind_that_is_not_text_is_refused(kind: Any) -> None:
    with pytest.raises(BadSettings, match=r'must be text: write @inbox.handler\("send_receipt"\)'):
        Inbox().handler(kind)


def test_an_empty_kind_is_refused() -> None:
    with pytest.raises(BadSettings, match="kind='' has 0 bytes: it must have 1 to 128"):
        Inbox().handler("")(plain)


def test_a_key_may_name_any_field_where_the_payload_is_open_or_one_value() -> None:
    assert Inbox().handler("k", key="a:{y}")(lambda **_fields: None).row(y=1).key == "a:1"
    assert Inbox().handler("k", key="a:{_y[z]}")(lambda _y: None).row(_y={"z": 2}).key == "a:2"
    assert Inbox().handler("k", key="{{a}}:{order_id!s:>3}")(plain).row(order_id=3).key == "{a}:  3"


@dataclass
class Order:
    """What a handler takes as one value."""

    order_id: int
    lines: dict[str, int] = field(default_factory=dict)


class Renamed(msgspec.Struct, rename="camel", tag_field="type", tag="order"):
    """One whose fields have other names in JSON: a key is made of those."""

    order_id: int


class Typed(TypedDict):
    """A dict whose fields are known."""

    order_id: int


class Model:
    """What we ask of a pydantic model."""

    model_fields: ClassVar[dict[str, Any]] = {"order_id": ...}
    model_computed_fields: ClassVar[dict[str, Any]] = {"label": ...}
    model_config: ClassVar[dict[str, Any]] = {}

    @classmethod
    def model_validate_json(cls, _text: str) -> Model:
        return cls()

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"order_id": 5, "label": "five"}


class OpenModel(Model):
    """One that takes whatever it gets."""

    model_config: ClassVar[dict[str, Any]] = {"extra": "allow"}


@pytest.mark.parametrize(
    ("payload", "key", "value", "made"),
    [
        (Order, "{order_id}:{lines[a]}", Order(5, {"a": 2}), "5:2"),
        (Renamed, "{type}:{orderId}", Renamed(5), "order:5"),
        (Typed, "{order_id}", {"order_id": 5}, "5"),
        (Model, "{order_id}:{label}", Model(), "5:five"),
    ],
)
def test_the_key_of_a_payload_type_is_checked_where_it_is_written(
    payload: type[Any], key: str, value: Any, made: str
) -> None:
    def one(order: Any) -> None: ...

    assert Inbox().handler("k", key=key, payload=payload)(one).row(value).key == made
    with pytest.raises(BadSettings, match=r"has key='\{y\}', but it does not take 'y': it takes "):
        Inbox().handler("k", key="{y}", payload=payload)(one)
    if payload is Renamed:
        with pytest.raises(BadSettings, match="it does not take 'order_id': it takes orderId, type"):
            Inbox().handler("k", key="{order_id}", payload=payload)(one)


@pytest.mark.parametrize("payload", [dict, OpenModel])
def test_a_payload_type_whose_fields_are_not_known_may_have_any(payload: type[Any]) -> None:
    Inbox().handler("k", key="{y}", payload=payload)(lambda _order: None)


def test_what_is_at_the_edge_is_taken() -> None:
    edge = {"priority": 100, "max_attempts": 10_000, "lease_seconds": 1, "timeout_seconds": 0.001}
    handler = Inbox().handler("k", key=lambda order_id: f"o{order_id}", ordered=True, hold=True, **edge)(plain)  # type: ignore[arg-type]
    assert handler.row(order_id=7).key == "o7"
    assert Inbox().handler("k", pool="process")(plain).handling.pool == "process"


def test_a_schedule_calls_handlers_and_nothing_else() -> None:
    with pytest.raises(BadSettings, match=r"'nightly' calls <function plain .*>: give it a handler"):
        Inbox().schedule("nightly", "@daily", plain, order_id=7)  # type: ignore[call-overload]


def test_a_schedule_keeps_order_but_cannot_hold() -> None:
    inbox = Inbox()
    kept = inbox.handler("kept", key="k", ordered=True)(plain)
    held = inbox.handler("held", key="k", ordered=True, hold=True)(plain)
    assert inbox.schedule("nightly", "@daily", kept, order_id=7).ordered
    with pytest.raises(BadSettings, match="'held', which has hold=True: a schedule cannot hold"):
        inbox.schedule("weekly", "@weekly", held, order_id=7)


def test_a_tick_that_would_be_in_the_key_of_every_row_is_refused() -> None:
    inbox = Inbox()

    @inbox.handler("hourly", key="at:{hour}")
    def hourly(hour: datetime) -> None: ...

    with pytest.raises(BadSettings, match="has its tick in key='at:2000-01-01T00:00:00Z'"):
        inbox.schedule("hours", "@hourly", hourly, tick_as="hour")


def test_a_field_the_handler_does_not_take_cannot_be_its_tick() -> None:
    inbox = Inbox()
    handler: Handler[..., ..., None] = inbox.handler("k")(plain)
    with pytest.raises(ValueError, match="'k' does not take 'hour': it takes order_id"):
        inbox.schedule("hours", "@hourly", handler, order_id=7, tick_as="hour")


@pytest.mark.one_server
def test_a_handler_is_told_which_tick_it_is_called_for(world: World) -> None:
    inbox, called, heard = Inbox(), threading.Event(), []

    @inbox.handler("tick")
    def tick(at: datetime, team: int) -> None:
        heard.append((at, team))
        called.set()

    inbox.schedule("seconds", "* * * * * *", tick, tick_as="at", team=7)
    assert inbox.schedules["seconds"].payload == {"team": 7}
    with working(world, inbox):
        eventually(called.is_set)
    at, team = heard[0]
    assert (at.utcoffset() is not None, at.microsecond, team) == (True, 0, 7)


def test_a_schedule_is_told_when_in_two_ways() -> None:
    inbox = Inbox()

    @inbox.handler("tick")
    def tick(at: datetime, zone: str = "") -> None: ...

    one = inbox.schedule("one", Cron("@daily", zone="Europe/Berlin", misfire="skip"), tick, at=TICK, zone="north")
    two = inbox.schedule("two", "@daily", tick, zone="Europe/Berlin", misfire="skip", tick_as="at")
    assert (one.payload, two.payload) == ({"zone": "north"}, {})
    assert replace(one, name="two", payload={}) == two
    with pytest.raises(BadSettings, match="goes to one field, not to at, zone"):
        inbox.schedule("three", Cron("@daily"), tick, at=TICK, zone=TICK)


def test_an_inbox_lives_where_it_was_told_or_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_SCHEMA", "elsewhere")
    assert Inbox().schema == "elsewhere"
    assert Inbox(schema="here").schema == "here"
    monkeypatch.delenv("TENURE_SCHEMA")
    assert Inbox().schema == "tenure"


def test_an_inbox_that_moves_takes_the_enqueues_of_its_handlers_along(world: World) -> None:
    inbox = Inbox(schema="nowhere")

    @inbox.handler("work")
    async def work() -> None: ...

    inbox.use_schema(world.schema)
    assert world.status(work.enqueue(world.conn).id) == "pending"


def test_type_checkers_know_every_option_that_a_call_may_change() -> None:
    assert list(Changes.__annotations__) == [field.name for field in fields(Options)]
