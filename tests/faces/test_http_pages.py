"""Pages and files over HTTP: below any prefix, in any app, and nothing that is not the dashboard's."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import tenure.web
from faces.web_tools import CHANGING, running, said, served
from tenure.errors import BadSettings
from world import World

pytestmark = pytest.mark.one_server

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


# -- pages and prefixes


@pytest.mark.parametrize("prefix", ["", "/tenure", "/ops/queue"])
def test_below_any_prefix_pages_files_and_api_are_found(world: World, prefix: str) -> None:
    with served(world, prefix=prefix) as web:
        for path in ("/", "/rows", "/rows/some-id", "/workers", "/ring", "/dead", "/queues", "/audit"):
            page = web.get(path)
            assert page.status_code == 200
            assert f'<base href="{prefix}/">' in page.text
            assert "script-src 'self'" in page.headers["content-security-policy"]
        assert web.get("/static/app.js").headers["content-type"].startswith("text/javascript")
        assert said(web.get("/api/me"))["prefix"] == prefix
        assert said(web.get("/api/openapi.json"))["servers"] == [{"url": prefix or "/"}]


@pytest.mark.parametrize("prefix", ["", "/ops/queue"])
@pytest.mark.parametrize("path", ["/nope", "/schedules/x", "/workers/x", "/rows/a/b", "/drills", "/nope.html", "/apis"])
def test_a_browser_at_no_page_gets_the_shell_with_404_and_everybody_else_a_sentence(
    world: World, prefix: str, path: str
) -> None:
    with served(world, prefix=prefix) as web:
        page = web.get(path, headers={"accept": BROWSER})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert page.text == web.get("/").text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["vary"] == "accept"
        for accept in ("*/*", "application/json", "text/html-not", ""):
            assert "there is nothing at" in said(web.get(path, headers={"accept": accept}), 404)["error"], accept
        assert said(web.request("BREW", path, headers={"accept": BROWSER}), 404)["error"]


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nope", "/static/nope.js", "/health/nope", "/metrics/nope"])
def test_what_is_no_page_is_refused_in_a_sentence_to_a_browser_too(world: World, path: str) -> None:
    with served(world, prefix="/ops") as web:
        assert "there is nothing at" in said(web.get(path, headers={"accept": BROWSER}), 404)["error"]


def test_in_somebody_elses_app_it_opens_by_itself_and_gives_back_when_their_lifespan_ends(world: World) -> None:
    mine = tenure.web.app(database_url=world.url, schema=world.schema, access=tenure.web.local)
    theirs = Starlette(routes=[Mount("/jobs", mine)], lifespan=lambda _: tenure.web.lifespan(mine))
    theirs.state.site = mine.state.site
    with running(theirs) as address:
        assert said(httpx.get(f"{address}/jobs/api/queues", timeout=120)) == {"queues": []}
        assert httpx.get(f"{address}/jobs", timeout=120).next_request is not None
        assert mine.state.site.store.open == 1
    assert mine.state.site.store.open == 0


@pytest.mark.parametrize(
    "path", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "nothing.js", "", "vendor", "/etc/hostname"]
)
def test_no_file_but_the_dashboards_own_is_served(world: World, path: str) -> None:
    with served(world) as web:
        assert web.get(f"/static/{path}").status_code == 404


def test_a_file_that_has_not_changed_is_not_sent_again(world: World) -> None:
    with served(world) as web:
        etag = web.get("/static/app.js").headers["etag"]
        assert web.get("/static/app.js", headers={"if-none-match": etag}).status_code == 304


def test_every_answer_names_its_request_and_keeps_browsers_strict(world: World) -> None:
    with served(world) as web:
        for path in ("/api/me", "/api/nothing", "/", "/health/live"):
            answer = web.get(path, headers={"x-request-id": "abc-1"})
            assert answer.headers["x-request-id"] == "abc-1"
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert web.get("/api/me").headers["cache-control"] == "no-store"
        refused = web.patch("/api/rows")
        assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
        assert refused.json()["error"]


def test_an_app_without_a_database_or_without_access_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TENURE_WEB_TOKEN", "TENURE_WEB_TOKENS", "TENURE_WEB_USERS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSettings, match="no credentials"):
        tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x")
    monkeypatch.delenv("TENURE_DATABASE_URL", raising=False)
    with pytest.raises(BadSettings, match="no database"):
        tenure.web.app(access=tenure.web.local)


def test_the_header_that_no_form_can_send_is_needed_for_every_change(world: World) -> None:
    with served(world) as web:
        del web.headers["x-tenure"]
        assert web.post("/api/rows", json={"kind": "k"}).status_code == 403
        elsewhere = {**CHANGING, "origin": "https://evil.example"}
        assert web.post("/api/rows", json={"kind": "k"}, headers=elsewhere).status_code == 403
        own = {**CHANGING, "origin": str(web.base_url).rstrip("/")}
        assert web.post("/api/rows", json={"kind": "k"}, headers=own).status_code == 201
    assert world.count("live") == 1
