"""The page of a Citus cluster's inboxes, on two plain servers with a placement of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from faces.browser.conftest import faults, overflow
from faces.web_tools import said, served
from placements import Placements, placed
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placements]:
    """Two inboxes; in the second a row waits, because the first has rows of its range."""
    with placed(tmp_path_factory.mktemp("placed")) as found:
        found.let_a_row_wait("k")
        yield found


@pytest.fixture
def web(two: Placements) -> Iterator[httpx.Client]:
    """The server of both, as of a cluster."""
    shards = {str(inbox): url for inbox, url in two.urls.items()}
    world = World(two.urls[1], "tenure")
    with served(world, shards=shards, citus=True) as client:
        yield client
    world.close()


def test_each_inbox_tells_of_its_ranges(web: httpx.Client) -> None:
    assert said(web.get("/api/me"))["citus"] is True
    first, second = said(web.get("/api/shards"))["shards"]
    assert (first["inbox"], first["home"], first["waiting"], first["depth"], first["reason"]) == ("1", 3, 0, 1, None)
    assert (second["inbox"], second["home"], second["waiting"], second["depth"]) == ("2", 0, 1, 1)
    assert second["reason"].endswith("moved here, and inbox 1 has rows of it to work off, as of key k")


def test_an_inbox_of_no_cluster_says_so_and_has_no_such_page(world: World) -> None:
    with served(world) as client:
        assert said(client.get("/api/me"))["citus"] is False
        assert "is no node of a Citus cluster" in said(client.get("/api/shards"), 404)["error"]


def test_what_a_handler_has_said_is_not_told_as_a_reason(two: Placements, web: httpx.Client) -> None:
    conn = two.conns[2]
    conn.execute("UPDATE tenure.live SET last_error = 'card 4242 refused'")
    try:
        assert said(web.get("/api/shards"))["shards"][1]["reason"] is None
    finally:
        two.adopt(2)


def test_the_page_shows_where_ranges_are_at_home_and_what_waits(browser: Any, web: httpx.Client) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(str(web.base_url))
    page.get_by_role("link", name="Shards").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_text("1 range waits")).to_be_visible()
    expect(page.get_by_text("inbox 1 has rows of it")).to_be_visible()
    if folder := os.environ.get("TENURE_TEST_SHOTS"):
        for width in (1280, 1000, 390):
            page.set_viewport_size({"width": width, "height": 860})
            page.screenshot(path=f"{folder}/shards-{width}.png")
    assert faults(page) == []
    for width in (700, 1000, 1280, 1341):  # there are no more pages than here
        page.set_viewport_size({"width": width, "height": 860})
        who = page.locator(".who").bounding_box()
        assert (overflow(page), who["x"] + who["width"] <= width) == (0, True), width
        assert page.locator(".who").evaluate("each => each.scrollWidth <= each.clientWidth"), width
    page.close()
