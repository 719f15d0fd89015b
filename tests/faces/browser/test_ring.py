"""The ring: the picture says what the ring itself says, by pointer, by keyboard and in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop
from faces.browser.yard import Yard, open_yard
from tenure.model.ring import Ring, moved


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for this page."""
    with open_yard(shop) as opened:
        yield opened


@pytest.fixture(autouse=True)
def crew(yard: Yard) -> Ring:
    """Three workers, seen in an hour at the latest, and their ring."""
    yard.dismiss()
    return Ring(yard.hire(f"w-{n}", seen_seconds=-3600) for n in (1, 2, 3))


def hand(page: Page) -> str:
    """What the dial says about the bucket its hand is at."""
    return page.get_by_role("slider", name="Bucket").get_attribute("aria-valuetext") or ""


def test_the_legend_has_every_owner_with_its_share(visit: Visit, yard: Yard, crew: Ring) -> None:
    page = visit("ring", url=yard.url)
    for worker in crew.workers:
        n = len(crew.buckets_of(worker))
        expect(page.get_by_role("button", name=worker)).to_contain_text(f"{n} {n / 10.24:.1f} %")
    expect(page.locator("#ring-words")).to_contain_text("1,024 buckets among 3 workers")


def test_arrow_keys_walk_the_buckets_and_enter_keeps_one(visit: Visit, yard: Yard, crew: Ring) -> None:
    page = visit("ring", url=yard.url)
    dial = page.get_by_role("slider", name="Bucket")
    dial.press("End")
    for bucket in range(12):
        dial.press("ArrowRight")
        expect(dial).to_have_attribute("aria-valuenow", str(bucket))
        assert f"bucket {bucket}, owned by {crew.owner_of(bucket)}" in hand(page)
    dial.press("PageUp")
    dial.press("Enter")
    expect(page).to_have_url(f"{yard.url}/ring?bucket=27")
    expect(page.get_by_role("heading", name="Bucket 27")).to_be_visible()
    expect(page.get_by_role("link", name="pending in it")).to_have_attribute(
        "href", "rows?filter=status%3Apending+bucket%3A27"
    )


@pytest.mark.parametrize(
    ("right", "down", "bucket"), [(0.5, 0.13, 0), (0.87, 0.501, 256), (0.499, 0.87, 512), (0.13, 0.499, 768)]
)
def test_the_pointer_finds_the_bucket_under_it(
    visit: Visit, yard: Yard, crew: Ring, right: float, down: float, bucket: int
) -> None:
    page = visit("ring", url=yard.url)
    dial = page.get_by_role("slider", name="Bucket")
    box = dial.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * right + 0.5, box["y"] + box["height"] * down)
    assert f"owned by {crew.owner_of(int(dial.get_attribute('aria-valuenow') or -1))}" in hand(page)
    assert abs(int(dial.get_attribute("aria-valuenow") or -1) - bucket) <= 2


def test_ticks_are_drawn_for_every_bucket_once(visit: Visit, yard: Yard, crew: Ring) -> None:
    page = visit("ring", url=yard.url)
    expect(page.locator(".ring-ticks")).to_have_count(3)
    drawn = [(path.get_attribute("d") or "").count("M") for path in page.locator(".ring-ticks").all()]
    assert drawn == [len(crew.buckets_of(worker)) for worker in crew.workers]
    page.get_by_role("button", name="w-2").click()
    expect(page.locator(".ring-ticks.faded")).to_have_count(2)


def test_a_worker_that_joins_moves_its_share_and_none_needlessly(visit: Visit, yard: Yard, crew: Ring) -> None:
    page = visit("ring", url=yard.url)
    expect(page.get_by_role("button", name="w-3")).to_be_visible()
    yard.hire("w-4", seen_seconds=-3600)
    n = moved(crew, Ring([*crew.workers, "w-4"]))
    cost = f"moved {n} of 1024 ({n * 4 / 1024:.2f}/N)"
    expect(page.get_by_role("status").filter(has_text="Just now")).to_contain_text(cost)
    joined = page.get_by_role("listitem").filter(has_text="w-4").filter(has_text="joined")
    expect(joined).to_contain_text(cost)
    expect(joined).to_contain_text("needless · N = 4")


def test_workers_of_other_queues_have_a_ring_of_their_own(visit: Visit, yard: Yard) -> None:
    yard.hire("r-1", "reports", "exports", seen_seconds=-3600)
    page = visit("ring", url=yard.url)
    page.get_by_role("button", name="exports, reports").click()
    expect(page).to_have_url(f"{yard.url}/ring?queues=exports%2Creports")
    expect(page.get_by_role("button", name="r-1")).to_contain_text("1024 100.0 %")
    expect(page.get_by_role("button", name="w-1")).to_have_count(0)


def test_rows_that_wait_are_bars_around_it(visit: Visit, yard: Yard) -> None:
    for n in range(30):
        yard.world.enqueue("haul", key=f"k{n}")
    page = visit("ring", url=yard.url)
    expect(page.locator(".ring-centre")).to_contain_text("30 rows pending")
    assert page.locator(".ring-depth").count() > 10


def test_without_workers_it_says_so(visit: Visit, yard: Yard) -> None:
    yard.dismiss()
    page = visit("ring", url=yard.url)
    expect(page.get_by_text("No worker is alive: nobody owns a bucket. Start one")).to_be_visible()


def test_a_ring_that_is_gone_leads_back(visit: Visit, yard: Yard) -> None:
    page = visit("ring?queues=nowhere", url=yard.url, expect="404")
    page.get_by_role("alert").get_by_role("button").click()
    expect(page.get_by_role("button", name="w-1")).to_be_visible()


def test_everybody_can_read_it(visit: Visit, yard: Yard) -> None:
    yard.hire("r-1", "reports", seen_seconds=-3600)
    page = visit("ring?bucket=17", url=yard.url)
    expect(page.get_by_role("heading", name="Bucket 17")).to_be_visible()
    assert faults(page) == []
