"""What is passed by mistake is refused in one sentence that says what to pass, and not from inside."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.errors import BadSettings, InvalidPayload
from tenure.postgres.runner import run
from world import World


@pytest.fixture
def inbox(world: World) -> Inbox:
    """An inbox of this world with one handler."""
    inbox = Inbox(schema=world.schema)

    @inbox.handler("resize", result=True)
    def resize(n: int) -> int:
        return n

    return inbox


@pytest.mark.parametrize("wrong", ["nope", None, 7, object()])
def test_what_is_no_id_of_a_row_has_no_result(world: World, inbox: Inbox, wrong: Any) -> None:
    with pytest.raises(BadSettings, match="is not the id of a row: pass what enqueue answered"):
        inbox.result_blocking(wrong, timeout_seconds=1, url=world.url)


def test_the_answer_of_enqueue_and_a_text_stand_for_the_id(world: World, inbox: Inbox) -> None:
    sent = inbox.handlers["resize"].enqueue(world.conn, n=1)
    for given in (sent, sent.id, str(sent.id)):
        with pytest.raises(TimeoutError):
            inbox.result_blocking(given, timeout_seconds=0.1, url=world.url)  # type: ignore[arg-type]


def test_what_is_no_statement_and_no_row_is_refused(world: World, inbox: Inbox) -> None:
    handler = inbox.handlers["resize"]
    with pytest.raises(TypeError, match=r"'select 1' is not a statement of tenure\.verbs"):
        run(world.conn, "select 1")  # type: ignore[call-overload]
    with pytest.raises(InvalidPayload, match=r"is not a row: pass handler.row\(…\)"):
        run(world.conn, verbs.enqueue_many([handler]))  # type: ignore[list-item]
    with pytest.raises(InvalidPayload, match="key=7 of 'resize' must be text, or a function of the payload"):
        handler.using(key=7).enqueue(world.conn, n=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidPayload, match="delay_seconds='5' must be between 0 and 315576000: a number"):
        handler.using(delay_seconds="5").enqueue(world.conn, n=1)  # type: ignore[arg-type]
    assert world.count("live") == 0


def test_a_result_before_the_commit_says_to_commit(world: World, inbox: Inbox) -> None:
    with psycopg.connect(world.url) as conn:
        sent = inbox.handlers["resize"].enqueue(conn, n=1)
        with pytest.raises(InvalidPayload, match="commit the transaction that sent it"):
            inbox.result_blocking(sent, timeout_seconds=1, url=world.url)


def test_a_timeout_that_is_text_is_refused(world: World, inbox: Inbox) -> None:
    sent = inbox.handlers["resize"].enqueue(world.conn, n=1)
    with pytest.raises(BadSettings, match="timeout_seconds='1' must be a number"):
        inbox.result_blocking(sent, timeout_seconds="1", url=world.url)  # type: ignore[arg-type]


def test_only_context_variables_are_carried(inbox: Inbox) -> None:
    with pytest.raises(BadSettings, match=r"carry\(tenant='x'\) must be a context variable"):
        inbox.carry(tenant="x")  # type: ignore[arg-type]
