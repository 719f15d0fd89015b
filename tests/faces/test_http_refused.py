"""What the web refuses: a start without credentials, headers and names that mean nothing, other sites and proxies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

import warm
from faces.test_http_access import ADMIN, OPERATE, READ, bearer, door
from faces.web_tools import CHANGING, served
from patience import soon
from tenure.errors import BadSettings
from tenure.web.access import Access
from tenure.web.credentials import credentials
from world import World

pytestmark = pytest.mark.one_server


# -- the command


def serve(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`tenure serve`, which is to end by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_WEB")}
    return warm.run("serve", *options, env={**kept, **env})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_on_an_address_that_others_reach_it_refuses_to_start_without_credentials(world: World, host: str) -> None:
    ended = serve("--host", host, TENURE_DATABASE_URL=world.url, TENURE_SCHEMA=world.schema)
    assert ended.returncode == 78
    assert "TENURE_WEB_TOKEN" in ended.stderr
    assert "--insecure" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(world: World, missing: str) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules[{missing!r}] = None; import tenure.cli as c; c.main()",
            "serve",
        ],
        env={**os.environ, "TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, 'pip install "tenure[web]"' in ended.stderr) == (78, True)
    assert len(ended.stderr.strip().splitlines()) == 1


def test_it_refuses_another_schema_with_the_command_that_helps(world: World) -> None:
    ended = serve(TENURE_DATABASE_URL=world.url, TENURE_SCHEMA="nothing_here")
    assert (ended.returncode, "run `tenure migrate" in ended.stderr) == (78, True)


def test_the_header_of_changes_is_needed_with_a_token_too(world: World) -> None:
    with served(world, access=door()) as web:
        assert web.headers["x-tenure"] == CHANGING["x-tenure"]
        web.headers.pop("x-tenure")
        assert web.post("/api/queues/q/pause", headers=bearer(ADMIN)).status_code == 403


# -- what is refused without a stumble


@pytest.mark.parametrize("path", ["/static/%00.js", f"/static/{'n' * 300}.js", f"/static/{'n/' * 3000}a.js"])
def test_a_name_that_no_file_can_have_is_404(world: World, path: str) -> None:
    with served(world) as web:
        assert web.get(path).status_code == 404


def test_headers_that_mean_nothing_are_refused_and_no_bug(world: World) -> None:
    with served(world, access=door()) as web:
        broken = {**bearer(ADMIN), "origin": "http://["}
        assert web.post("/api/queues/q/pause", headers=broken).status_code == 403
        for value in ("Basic ümläut", "Basic /////w==", "Bearer ümläut", "Bearer"):
            assert web.get("/api/me", headers={b"authorization": value.encode()}).status_code == 401, value


@pytest.mark.parametrize("header", ["via", "x-forwarded-proto", "x-forwarded-for", "forwarded", "x-real-ip"])
def test_what_came_through_a_proxy_is_not_local(world: World, header: str) -> None:
    with served(world) as web:
        assert web.get("/api/me").status_code == 200
        assert web.get("/api/me", headers={header: "1.1 proxy"}).status_code == 403


@pytest.mark.parametrize(("version", "status"), [("1.1", b"200"), ("1.0", b"403")])
def test_a_proxy_that_says_nothing_is_known_by_its_old_http(world: World, version: str, status: bytes) -> None:
    with served(world) as web, socket.create_connection(("127.0.0.1", web.base_url.port or 0)) as plain:
        plain.sendall(f"GET /api/me HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert plain.recv(100).split()[1] == status


def test_pages_of_another_site_get_no_answer_to_embed(world: World) -> None:
    with served(world) as web:
        for path in ("/api/rows", "/metrics", "/api/me"):
            assert web.get(path, headers={"sec-fetch-site": "cross-site"}).status_code == 403
            assert web.get(path, headers={"sec-fetch-site": "same-origin"}).status_code == 200
            assert web.get(path).headers["cross-origin-resource-policy"] == "same-origin"
        assert web.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_an_app_it_is_mounted_in_may_refuse_in_its_own_words(world: World) -> None:
    def who(_request: Request) -> Access | None:
        raise HTTPException(429, "too many of you", {"retry-after": "7"})

    with served(world, access=who) as web:
        answer = web.get("/api/me")
        assert (answer.status_code, answer.json(), answer.headers["retry-after"]) == (
            429,
            {"error": "too many of you"},
            "7",
        )


def test_a_cookie_counts_where_the_header_is_meant_for_somebody_else(world: World) -> None:
    with served(world, access=door()) as web:
        assert web.get("/api/me", headers=bearer(READ)).json()["logged_in"] is False
        web.post("/api/login", json={"token": OPERATE})
        me = web.get("/api/me", headers={"authorization": "Basic cHJveHk6cHJveHk="}).json()
        assert (me["actor"], me["logged_in"]) == ("bob", True)
        assert web.get("/api/me", headers=bearer(READ)).json()["actor"] == "ann"


def test_a_token_that_no_header_can_carry_is_refused_at_the_start() -> None:
    for given in (("pässwört-pässwört", None, None), (None, "ann:read:pässwört-pässwört", None)):
        with pytest.raises(BadSettings, match="ASCII"):
            credentials(*given)
    assert credentials(None, None, "ann:read:pässwört-pässwört")


def test_a_name_of_megabytes_is_refused_in_a_short_sentence_and_at_once(world: World) -> None:
    with served(world) as web:
        began = time.monotonic()
        refused = web.post("/api/rows", json={"kind": "k", "x" * 2_000_000: 1})
        assert (refused.status_code, len(refused.json()["error"]) < 200) == (400, True)
        assert time.monotonic() - began < soon(2.0)
