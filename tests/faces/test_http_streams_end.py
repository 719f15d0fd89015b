"""Who has a stream open is asked again: a revoked or expired token and a logout end it, a silent database does not."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

from crew import eventually
from faces.stage_tools import Log, opened
from faces.test_http_tokens import NOBODY, made, tenure
from faces.web_tools import CHANGING, TOKEN, Stream, served
from tenure.web import Access, again
from tenure.web.credentials import credentials
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_SECONDS", 0.5)


@pytest.mark.parametrize("how", ["revoke", "expire"])
def test_a_token_that_ends_takes_its_streams_with_it(world: World, how: str) -> None:
    ci, other = made(world, "ci"), made(world, "other")
    with (
        served(world, access=NOBODY) as client,
        httpx.Client(base_url=client.base_url, headers=other, timeout=120) as second,
    ):
        client.headers.update(ci)
        stream, stays = Stream(client), Stream(second)
        stream.saw("tick")
        if how == "revoke":
            tenure(world, "revoke", "ci")
        else:
            world.sql("UPDATE tokens SET expires_at = clock_timestamp() WHERE name = 'ci'")
        eventually(stream.ended.is_set)
        stays.saw("tick", len(stays.of("tick")) + 2)
        assert not stays.ended.is_set()


def test_a_logout_ends_the_streams_of_its_session(world: World) -> None:
    with served(world, access=credentials(TOKEN, None, None)) as client:
        assert client.post("/api/login", json={"token": TOKEN}).status_code == 204
        stream = Stream(client)
        stream.saw("tick")
        with httpx.Client(base_url=client.base_url, headers=CHANGING, cookies=client.cookies, timeout=120) as tab:
            assert tab.post("/api/logout").status_code == 204
        eventually(stream.ended.is_set)


def test_a_token_that_ends_takes_its_streams_of_a_stage_with_it(world: World) -> None:
    ci = made(world, "ci")
    with served(world, drills=True) as client, httpx.Client(base_url=client.base_url, headers=ci) as looking:
        log = Log(looking, opened(client))
        log.saw("said")
        tenure(world, "revoke", "ci")
        eventually(log.ended.is_set)


def test_a_stream_stays_open_while_nobody_can_say_who_asks(world: World) -> None:
    answers: list[Any] = [Access("ann", "read")]
    asked: list[Any] = []

    async def who(_request: Any) -> Access | None:
        asked.append(answers[-1])
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]  # type: ignore[no-any-return]

    with served(world, access=who) as client:
        stream = Stream(client)
        stream.saw("tick")
        answers.append(psycopg.OperationalError("the server closed the connection"))
        eventually(lambda: asked.count(answers[-1]) >= 2)
        assert not stream.ended.is_set()
        answers.append(Access("ann", "read", queues=frozenset({"mail"})))
        eventually(stream.ended.is_set)
