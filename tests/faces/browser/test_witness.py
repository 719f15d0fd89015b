"""Single sign-on in a real browser, and a payload that is hidden until it is revealed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import tenure.web
from faces.test_http_oidc import ANN, Provider
from faces.web_tools import running
from tenure import operate, verbs
from tenure.model.rows import NewRow
from tenure.web.oidc import CALLBACK
from world import World

pytestmark = pytest.mark.one_server
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect


def shot(page: Any, name: str) -> None:
    if folder := os.environ.get("TENURE_TEST_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_person_logs_in_at_the_provider_and_reveals_a_payload(
    browser: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = world.run(verbs.enqueue(NewRow("send_receipt", {"order": "4711-canary"}))).id
    provider = Provider()
    settings = {"OIDC_ISSUER": provider.address, "OIDC_CLIENT": "tenure", "OIDC_SECRET": "client-secret:+/"}
    more = {"OIDC_URL": "http://127.0.0.1:1", "GROUPS": "sre=admin+reveal"}
    for name, value in {**settings, **more}.items():
        monkeypatch.setenv(f"TENURE_WEB_{name}", value)
    app = tenure.web.app(database_url=world.url, schema=world.schema)
    try:
        with running(app) as address:
            app.state.site.oidc._back = f"{address}{CALLBACK}"
            provider.next(claims=ANN)
            page = browser.new_context().new_page()
            page.goto(f"{address}/rows/{row}")
            expect(page.get_by_role("link", name="Log in with single sign-on")).to_be_visible()
            shot(page, "login")
            page.get_by_role("link", name="Log in with single sign-on").click()
            expect(page.locator(".who")).to_contain_text("ann@example.com")
            page.goto(f"{address}/rows/{row}")
            expect(page.get_by_text("Hidden by this server.")).to_be_visible()
            shot(page, "hidden")
            assert "canary" not in page.content()
            page.get_by_role("button", name="Reveal").click()
            expect(page.get_by_text("4711-canary")).to_be_visible()
            expect(page.get_by_role("button", name="Reveal")).to_have_count(0)
            shot(page, "revealed")
            page.goto(f"{address}/audit")
            expect(page.get_by_text("reveal", exact=True).first).to_be_visible()
            shot(page, "audit")
            page.close()
    finally:
        provider.process.kill()
        provider.process.wait(90)
    assert [(each.actor, each.verb, each.target) for each in world.run(operate.audit())] == [
        ("ann@example.com", "reveal", str(row))
    ]
