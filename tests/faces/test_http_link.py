"""The door that opens by a link: good once, for one browser, and its session ends on the server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import tenure.web
from crew import eventually
from faces.serving import Serving
from faces.web_tools import CHANGING, running
from tenure.console.browser import browsing
from tenure.web.by_link import SESSIONS_MAX, ByLink
from world import World

pytestmark = pytest.mark.one_server
UID = 54321


class Dashboard:
    """An app behind such a door, and the links it has told of."""

    def __init__(self, address: str, door: ByLink, tokens: list[str]) -> None:
        self.address, self.door, self.tokens = address, door, tokens

    def link(self, n: int = -1) -> str:
        return f"/?link={self.tokens[n]}"

    def browser(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.address, headers=CHANGING, timeout=120, **options)


@contextlib.contextmanager
def opened(world: World, prefix: str = "", **options: Any) -> Iterator[Dashboard]:
    tokens: list[str] = []
    door = ByLink("tenure dev", tokens.append)
    tokens.append(door.token())
    app = tenure.web.app(database_url=world.url, schema=world.schema, access=door, **options)
    with running(app, prefix) as address:
        yield Dashboard(address, door, tokens)


@pytest.fixture
def dashboard(world: World) -> Iterator[Dashboard]:
    with opened(world) as made:
        yield made


def status(web: httpx.Client) -> int:
    return web.get("/api/me").status_code


def test_a_link_lets_one_browser_in_once_and_the_next_one_another(dashboard: Dashboard) -> None:
    with dashboard.browser() as first, dashboard.browser() as second, dashboard.browser() as third:
        answer = first.get(dashboard.link())
        assert (answer.status_code, answer.headers["location"], answer.headers["cache-control"]) == (
            303,
            "/",
            "no-store",
        )
        assert (first.get("/api/me").json()["actor"], first.get("/api/me").json()["role"]) == ("local", "admin")
        assert len(dashboard.tokens) == 2
        used = second.get(dashboard.link(0))
        assert (used.status_code, used.headers.get("set-cookie"), status(second)) == (303, None, 401)
        assert second.get(dashboard.link(1)).status_code == 303
        assert (status(first), status(second), status(third)) == (200, 200, 401)


def test_without_one_the_answer_says_what_to_open(dashboard: Dashboard) -> None:
    with dashboard.browser() as web:
        assert web.get("/").status_code == 200
        refused = web.get("/api/overview")
        assert (refused.status_code, refused.json()["door"]) == (401, "link")
        assert refused.json()["error"].endswith("open the one that `tenure dev` printed last")
        assert web.post("/api/login", json={"token": "a guess of mine"}).status_code == 404
        assert web.get("/?link=").headers.get("set-cookie") is None


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"sec-purpose": "prefetch;prerender"}),
        ("GET", {"purpose": "prefetch"}),
        ("GET", {"x-purpose": "preview"}),
        ("GET", {"x-moz": "prefetch"}),
        ("GET", {"host": "evil.example"}),
        ("GET", {"x-forwarded-for": "192.0.2.7"}),
        ("POST", {}),
    ],
)
def test_who_only_looks_ahead_does_not_use_it_up(dashboard: Dashboard, method: str, headers: dict[str, str]) -> None:
    with dashboard.browser() as web:
        looked = web.request(method, dashboard.link(), headers=headers)
        assert looked.headers.get("set-cookie") is None
        assert web.get(dashboard.link()).status_code == 303
        assert status(web) == 200


def test_it_works_on_every_page_and_below_a_prefix_and_keeps_the_rest_of_the_address(world: World) -> None:
    with opened(world, "/ops") as dashboard, dashboard.browser() as web:
        answer = web.get(f"/rows?filter=kind:a%20b&{dashboard.link()[2:]}&n=5")
        assert answer.headers["location"] == "/ops/rows?filter=kind%3Aa+b&n=5"
        cookie = answer.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/ops"))
        assert dashboard.tokens[0] not in answer.headers["set-cookie"]
        assert status(web) == 200


def test_logout_ends_the_session_on_the_server(dashboard: Dashboard) -> None:
    with dashboard.browser() as web, dashboard.browser() as thief, dashboard.browser() as other:
        web.get(dashboard.link())
        other.get(dashboard.link())
        thief.cookies.update(web.cookies)
        assert (status(web), status(thief)) == (200, 200)
        assert web.get("/api/me").json()["logged_in"] is True
        assert web.post("/api/logout").status_code == 204
        assert not web.cookies
        assert (status(web), status(thief), status(other)) == (401, 401, 200)
        assert thief.post("/api/logout").status_code == 204


def test_two_dashboards_of_one_machine_do_not_log_each_other_out(world: World) -> None:
    with opened(world) as one, opened(world) as two, httpx.Client(headers=CHANGING, timeout=120) as web:
        for each in (one, two):
            assert web.get(f"{each.address}{each.link()}").status_code == 303
        assert [web.get(f"{each.address}/api/me").status_code for each in (one, two)] == [200, 200]
        assert len({name.removeprefix("tenure-") for name in web.cookies}) == 2
        web.post(f"{two.address}/api/logout")
        assert [web.get(f"{each.address}/api/me").status_code for each in (one, two)] == [200, 401]


def test_the_oldest_of_too_many_sessions_ends(dashboard: Dashboard) -> None:
    with contextlib.ExitStack() as stack:
        browsers = [stack.enter_context(dashboard.browser()) for _ in range(SESSIONS_MAX + 1)]
        for web in browsers:
            web.get(dashboard.link())
        assert [status(browsers[n]) for n in (0, 1, -1)] == [401, 200, 200]


def test_neither_tokens_nor_sessions_are_kept(dashboard: Dashboard) -> None:
    with dashboard.browser() as web:
        web.get(dashboard.link())
        kept = repr(vars(dashboard.door))
        secrets = [*dashboard.tokens, *web.cookies.values()]
        assert not [secret for secret in secrets if secret in kept]


def test_whoever_came_by_a_link_may_play_drills(world: World) -> None:
    with opened(world, drills=True) as dashboard, dashboard.browser() as web:
        assert web.get("/api/drills").status_code == 401
        assert web.post("/api/stage", json={}).status_code == 401
        web.get(dashboard.link())
        stage = web.post("/api/stage", json={})
        assert stage.status_code == 201
        assert web.delete(f"/api/stage/{stage.json()['id']}").status_code == 204


def test_tenure_serve_prints_a_link_and_after_each_use_the_next(world: World) -> None:
    server = Serving(world, "--port", "0", "--prefix", "ops", TENURE_WEB_TOKEN="")
    try:
        address, _, token = server.address.partition("/?link=")
        assert server.said[-1].endswith("  (good once; Ctrl-C ends this)")
        with httpx.Client(base_url=address, timeout=120) as web:
            assert web.get(f"/?link={token}").headers["location"] == "/ops/"
            assert status(web) == 200
        assert server.process.stderr is not None
        said = server.process.stderr.readline()
        assert said.startswith(f"the next link, good once: {address}/?link=")
        assert token not in said
    finally:
        server.process.kill()
        server.process.wait(90)


# -- the browser


def test_the_browser_is_given_a_file_that_only_its_owner_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(webbrowser, "open", given.append)
    monkeypatch.setenv("DISPLAY", ":0")
    with browsing("http://127.0.0.1:7117/?link=abc&x=1") as opens:
        assert opens
        eventually(lambda: given)
        file = Path(given[0].removeprefix("file://"))
        assert "abc" not in given[0]
        assert "url=http://127.0.0.1:7117/?link=abc&amp;x=1" in file.read_text()
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        if os.geteuid() == 0:
            reading = ["cat", str(file)]
            assert subprocess.run(reading, user=UID, group=UID, extra_groups=[], capture_output=True).returncode != 0
    assert not file.parent.exists()


def test_where_there_is_no_screen_or_nobody_wants_it_no_browser_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _address: pytest.fail("it was opened"))
    monkeypatch.setenv("DISPLAY", ":0")
    with browsing("http://127.0.0.1:7117/", wanted=False) as opens:
        assert not opens
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with browsing("http://127.0.0.1:7117/") as opens:
        assert not opens
