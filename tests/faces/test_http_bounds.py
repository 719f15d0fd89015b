"""Nobody takes everything: streams and questions have limits for each actor, and a request's words move nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from crew import eventually
from faces.web_tools import CHANGING, served
from tenure.web import feed
from tenure.web import store as storing
from tenure.web.credentials import Credentials, credentials
from world import World

pytestmark = pytest.mark.one_server

ANN, BOB = {"authorization": "Bearer ann-ann-ann"}, {"authorization": "Bearer bob-bob-bob"}


def door() -> Credentials:
    found = credentials(None, "ann:read:ann-ann-ann,bob:read:bob-bob-bob", None)
    assert found is not None
    return found


@pytest.fixture
def web(world: World) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=None)
    with (
        served(world, access=door()) as client,
        httpx.Client(base_url=client.base_url, headers=CHANGING, timeout=120, limits=limits) as free,
    ):
        yield free


def test_one_actor_cannot_take_all_streams(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "STREAMS_EACH_MAX", 3, raising=False)
    monkeypatch.setattr(feed, "STREAMS_MAX", 4)
    opened: list[Iterator[bytes]] = []
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            opened.append(stack.enter_context(web.stream("GET", "/api/events", headers=ANN)).iter_raw())
            next(opened[-1])
        assert _status(web, ANN) == 429
        opened.append(stack.enter_context(web.stream("GET", "/api/events", headers=BOB)).iter_raw())
        assert b"retry" in next(opened[-1])
        assert _status(web, BOB) == 503, "all are taken"
    eventually(lambda: _status(web, ANN) == 200)  # those that were closed make room


def _status(web: httpx.Client, who: dict[str, str]) -> int:
    """How one more stream is answered."""
    with web.stream("GET", "/api/events", headers=who) as stream:
        return stream.status_code


def test_one_actor_cannot_take_all_questions(world: World, web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """While ann's questions are stuck behind a lock, bob is answered: his asks for another table."""
    monkeypatch.setattr(storing, "SLOT_SECONDS", 1.0)
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure serve' AND wait_event_type = 'Lock'"
    )
    locking = world.connect()
    with locking.transaction():
        locking.execute("LOCK TABLE live IN ACCESS EXCLUSIVE MODE")
        answers: list[int] = []
        asking = [
            threading.Thread(target=lambda: answers.append(web.get("/api/rows", headers=ANN).status_code))
            for _ in range(20)
        ]
        for each in asking:
            each.start()
        eventually(lambda: world.sql(waiting)[0][0] >= 6)
        time.sleep(0.5)  # the others wait for a permit
        assert web.get("/api/audit", headers=BOB).status_code == 200
    for each in asking:
        each.join(120)
    assert len(answers) == 20


@pytest.mark.parametrize("name", ["proto", "host", "prefix", "port", "server", "ssl", "user"])
def test_no_word_of_a_proxy_that_nobody_trusts_is_heard(world: World, name: str) -> None:
    header = {f"x-forwarded-{name}": "https"}
    with served(world) as open:
        assert open.get("/api/me", headers=header).status_code == 403
    with served(world, access=door()) as web:
        answer = web.post("/api/login", json={"token": "ann-ann-ann"}, headers=header)
        assert (answer.status_code, "secure" in answer.headers["set-cookie"].lower()) == (204, False)


def test_behind_https_the_cookie_is_for_https_because_the_browser_says_so(world: World) -> None:
    with served(world, access=door()) as web:
        host = web.base_url.netloc.decode()
        answer = web.post("/api/login", json={"token": "ann-ann-ann"}, headers={"origin": f"https://{host}"})
        assert (answer.status_code, "secure" in answer.headers["set-cookie"].lower()) == (204, True)


@pytest.mark.parametrize(
    ("prefix", "path", "location"),
    [
        ("", "/rows/?n=5", "/rows?n=5"),
        ("", "/api/rows/", "/api/rows"),
        ("/ops", "", "/ops/"),
        ("/ops", "/rows/", "/ops/rows"),
        ("", "//evil.example/rows/", None),
        ("", "//evil.example/", None),
        ("", "/nothing/", None),
    ],
)
def test_a_slash_too_many_leads_to_the_same_server_whatever_name_it_was_asked_by(
    world: World, prefix: str, path: str, location: str | None
) -> None:
    with served(world, prefix=prefix) as web:
        address = f"{str(web.base_url).rstrip('/')}{path}"
        answer = httpx.get(address, headers={"host": "evil.example"}, timeout=120)
        assert (answer.status_code, answer.headers.get("location")) == ((307, location) if location else (404, None))
