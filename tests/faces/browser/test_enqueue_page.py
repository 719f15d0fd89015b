"""Rows by hand: enqueued from the page, edited and run again; the palette leads everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from faces.browser.conftest import Visit, faults, serious
from faces.browser.shop import BIG, Shop, served
from faces.browser.yard import Yard, open_yard


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for these rows."""
    with open_yard(shop) as opened:
        yield opened


def test_a_row_is_enqueued_and_run_again_with_an_edited_payload(visit: Visit, yard: Yard) -> None:
    page = visit("rows", url=yard.url)
    page.get_by_role("button", name="Enqueue…").click()
    dialog = page.get_by_role("dialog", name="Enqueue a row")
    dialog.get_by_role("button", name="Enqueue", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Name the kind")
    dialog.get_by_label("Kind").fill("haul")
    dialog.get_by_label("Payload").fill(f'{{"n": {BIG}}}')
    dialog.get_by_label("Queue").fill("yard")
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    dialog.get_by_role("button", name="Enqueue", exact=True).click()
    expect(page).to_have_url(re.compile("/rows/[0-9a-f-]{36}$"))
    assert yard.world.sql("SELECT queue, payload::text FROM live") == [("yard", f'{{"n": {BIG}}}')]
    assert yard.deeds("enqueue")[0][:4] == ("local", "http", "haul", 1)
    page.get_by_role("button", name="Edit and run again…").click()
    again = page.get_by_role("dialog", name="again")
    again.get_by_label("Payload").fill('{"n": 2}')
    again.get_by_role("button", name="Enqueue", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    sent = yard.world.sql("SELECT queue, payload::text FROM live ORDER BY seq")
    assert sent == [("yard", f'{{"n": {BIG}}}'), ("yard", '{"n": 2}')], "the old row stays as it was"


def test_hidden_values_are_not_sent_as_stars(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    page.get_by_role("button", name="Edit and run again…").click()
    page.get_by_role("dialog").get_by_role("button", name="Enqueue", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("hidden values")


def test_who_may_only_read_can_enqueue_nothing(visit: Visit, yard: Yard) -> None:
    with served(yard.world, "--read-only") as url:
        page = visit("rows", url=url)
        expect(page.get_by_role("heading", name="Rows")).to_be_visible()
        expect(page.get_by_role("button", name="Enqueue…")).to_have_count(0)
        page.keyboard.press("Control+k")
        page.keyboard.type("enqueue")
        expect(page.get_by_role("option", name="Enqueue a row")).to_have_count(0)
        page.close()


def test_the_palette_opens_by_its_key_and_leads_to_pages_rows_and_filters(visit: Visit, shop: Shop) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Commands")).to_be_visible()
    assert serious(page) == []
    page.keyboard.type("sched")
    expect(page.get_by_role("option").first).to_contain_text("Schedules")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{shop.url}/schedules")
    page.keyboard.press("Control+k")
    page.keyboard.type(str(shop.contested))
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{shop.url}/rows/{shop.contested}")
    page.get_by_role("button", name="Commands").click()
    page.keyboard.type("kind:charge_card status:failed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Filter rows")).to_have_value("kind:charge_card status:failed")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
