"""The audit: every change with its actor, its way, what it was about and how many rows it touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop
from faces.browser.yard import Yard, open_yard
from tenure import operate
from tenure.model import filter
from tenure.operate import Actor
from tenure.verbs import queues

ANN = Actor("ann@desk", "cli")


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for this page."""
    with open_yard(shop) as opened:
        yield opened


def pause(yard: Yard, queue: str) -> None:
    """Ann pauses a queue."""
    operate.noted(yard.world.conn, queues.pause(queue), ANN, "pause", queue, yard.world.schema)


def test_before_anything_was_changed_it_says_so(visit: Visit, yard: Yard) -> None:
    expect(visit("audit", url=yard.url).get_by_text("Nobody has changed anything yet.")).to_be_visible()


def test_an_action_over_rows_is_told_with_its_filter_its_count_and_its_reason(visit: Visit, yard: Yard) -> None:
    yard.dead("lost", 2)
    found = filter.parse("status:dead_letter kind:lost")
    operate.act(yard.world.conn, "redrive", found, ANN, schema=yard.world.schema, reason="the bank is back")
    page = visit("audit", url=yard.url)
    deed = page.get_by_role("row").filter(has_text="redrive")
    for told in ("ann@desk", "cli", "status:dead_letter kind:lost", "2", "the bank is back"):
        expect(deed).to_contain_text(told)
    deed.get_by_role("link").click()
    expect(page).to_have_url(f"{yard.url}/rows?filter=status%3Adead_letter+kind%3Alost")


def test_what_is_done_here_stands_there_a_moment_later(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.limit("mail", max_running=1))
    page = visit("queues", url=yard.url)
    page.get_by_role("switch", name="Queue mail").click()
    expect(page.get_by_role("switch", name="Queue mail: paused")).to_be_visible()
    page.get_by_role("link", name="Audit").click()
    deed = page.get_by_role("row").filter(has_text="mail")
    for told in ("local", "http", "pause queue"):
        expect(deed).to_contain_text(told)
    expect(deed.get_by_role("link")).to_have_count(0)


def test_older_lines_are_pages_and_the_address_says_which(visit: Visit, yard: Yard) -> None:
    for n in range(60):
        pause(yard, f"q-{n:03}")
    page = visit("audit", url=yard.url)
    expect(page.get_by_role("cell", name="q-059", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="q-005", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_role("cell", name="q-005", exact=True)).to_be_visible()
    assert "before=" in page.url
    page.get_by_role("button", name="Newest").click()
    expect(page.get_by_role("cell", name="q-059", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("cell", name="q-005", exact=True)).to_be_visible()


def test_what_was_broken_off_is_marked(visit: Visit, yard: Yard) -> None:
    yard.world.sql(
        "INSERT INTO audit (actor, via, verb, target, reason) VALUES ('ann@desk', 'cli', 'cancel', 'kind:never', '')"
    )
    expect(visit("audit", url=yard.url).get_by_role("row").filter(has_text="kind:never")).to_contain_text("open")


def test_everybody_can_read_it(visit: Visit, yard: Yard) -> None:
    pause(yard, "a-queue-with-a-rather-long-name-indeed")
    page = visit("audit", url=yard.url)
    expect(page.get_by_role("cell", name="a-queue-with-a-rather-long-name-indeed").first).to_be_visible()
    assert faults(page) == []
