"""Login by OpenID Connect against a real provider process: code flow, PKCE, state, nonce, and groups as roles."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import tenure.web
from crew import eventually
from faces.web_tools import CHANGING, running, said
from tenure import operate
from tenure.errors import BadSettings
from tenure.web import oidc_flow
from world import World

pytestmark = pytest.mark.one_server
ANN = {"email": "ann@example.com", "email_verified": True, "groups": ["sre"]}


class Provider:
    """The process."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        script = Path(__file__).with_name("oidc_server.py")
        self.process = subprocess.Popen([sys.executable, str(script), str(port)])
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.address}/keys").status_code == 200
        except httpx.HTTPError:
            return False

    def next(self, **what: Any) -> None:
        assert httpx.post(f"{self.address}/next", json=what).status_code == 204


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(90)


@contextmanager
def serving(world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch, **more: str) -> Iterator[httpx.Client]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "OIDC_ISSUER": provider.address, "OIDC_CLIENT": "tenure", "OIDC_SECRET": "client-secret:+/",
        "OIDC_URL": f"http://127.0.0.1:{port}", "GROUPS": "sre=admin+reveal,dev=operate", **more,
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"TENURE_WEB_{name}", value)
    app = tenure.web.app(database_url=world.url, schema=world.schema)
    with running(app) as address, httpx.Client(base_url=address, headers=CHANGING, timeout=120) as client:
        yield client


def there(client: httpx.Client) -> httpx.Response:
    """Begin, and let the provider send us back; its answer names the way back."""
    begun = client.get("/api/oidc/login")
    assert begun.status_code == 303, begun.text
    return httpx.get(begun.headers["location"])


def back(client: httpx.Client, sent: httpx.Response) -> httpx.Response:
    found = urlsplit(sent.headers["location"])
    return client.get(f"{found.path}?{found.query}")


def test_whoever_the_provider_knows_comes_in_with_the_role_of_their_group(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(world, provider, monkeypatch) as client:
        refused = client.get("/api/me")
        assert said(refused, 401)["oidc"] is True
        provider.next(claims=ANN)
        done = back(client, there(client))
        assert (done.status_code, 'content="0;url=../../"' in done.text) == (200, True)
        given = [each for each in done.headers.get_list("set-cookie") if each.startswith("tenure=")]
        assert "HttpOnly" in given[0]
        assert "SameSite=strict" in given[0]
        me = said(client.get("/api/me"))
        assert (me["actor"], me["role"], me["reveal"], me["logged_in"]) == ("ann@example.com", "admin", True, True)
        assert said(client.post("/api/queues/mail/pause"))["changed"]
        assert client.post("/api/logout").status_code == 204
        client.cookies.set("tenure", given[0].split("=")[1].split(";")[0])
        assert client.get("/api/me").status_code == 401, "a logout ends the session on the server"
    assert world.run(operate.audit(1))[0].actor == "ann@example.com"


def test_what_is_asked_has_pkce_state_and_nonce_and_each_login_its_own(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(world, provider, monkeypatch) as client:
        asked = [parse_qs(urlsplit(client.get("/api/oidc/login").headers["location"]).query) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert len({each[name][0] for each in asked}) == 2, name
        assert all(len(each[name][0]) >= 32 for each in asked)
    assert asked[0]["code_challenge_method"] == ["S256"]
    assert asked[0]["redirect_uri"][0].endswith("/api/oidc/callback")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"forged": True}, "not signed by one of its keys"),
        ({"unsigned": True}, "not signed by one of its keys"),
        ({"claims": {"nonce": "another"}}, "for another login"),
        ({"claims": {"nonce": None}}, "for another login"),
        ({"claims": {"aud": "somebody"}}, "meant for another client"),
        ({"claims": {"aud": ["tenure", "somebody"]}}, "meant for another client"),
        ({"claims": {"iss": "https://evil.example"}}, "of another issuer"),
        ({"claims": {"exp": 1}}, "too old or too new"),
        ({"claims": {"exp": None}}, "has no time"),
        ({"claims": {"iat": 2**40}}, "too old or too new"),
        ({"claims": {"groups": ["guests"]}}, "no role here"),
        ({"claims": {"groups": "sre"}}, "no role here"),
        ({"claims": {"email_verified": False}}, "not verified"),
        ({"claims": {"email": None}}, "no usable claim"),
        ({"claims": {"email": "<script>\u202e"}}, "no usable claim"),
        ({"refuse": "access_denied"}, "access_denied"),
    ],
)
def test_a_word_that_does_not_hold_lets_nobody_in(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], why: str
) -> None:
    with serving(world, provider, monkeypatch) as client:
        provider.next(**{**what, "claims": {**ANN, **what.get("claims", {})}})
        done = back(client, there(client))
        assert (done.status_code, why in done.text) == (401, True), done.text
        assert "tenure=" not in str(done.headers.get_list("set-cookie"))
        assert client.get("/api/me").status_code == 401
        line = eventually(lambda: world.run(operate.audit()))[0]
    assert (line.actor, line.verb) == ("nobody", "login_failed")


def test_a_name_that_is_our_own_is_refused(world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(world, provider, monkeypatch, OIDC_USER="name") as client:
        provider.next(claims={**ANN, "name": "token:ci"})
        done = back(client, there(client))
        assert (done.status_code, "a name of Tenure&#x27;s own" in done.text) == (403, True), done.text
        assert client.get("/api/me").status_code == 401


def test_a_login_that_another_browser_began_is_refused_and_so_is_one_that_is_used_again(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(world, provider, monkeypatch) as client:
        provider.next(claims=ANN)
        with httpx.Client(base_url=client.base_url) as attacker:
            sent = there(attacker)
        assert "not begun in this browser" in back(client, sent).text
        there(client)
        assert "not begun in this browser" in back(client, sent).text, "begun here, and come back with another's"
        own = there(client)
        assert back(client, own).status_code == 200
        client.cookies.delete("tenure")
        assert back(client, own).status_code == 401
        for words in ("", "?state=", "?state=x&code=y"):
            assert client.get(f"/api/oidc/callback{words}").status_code == 401


def test_strangers_who_begin_a_thousand_logins_shut_nobody_out(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(world, provider, monkeypatch) as client:
        provider.next(claims=ANN)
        sent = there(client)
        with httpx.Client(base_url=client.base_url, timeout=120) as stranger:
            for _ in range(1001):
                assert stranger.get("/api/oidc/login").status_code == 303
        begun = client.cookies["tenure-login"]
        assert back(client, sent).status_code == 200
        client.cookies.set("tenure-login", begun)
        assert "not begun in this browser" in back(client, sent).text, "it is good once, whoever keeps the cookie"


def test_a_state_that_is_too_old_changed_or_of_another_server_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = oidc_flow.Flows()
    (old, _), (state, flow) = flows.begin(), flows.begin()
    later = f"{int(state.split('.')[0], 16) + 600:x}.{state.partition('.')[2]}"
    for wrong in ("", ".", "x.y.z", state[:-1], later, oidc_flow.Flows().begin()[0], "\ud800"):
        assert flows.take(wrong) is None, wrong
    assert flows.take(state) == flow
    assert flows.take(state) is None
    now = oidc_flow._now()
    monkeypatch.setattr(oidc_flow, "_now", lambda: now + oidc_flow.FLOW_SECONDS + 1)
    assert flows.take(old) is None


def test_a_code_without_its_verifier_is_of_no_use(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(world, provider, monkeypatch) as client:
        provider.next(claims=ANN)
        with httpx.Client(base_url=client.base_url) as other:
            stolen = parse_qs(urlsplit(there(other).headers["location"]).query)["code"][0]
        state = parse_qs(urlsplit(there(client).headers["location"]).query)["state"][0]
        done = client.get("/api/oidc/callback", params={"state": state, "code": stolen})
        assert (done.status_code, "refused with 400" in done.text) == (401, True)


def test_a_provider_under_another_name_or_away_is_told_in_one_sentence(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.next(issuer="https://evil.example")
    with serving(world, provider, monkeypatch) as client:
        done = client.get("/api/oidc/login")
        assert (done.status_code, "by another name" in done.text) == (503, True)
    with serving(world, provider, monkeypatch, OIDC_ISSUER="http://127.0.0.1:9") as client:
        assert "does not answer" in client.get("/api/oidc/login").text
        began = time.monotonic()
        assert client.get("/health/live").status_code == 200
        assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"OIDC_CLIENT": ""}, "set TENURE_WEB_OIDC_CLIENT too"),
        ({"OIDC_URL": ""}, "set TENURE_WEB_OIDC_URL too"),
        ({"OIDC_URL": "http://tenure.example.com"}, "begins with https://"),
        ({"OIDC_ISSUER": "http://login.example.com"}, "begins with https://"),
        ({"GROUPS": ""}, "which group has which role"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    world: World, provider: Provider, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], why: str
) -> None:
    with pytest.raises(BadSettings, match=why), serving(world, provider, monkeypatch, **settings):
        pass
