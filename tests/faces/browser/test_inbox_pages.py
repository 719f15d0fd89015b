"""Pages over two inboxes: a column says of which a line is, a filter chooses, and who is away is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from faces.browser import goods
from faces.test_inboxes import NOWHERE, failed
from faces.web_tools import served
from pairs import Pair, databases, new_pair
from tenure.model.journal import NewEvent
from tenure.model.rows import NewRow
from tenure.verbs import batches
from tenure.verbs.journal import append
from tenure.verbs.projections import plan_projection

pytestmark = pytest.mark.one_server


@pytest.fixture(scope="module")
def pair(server_url: str) -> Iterator[Pair]:
    """Two inboxes with rows that wait, and rows that ended badly."""
    with databases(server_url) as urls, new_pair(*urls) as made:
        for world in made:
            failed(world)
            for _ in range(3):
                world.enqueue("mail", {}, queue="mail")
        yield made


def shot(page: Any, name: str) -> None:
    """A picture, where somebody wants to look at it."""
    if folder := os.environ.get("TENURE_TEST_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png")


def test_pages_of_two_inboxes_have_a_column_and_a_filter(browser: Any, pair: Pair) -> None:
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as web:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{web.base_url}/rows?filter=queue:mail")
        expect(page.get_by_role("columnheader", name="Inbox")).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(6)
        shot(page, "inboxes-rows")
        page.get_by_label("Inbox", exact=True).select_option("us")
        expect(page.locator("tbody tr")).to_have_count(3)
        expect(page.locator('td[data-label="Inbox"]').first).to_have_text("us")
        page.goto(f"{web.base_url}/queues")
        switch = page.get_by_role("row").filter(has_text="mail").filter(has_text="us").get_by_role("switch")
        shot(page, "inboxes-queues")
        switch.click()
        expect(switch).not_to_be_checked()
        assert pair.b.sql("SELECT paused FROM queues WHERE queue = 'mail'") == [(True,)]
        assert pair.a.sql("SELECT paused FROM queues WHERE queue = 'mail' AND paused") == []
        page.close()


def test_a_row_is_enqueued_into_the_inbox_that_is_chosen_and_run_again_there(browser: Any, pair: Pair) -> None:
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as web:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{web.base_url}/rows")
        expect(page.get_by_role("button", name="CSV")).to_be_disabled()
        page.get_by_role("button", name="Enqueue…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Kind").fill("haul")
        dialog.get_by_role("button", name="Enqueue", exact=True).click()
        expect(dialog.get_by_role("alert")).to_have_text("Choose the inbox into which the row goes.")
        dialog.get_by_label("Into the inbox").select_option("us")
        shot(page, "inboxes-enqueue")
        dialog.get_by_role("button", name="Enqueue", exact=True).click()
        again = page.get_by_role("button", name="Edit and run again…")
        again.click()
        expect(dialog.get_by_label("Into the inbox")).to_have_value("us")
        dialog.get_by_role("button", name="Enqueue", exact=True).click()
        expect(dialog).to_have_count(0)
        assert pair.b.sql("SELECT count(*) FROM live WHERE kind = 'haul'") == [(2,)]
        assert pair.a.sql("SELECT count(*) FROM live WHERE kind = 'haul'") == [(0,)]
        page.goto(f"{web.base_url}/rows")
        page.get_by_label("Inbox", exact=True).select_option("us")
        expect(page.get_by_role("link", name="CSV")).to_have_attribute("href", "api/rows/export?format=csv&inbox=us")
        page.close()


def test_a_line_of_one_inbox_leads_there_and_is_changed_there(browser: Any, pair: Pair) -> None:
    for world, kind in zip(pair, ("of_eu", "of_us"), strict=True):
        world.run(batches.open_group([NewRow(kind)], name="daily"))
        world.run(plan_projection("totals", shards=1, like=None))
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as web:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{web.base_url}/batches")
        of_us = page.locator(".tag").get_by_text("us", exact=True)
        page.get_by_role("row").filter(has=of_us).get_by_role("link", name="daily").first.click()
        expect(page.get_by_role("cell", name="of_us")).to_be_visible()
        expect(page.get_by_role("cell", name="of_eu")).to_have_count(0)
        page.goto(f"{web.base_url}/projections")
        page.locator(".panel").filter(has=of_us).get_by_role("switch").click()
        expect(page.locator("tr.is-paused")).to_have_count(1)
        shot(page, "inboxes-projections")
        paused = [world.sql("SELECT DISTINCT paused FROM projections") for world in pair]
        assert paused == [[(False,)], [(True,)]]
        page.close()


def test_a_change_that_was_not_made_everywhere_is_told(browser: Any, pair: Pair) -> None:
    with served(pair.a, shards={"eu": pair.a.url, "us": NOWHERE}) as web:
        pair.a.enqueue("stray", {})
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{web.base_url}/rows?filter=kind:stray")
        page.get_by_label("Choose every row of this page").check()
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.locator(".toast.bad")).to_contain_text("1 row cancelled. Not everywhere: us: ")
        page.close()


def test_while_one_is_away_a_line_says_so(browser: Any, pair: Pair) -> None:
    with served(pair.a, shards={"eu": pair.a.url, "us": NOWHERE}) as web:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{web.base_url}/dead")
        expect(page.locator(".away")).to_have_text("1 of 2 inboxes answers: us is away, and nothing of it is shown.")
        expect(page.locator(".grave")).to_have_count(1)
        shot(page, "inboxes-dead-away")
        page.goto(f"{web.base_url}/")
        expect(page.locator(".away")).to_be_visible()
        shot(page, "inboxes-overview-away")
        page.close()


def test_pages_of_the_shapes_say_of_which_inbox_each_line_is(browser: Any, pair: Pair) -> None:
    filled = [goods.fill(world) for world in pair]
    pair.b.run(append("order:1", [NewEvent("order.paid")]))
    with served(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as web:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        tag = {name: page.locator(".tag").get_by_text(name, exact=True) for name in ("eu", "us")}
        page.goto(f"{web.base_url}/outbox")
        for name in tag:
            expect(page.locator(".panel").filter(has=tag[name]).filter(has_text="billing")).to_have_count(1)
        shot(page, "inboxes-outbox")
        page.goto(f"{web.base_url}/hooks")
        for name in tag:
            expect(page.get_by_role("row").filter(has=tag[name])).to_have_count(3)
        shot(page, "inboxes-hooks")
        page.goto(f"{web.base_url}/projections")
        horizons = [world.sql("SELECT max(position) FROM journal")[0][0] for world in pair]
        note = "the journal can be read up to {} in eu, {} in us".format(*horizons)
        expect(page.locator(".page-head .note")).to_have_text(note)
        page.goto(f"{web.base_url}/flows")
        of_us = page.get_by_role("row").filter(has=tag["us"])
        expect(of_us).to_have_count(3)
        shot(page, "inboxes-flows")
        of_us.locator(f'a[href="flows/{filled[1]["flow"]}"]').first.click()
        expect(page.get_by_role("heading", name="checkout")).to_be_visible()
        page.get_by_label("Name").fill("shipped")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_text("shipped was sent.")).to_be_visible()
        sent = [world.sql("SELECT count(*) FROM audit WHERE verb = 'signal'") for world in pair]
        assert sent == [[(0,)], [(1,)]]
        page.close()
