"""The page of workers: what it tells of each, and the way to drain one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from crew import working
from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop, served
from faces.browser.yard import Yard, open_yard
from tenure.app.inbox import Inbox


@pytest.fixture(scope="module")
def fleet(shop: Shop) -> Iterator[Yard]:
    """A yard for this page."""
    with open_yard(shop) as yard:
        yield yard


@pytest.fixture(autouse=True)
def _nobody(fleet: Yard) -> None:
    fleet.dismiss()


def test_a_card_tells_what_the_registry_knows(visit: Visit, fleet: Yard) -> None:
    fleet.hire("w-1", "mail", "default", kinds=["send_receipt"], host="node-1", pid=4711)
    for _ in range(3):
        fleet.world.enqueue("haul")
    assert len(fleet.world.claim("w-1", 3)) == 3
    card = visit("workers", url=fleet.url).get_by_role("listitem").filter(has_text="w-1")
    for told in (
        "alive",
        "3 of 8",
        "3 rows held",
        "node-1 : 4711",
        "0.1.0",
        "mail",
        "send_receipt",
        "1,024 buckets",
        "notifications",
    ):
        expect(card).to_contain_text(told)
    expect(card.get_by_role("img", name="fresh")).to_be_visible()
    expect(card.get_by_role("img", name="3 of 8 slots taken")).to_be_visible()
    expect(card).to_contain_text("none no session is visible")


def test_a_heartbeat_fades_and_the_dead_stand_below(visit: Visit, fleet: Yard) -> None:
    fleet.hire("fading", seen_seconds=20)
    fleet.hire("silent", seen_seconds=200)
    fleet.hire("gone", seen_seconds=900)
    fleet.world.sql("UPDATE workers SET status = 'dead' WHERE id = 'gone'")
    page = visit("workers", url=fleet.url)
    living = page.get_by_role("list", name="Living workers")
    for word in ("fading", "silent"):
        card = living.get_by_role("listitem").filter(has_text=word)
        expect(card.get_by_role("img", name=f"{word}: seen")).to_be_visible()
    expect(living.get_by_text("gone", exact=True)).to_have_count(0)
    expect(page.get_by_role("row", name="gone")).to_contain_text("15 m")
    expect(page.locator(".note")).to_have_text("2 alive · 1 dead · 0 of 16 slots taken")


def test_its_held_rows_are_one_step_away(visit: Visit, fleet: Yard) -> None:
    fleet.hire("w-1")
    fleet.world.enqueue("haul")
    job = fleet.world.claim_one("w-1")
    page = visit("workers", url=fleet.url)
    page.get_by_role("listitem").filter(has_text="w-1").get_by_role("link", name="held").click()
    expect(page).to_have_url(f"{fleet.url}/rows?filter=status%3Aprocessing+worker%3Aw-1")
    expect(page.locator(f"a[href*='{job.id}']").first).to_be_visible()


def test_drain_ends_a_real_worker_and_is_noted(visit: Visit, fleet: Yard) -> None:
    inbox = Inbox()
    inbox.handler("haul", queue="yard")(lambda _job: None)
    with working(fleet.world, inbox) as hired:
        page = visit("workers", url=fleet.url)
        expect(page.get_by_role("listitem")).to_contain_text("here its session is open")
        page.get_by_role("button", name=f"Drain {hired.worker.id}").click()
        assert hired.exit_code is None, "it is asked before anything happens"
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        assert hired.gone() == 0
        expect(page.get_by_text("No worker is alive")).to_be_visible()
    assert fleet.deeds("drain_worker")[0][:3] == ("local", "http", hired.worker.id)


def test_to_think_better_of_it_drains_nobody(visit: Visit, fleet: Yard) -> None:
    fleet.hire("w-1")
    page = visit("workers", url=fleet.url)
    page.get_by_role("button", name="Drain w-1").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert fleet.world.sql("SELECT status FROM workers") == [("alive",)]


def test_who_may_only_read_sees_no_button(visit: Visit, fleet: Yard) -> None:
    fleet.hire("w-1")
    with served(fleet.world, "--read-only") as url:
        page = visit("workers", url=url)
        expect(page.get_by_role("listitem").filter(has_text="w-1")).to_be_visible()
        expect(page.get_by_role("button", name="Drain")).to_have_count(0)


def test_everybody_can_read_it(visit: Visit, fleet: Yard) -> None:
    fleet.hire("w-1", "default", "mail", kinds=[f"kind_{n}" for n in range(12)])
    fleet.hire("a-rather-long-hostname-eu-west-1-7f9c5d-4711-a3f9c1d2", seen_seconds=25, version="0.0.9")
    fleet.hire("gone")
    fleet.world.sql("UPDATE workers SET status = 'dead' WHERE id = 'gone'")
    page = visit("workers", url=fleet.url)
    expect(page.get_by_role("listitem").filter(has_text="w-1")).to_be_visible()
    assert faults(page) == []
