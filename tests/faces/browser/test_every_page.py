"""Every page with something on it: everybody can read it, at two widths and in both themes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import tenure.web
from faces.browser import goods
from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop
from faces.browser.yard import Yard, open_yard

APP = Path(tenure.web.__file__).with_name("static") / "app.js"


@pytest.fixture(scope="module")
def filled(shop: Shop) -> Iterator[tuple[Yard, dict[str, Any]]]:
    """A yard with a few things of each kind, and the ids of those that have a page."""
    with open_yard(shop) as yard:
        yield yard, goods.fill(yard.world)


@pytest.mark.parametrize("path", goods.PAGES)
def test_everybody_can_read_every_page(visit: Visit, filled: tuple[Yard, dict[str, Any]], path: str) -> None:
    yard, ids = filled
    page = visit(path.format(**ids), url=yard.url)
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".panel, .card, .grave, .empty").first).to_be_visible()
    assert faults(page) == []


def test_no_page_is_left_out() -> None:
    ways = set(re.findall(r'name: "(\w*)"', APP.read_text()))
    looked_at = {re.split(r"[/?]", path)[0] for path in goods.PAGES}
    assert ways - looked_at == {"drills", "shards"}  # test_playground and test_shards_page look at them
