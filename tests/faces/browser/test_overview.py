"""The overview: six numbers that lead to their rows, four charts, queues and kinds, and the fence where it held."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop
from faces.browser.yard import open_yard

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect


def test_each_number_leads_to_its_rows(visit: Visit) -> None:
    page = visit()
    for number, leads_to in [
        (r"^10k\+ Due", "status:runnable"),
        (r"^\d+ Processing", "status:processing"),
        (r"^2,\d+ Scheduled", "status:scheduled"),
        (r"^[\d,]+ Failed, dead letters", "status:failed,dead_letter"),
        (r"^\d+ \w.* Oldest runnable", "status:runnable"),
    ]:
        page.get_by_role("navigation", name="Now").get_by_role("link", name=re.compile(number)).click()
        expect(page.get_by_role("combobox", name="Filter rows")).to_have_value(leads_to)
        expect(page.locator("tbody tr").first).to_be_visible()
        page.go_back()


def test_workers_are_counted_with_those_that_leave_and_those_that_died(visit: Visit) -> None:
    figure = visit().get_by_role("link", name="Workers alive")
    expect(figure).to_contain_text("2")
    expect(figure).to_contain_text("1 draining, 1 dead")


def test_the_fence_tells_of_each_stale_write_and_leads_to_its_row(visit: Visit, shop: Shop) -> None:
    page = visit()
    fence = page.get_by_role("region", name="Fence")
    for word in ("acquired", "renewed", "expired", "reclaimed", "lost", "stale writes blocked"):
        expect(fence.get_by_text(word, exact=True)).to_be_visible()
    newest = fence.get_by_role("listitem").first
    expect(newest).to_contain_text("shop-6d11-4 tried to complete")
    expect(newest).to_contain_text("with token 1, the row is at token 2: refused")
    expect(fence.locator(".pickets .hit")).to_have_count(2)
    newest.get_by_role("link").click()
    expect(page).to_have_url(f"{shop.url}/rows/{shop.contested}")


def test_the_charts_are_drawn_in_both_themes_and_read_out_what_they_show(visit: Visit) -> None:
    page = visit()
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.get_by_role("img", name="Settled rows per second by outcome")).to_be_visible()
    expect(page.locator(".legend").first).to_contain_text("billing")
    expect(page.locator(".legend").nth(1)).to_contain_text("completed")
    page.locator(".chart .u-over").nth(1).hover(position={"x": 250, "y": 60})
    expect(page.locator(".legend").nth(2)).to_contain_text(re.compile(r"of attempts \d.* %"))
    expect(page.locator(".legend").nth(3)).to_contain_text(re.compile(r"wait p50 \d+ ms"))
    reds = "canvas.getContext('2d').getImageData(60, 10, 400, 120).data.filter((_, i) => i % 4 === 0)"
    ink = f"(canvas) => new Set({reds}).size"
    assert page.locator(".chart canvas").first.evaluate(ink) > 3
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator(".chart canvas")).to_have_count(4)
    assert page.locator(".chart canvas").first.evaluate(ink) > 3


def test_queues_and_kinds_tell_where_rows_wait_and_fail_and_lead_to_them(visit: Visit) -> None:
    page = visit()
    queue = page.get_by_role("table", name="Queues in this period").get_by_role("row").filter(has_text="default")
    expect(queue).to_contain_text(re.compile(r"[\d,]+.*%.*ms", re.DOTALL))
    kinds = page.get_by_role("table", name="Kinds in this period")
    expect(kinds.get_by_role("row").nth(5)).to_be_visible()  # five kinds of the shop, and those that others have sent
    expect(kinds).to_contain_text("%")
    kinds.get_by_role("link", name="ship_order", exact=True).click()
    expect(page.get_by_role("combobox", name="Filter rows")).to_have_value("kind:ship_order")


def test_a_fence_that_held_nothing_is_a_line_at_the_foot_and_an_empty_inbox_is_told_how_to_begin(
    visit: Visit, shop: Shop
) -> None:
    with open_yard(shop) as yard:
        page = visit(url=yard.url)
        fence = page.get_by_role("region", name="Fence")
        expect(fence).to_contain_text("no stale write in the last 1 h")
        expect(fence.locator(".pickets")).to_have_count(0)
        expect(page.get_by_role("main")).to_contain_text("tenure enqueue send_receipt")
        expect(page.get_by_role("main")).to_contain_text("tenure worker app:inbox")
        assert faults(page) == []
        page.close()


def test_the_period_stands_in_the_address(visit: Visit) -> None:
    page = visit()
    with page.expect_response("**/api/overview?seconds=900") as answered:
        page.get_by_role("button", name="15 min").click()
    assert len(answered.value.json()["series"]) <= 100
    expect(page).to_have_url(re.compile(r"\?seconds=900$"))
    expect(page.get_by_role("region", name="Fence")).to_contain_text("in the last 15 m")
    page.go_back()
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")


def test_the_numbers_move_without_a_reload(visit: Visit, shop: Shop) -> None:
    page = visit()
    waiting = page.get_by_role("link", name="Scheduled").locator("b")
    expect(waiting).to_have_text(re.compile(r"^2,\d+$"))
    before = int(waiting.inner_text().replace(",", ""))
    shop.world.sql(
        "INSERT INTO live (kind, payload, available_at) VALUES ('later', '{}', clock_timestamp() + interval '1 d')"
    )
    expect(waiting).to_have_text(f"{before + 1:,}")
