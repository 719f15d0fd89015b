"""What webhooks and their guard cannot be, and endpoints that are not there: each is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from shapes.receivers import Receiving, receiving
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.shapes.webhook import Guard, Webhooks
from world import World

pytestmark = pytest.mark.one_server
DAY = 86_400.0


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


@pytest.mark.parametrize(
    "options",
    [
        {"ports": 443},
        {"ports": "443"},
        {"ports": ("443",)},
        {"ports": (70_000,)},
        {"ports": (0,)},
        {"ports": (True,)},
        {"ports": ()},
        {"ports": None},
        {"allow_http": "no"},
        {"allow_http": 1},
        {"allow_networks": (5,)},
        {"allow_networks": (b"\x0a\x00\x00\x01",)},
        {"allow_networks": b"\x0a"},
        {"allow_networks": "10.1.0.0/16"},
        {"allow_networks": None},
    ],
)
def test_a_guard_of_the_wrong_types_is_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(BadSettings, match=name):
        Guard(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"retention_seconds": "30d"},
        {"retention_seconds": None},
        {"retention_seconds": 0},
        {"retention_seconds": 3 * DAY},  # four are always kept
        {"retention_seconds": float("inf")},
        {"guard": "strict"},
        {"guard": Guard},
        {"proxy": 5},
        {"proxy": b"http://egress:1"},
    ],
)
def test_settings_of_webhooks_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(BadSettings, match=name):
        Webhooks(Inbox(), **options)


def test_four_days_of_retention_can_be() -> None:
    Webhooks(Inbox(), retention_seconds=4 * DAY)


def test_an_endpoint_that_does_not_exist_is_named_by_every_verb(world: World, receiver: Receiving) -> None:
    hooks, id = Webhooks(Inbox(schema=world.schema), guard=receiver.guard()), uuid4()
    verbs: list[Callable[[], Any]] = [
        lambda: hooks.rotate(world.conn, id),
        lambda: hooks.set(world.conn, id, "paused"),
        lambda: hooks.test(world.conn, id),
        lambda: hooks.replay(world.conn, id, [uuid4()]),
        lambda: hooks.replay(world.conn, id, []),
    ]
    for verb in verbs:
        with pytest.raises(BadSettings, match=f"there is no endpoint {id}"):
            verb()


def test_an_endpoint_that_is_disabled_is_sent_nothing_and_one_that_waits_for_nothing_is_set(
    world: World, receiver: Receiving
) -> None:
    hooks = Webhooks(Inbox(schema=world.schema), guard=receiver.guard())
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/"), kinds=["*"])
    assert hooks.set(world.conn, made.id, "disabled") == 0
    assert hooks.test(world.conn, made.id) is None
    assert hooks.replay(world.conn, made.id, [uuid4()]) == 0


def test_an_overlap_a_tenant_or_kinds_of_the_wrong_type_are_refused(world: World, receiver: Receiving) -> None:
    hooks = Webhooks(Inbox(schema=world.schema), guard=receiver.guard())
    made = hooks.add(world.conn, tenant="acme", url=receiver.url("/"), kinds=["*"])
    wrong: Any
    for wrong in ("1d", None, True, float("nan"), -1):
        with pytest.raises(BadSettings, match="overlap_seconds"):
            hooks.rotate(world.conn, made.id, overlap_seconds=wrong)
    for wrong in ("\ud800", "a\0", 5, None, "", "ä" * 129):
        with pytest.raises(BadSettings, match="tenant"):
            hooks.add(world.conn, tenant=wrong, url=receiver.url("/"), kinds=["*"])
        with pytest.raises(BadSettings, match="tenant"):
            hooks.send(world.conn, wrong, "order.paid", {})
    for wrong in (None, 5):
        with pytest.raises(BadSettings, match="kinds"):
            hooks.add(world.conn, tenant="acme", url=receiver.url("/"), kinds=wrong)
        with pytest.raises(BadSettings, match="webhooks"):
            hooks.replay(world.conn, made.id, wrong)


def test_a_second_one_of_an_inbox_is_refused_with_its_own_name() -> None:
    inbox = Inbox()
    Webhooks(inbox)
    with pytest.raises(BadSettings, match=r"this inbox has its Webhooks already: make one Webhooks\(inbox\)"):
        Webhooks(inbox)
    assert len(inbox.lifespans) == 1
