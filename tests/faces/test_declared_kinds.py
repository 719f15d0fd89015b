"""`tenure enqueue` and HTTP go by what the handlers declared, and say what they cannot know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crew import working
from faces.test_acting_commands import call
from faces.web_tools import served
from tenure import Inbox
from tenure.cli import enqueue
from tenure.errors import InvalidPayload
from tenure.events import JobCompleted
from tenure.model.declaration import Declaration
from tenure.verbs import kinds
from world import World

pytestmark = pytest.mark.one_server
MAIL = Declaration("receipt", "mail", "by_template", "order:{order_id}", True, False, 7, 3)


def _rows(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT queue, partition_key, ordered, priority, max_attempts FROM live ORDER BY seq")


def test_a_row_sent_from_the_command_line_is_run_by_its_handler(world: World) -> None:
    """It landed in queue default, where no worker looked for it."""
    inbox = Inbox()

    @inbox.handler("receipt", queue="mail", key="order:{order_id}")
    def receipt(order_id: int) -> None: ...

    with working(world, inbox) as hired:
        call(world, enqueue.command, "receipt", '{"order_id": 9182}')
        hired.saw(JobCompleted)
    assert world.sql("SELECT queue, partition_key FROM archive") == [("mail", "order:9182")]


def test_the_command_line_goes_by_the_declaration_and_what_is_given_goes_first(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    assert call(world, enqueue.command, "receipt", '{"order_id": 1}').stderr == ""
    call(
        world, enqueue.command, "receipt", "{}", "--key", "k", "--queue", "q", "--priority", "1", "--max-attempts", "2"
    )
    call(world, enqueue.command, "receipt", '{"order_id": 1}', "--not-ordered")
    assert _rows(world) == [("mail", "order:1", True, 7, 3), ("q", "k", True, 1, 2), ("mail", "order:1", False, 7, 3)]


def test_every_line_of_a_file_has_its_own_key_and_a_hint_is_told_once(world: World, tmp_path: Path) -> None:
    world.run(kinds.declare("A", [MAIL._replace(ordered=False)]))
    file = tmp_path / "rows.jsonl"
    file.write_text('{"order_id": 1}\n{"order_id": "two"}\n{}\n{}\n')
    said = call(world, enqueue.command, "receipt", "--from", str(file))
    assert [key for _, key, *_ in _rows(world)] == ["order:1", "order:two", None, None]
    assert said.stderr.count("the key of 'receipt' cannot be made from 'order:{order_id}'") == 1


def test_it_says_what_it_cannot_know(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    with pytest.raises(InvalidPayload, match=r"'receipt' keeps its rows in order.*order:\{order_id\}.*give the key"):
        call(world, enqueue.command, "receipt", "{}")
    unheard = call(world, enqueue.command, "unheard", "{}")
    assert unheard.stderr == "tenure: no worker has declared kind 'unheard' yet: the row goes to queue 'default'\n"
    assert call(world, enqueue.command, "unheard", "{}", "--queue", "q").stderr == ""
    world.run(kinds.declare("B", [Declaration("k", "v1")]))
    world.run(kinds.declare("C", [Declaration("k", "v2")]))
    assert "was also declared for queue 'v1': the row goes to queue 'v2'" in call(world, enqueue.command, "k").stderr


def test_http_goes_by_the_declaration_and_answers_with_a_hint(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    with served(world) as client:
        one = client.post("/api/rows", json={"kind": "receipt", "payload": {"order_id": 1}})
        assert (one.status_code, set(one.json())) == (201, {"id", "outcome"})
        given = {"key": "k", "queue": "q", "priority": 1, "max_attempts": 2, "ordered": False}
        assert client.post("/api/rows", json={"kind": "receipt", **given}).status_code == 201
        unknown = client.post("/api/rows", json={"kind": "receipt", "payload": {}})
        assert unknown.status_code == 400
        assert "give the key" in unknown.json()["error"]
        assert "no worker has declared" in client.post("/api/rows", json={"kind": "unheard"}).json()["hint"]
    assert _rows(world)[:2] == [("mail", "order:1", True, 7, 3), ("q", "k", False, 1, 2)]


BAD = {
    b'{"order_id": "\xff"}': "must be JSON in UTF-8",
    b'{"order_id": 1, "x": 1e400}': "is 1e400, ",
    b'{"order_id": 1%s}' % (b"0" * 5000): "a number of more than 4000 digits",
    b'{"order_id": "\\ud800"}': "error",  # over HTTP, the body of this and the next cannot be read at all
    b'{"order_id": %s1%s}' % (b"[" * 3000, b"]" * 3000): "error",
}


@pytest.mark.parametrize("kind", ["receipt", "pay", "unheard"])
def test_a_payload_that_cannot_be_kept_is_refused_in_one_sentence_whatever_was_declared(
    world: World, kind: str
) -> None:
    world.run(kinds.declare("A", [MAIL, Declaration("pay", encrypted=True)]))
    with served(world) as client:
        for payload, why in BAD.items():
            body = b'{"kind": "%s", "payload": %s}' % (kind.encode(), payload)
            answer = client.post("/api/rows", content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, why in answer.text) == (400, True), (payload[:30], answer.text[:200])


@pytest.mark.parametrize("kind", ["receipt", "pay", "unheard"])
def test_the_command_line_refuses_such_a_payload_as_an_argument_and_in_a_file(
    world: World, tmp_path: Path, kind: str
) -> None:
    world.run(kinds.declare("A", [MAIL, Declaration("pay", encrypted=True)]))
    file = tmp_path / "rows.jsonl"
    for payload in BAD:
        file.write_bytes(payload + b"\n")
        with pytest.raises(InvalidPayload, match="line 1: "):
            call(world, enqueue.command, kind, "--from", str(file))
        if b"\xff" not in payload:
            with pytest.raises(InvalidPayload):
                call(world, enqueue.command, kind, payload.decode())


def test_a_key_is_made_of_a_number_with_all_its_digits(world: World) -> None:
    world.run(kinds.declare("A", [MAIL]))
    call(world, enqueue.command, "receipt", f'{{"order_id": {"7" * 400}}}')
    assert _rows(world)[0][1] == f"order:{'7' * 400}"
