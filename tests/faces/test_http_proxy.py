"""Identity from a trusted proxy: its word counts, anybody else's does not, and that is told once."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import Request

import tenure.web
from faces.web_tools import CHANGING, running, said
from tenure import operate
from tenure.errors import BadSettings
from tenure.web.peer import Trusted, address_of, is_https
from world import World

pytestmark = pytest.mark.one_server
ANN = {"x-forwarded-user": "ann@example.com", "x-forwarded-groups": "dev, sre"}
SECRET = "a-secret-of-the-proxy"


@contextmanager
def behind(world: World, monkeypatch: pytest.MonkeyPatch, **settings: str) -> Iterator[httpx.Client]:
    for name, value in {"GROUPS": "sre=admin+reveal,dev=operate", **settings}.items():
        monkeypatch.setenv(f"TENURE_WEB_{name}", value)
    app = tenure.web.app(database_url=world.url, schema=world.schema)
    with running(app) as address, httpx.Client(base_url=address, headers=CHANGING, timeout=120) as client:
        yield client


def test_a_trusted_proxy_says_who_asks_and_the_highest_of_their_groups_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind(world, monkeypatch, PROXY="10.0.0.0/8, 127.0.0.1") as client:
        me = said(client.get("/api/me", headers=ANN))
        assert (me["actor"], me["role"], me["reveal"]) == ("ann@example.com", "admin", True)
        bob = {"x-forwarded-user": "bob", "x-forwarded-groups": "dev"}
        me = said(client.get("/api/me", headers=bob))
        assert (me["role"], me["reveal"], me["payloads"]) == ("operate", False, "hidden")
        assert said(client.post("/api/queues/mail/pause", headers=bob))["changed"]
        assert "no role here" in said(client.get("/api/me", headers={"x-forwarded-user": "eve"}), 403)["error"]
        assert client.get("/api/me").status_code == 401
        for bad in ("", "a\tb", "é" * 101):
            header = {b"x-forwarded-user": bad.encode("latin-1")}
            assert client.get("/api/me", headers=header).status_code == 400, bad
        twice = [("x-forwarded-user", "ann"), ("x-forwarded-user", "root"), ("x-forwarded-groups", "sre")]
        assert client.get("/api/me", headers=twice).status_code == 400
    assert world.run(operate.audit(1))[0].actor == "bob"


def test_headers_from_any_other_address_are_ignored_and_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tenure.web"), behind(world, monkeypatch, PROXY="10.0.0.7") as client:
        for _ in range(3):
            assert client.get("/api/me", headers=ANN).status_code == 401
            assert client.post("/api/queues/mail/pause", headers=ANN).status_code == 401
    told = [record.getMessage() for record in caplog.records if "trusted proxy" in record.getMessage()]
    assert told == [
        "127.0.0.1 sent x-forwarded-user and is no trusted proxy: it is ignored, and this is not told again"
    ]


@pytest.mark.parametrize(
    ("settings", "sent", "status"),
    [
        ({"PROXY_SECRET": SECRET}, SECRET, 200),
        ({"PROXY_SECRET": SECRET}, SECRET + "x", 401),
        ({"PROXY_SECRET": SECRET}, None, 401),
        ({"PROXY_SECRET": SECRET, "PROXY": "127.0.0.1"}, SECRET, 200),
        ({"PROXY_SECRET": SECRET, "PROXY": "127.0.0.1"}, None, 401),
        ({"PROXY_SECRET": SECRET, "PROXY": "10.0.0.7"}, SECRET, 401),
    ],
)
def test_a_proxy_is_known_by_a_secret_too_and_by_both_where_both_are_set(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], sent: str | None, status: int
) -> None:
    with behind(world, monkeypatch, **settings) as client:
        shown = {} if sent is None else {"x-tenure-proxy-secret": sent}
        assert client.get("/api/me", headers={**ANN, **shown}).status_code == status


def test_the_headers_have_the_names_that_the_settings_give(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"PROXY": "127.0.0.1", "PROXY_USER": "X-Email", "PROXY_GROUPS": "X-Teams"}
    with behind(world, monkeypatch, **names) as client:
        assert client.get("/api/me", headers=ANN).status_code == 401
        assert said(client.get("/api/me", headers={"x-email": "ann", "x-teams": "sre"}))["role"] == "admin"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"PROXY": "everybody"}, "no address and no network"),
        ({"PROXY": "127.0.0.1", "GROUPS": ""}, "which group has which role"),
        ({"PROXY": "127.0.0.1", "GROUPS": "sre"}, "must be group=role"),
        ({"PROXY": "127.0.0.1", "GROUPS": "sre=root"}, "choose read, operate, admin"),
        ({"PROXY_SECRET": "short"}, "16 ASCII characters"),
        ({"PROXY": "127.0.0.1", "PROXY_USER": "a b"}, "name of a header"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], why: str
) -> None:
    with pytest.raises(BadSettings, match=why), behind(world, monkeypatch, **settings):
        pass


def asked(peer: str, proxy: Any, **headers: str) -> Request:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    site = type("Site", (), {"proxy": type("P", (), {"trusted": proxy})()})
    app = type("App", (), {"state": type("S", (), {"site": site})()})()
    scope = {"type": "http", "client": (peer, 1), "headers": sent, "app": app, "scheme": "http", "path": "/"}
    return Request({**scope, "server": ("x", 80), "query_string": b""})


def test_a_trusted_proxy_says_address_and_scheme_and_nobody_else_does() -> None:
    proxy = Trusted.read("10.0.0.0/8", "")
    said = {"x_forwarded_for": "6.6.6.6, 1.2.3.4, 10.0.0.9", "x_forwarded_proto": "https"}
    assert address_of(asked("10.0.0.7", proxy, **said)) == "1.2.3.4"
    assert is_https(asked("10.0.0.7", proxy, **said))
    assert address_of(asked("9.9.9.9", proxy, **said)) == "9.9.9.9"
    assert not is_https(asked("9.9.9.9", proxy, **said))
    assert address_of(asked("::ffff:10.0.0.7", proxy, **said)) == "1.2.3.4"
    assert address_of(asked("10.0.0.7", proxy, x_forwarded_for="nonsense")) == "10.0.0.7"
    assert address_of(asked("10.0.0.7", proxy)) == "10.0.0.7"


def test_where_a_group_has_the_right_to_see_payloads_no_entry_without_it_sees_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = world.enqueue("k", {"diagnosis": "canary"})
    entries = {"TOKEN": "one-for-all", "TOKENS": "bob:read:bob-has-this", "USERS": "kim:admin:kim-has-this"}
    with behind(world, monkeypatch, PROXY="127.0.0.1", **entries) as client:
        kim = f"Basic {base64.b64encode(b'kim:kim-has-this').decode()}"
        for shown in ("Bearer one-for-all", "Bearer bob-has-this", kim):
            header = {"authorization": shown}
            assert "canary" not in client.get(f"/api/rows/{id}", headers=header).text, shown
            assert client.post(f"/api/rows/{id}/reveal", headers=header).status_code == 403
            assert said(client.get("/api/me", headers=header))["payloads"] == "hidden"
        assert "canary" in client.post(f"/api/rows/{id}/reveal", headers=ANN).text
    with behind(world, monkeypatch, PROXY="127.0.0.1", GROUPS="sre=admin", **entries) as client:
        assert "canary" in client.get(f"/api/rows/{id}", headers={"authorization": "Bearer bob-has-this"}).text


def test_groups_that_come_in_two_headers_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with behind(world, monkeypatch, PROXY="127.0.0.1") as client:
        twice = [("x-forwarded-user", "eve"), ("x-forwarded-groups", "dev"), ("x-forwarded-groups", "sre")]
        assert "x-forwarded-groups twice" in said(client.get("/api/me", headers=twice), 400)["error"]


@pytest.mark.parametrize("name", ["token:ci", "token:", "Token:ci", "nobody", "local", "LOCAL", "token"])
def test_a_name_that_is_our_own_is_refused(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with behind(world, monkeypatch, PROXY="127.0.0.1") as client:
        asked = client.get("/api/me", headers={"x-forwarded-user": name, "x-forwarded-groups": "dev"})
        assert "a name of Tenure's own" in said(asked, 403)["error"]
