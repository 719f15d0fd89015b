"""Queues: what stands where, and every switch, limit and key an operator may turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from crew import eventually
from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop, served
from faces.browser.yard import Yard, open_yard
from tenure.verbs import queues


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for this page."""
    with open_yard(shop) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _empty(yard: Yard) -> None:
    for table in ("live", "dead", "heads", "arrivals", "queues", "schedules"):
        yard.world.sql(f"DELETE FROM {table}")


def row(page: Page, name: str) -> Locator:
    """The row of a table that begins with a name."""
    return page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))


def limits_of(yard: Yard, queue: str) -> tuple[Any, ...]:
    """What is set for a queue in the database."""
    (found,) = yard.world.sql(
        "SELECT max_running, max_per_key, rate_per_second, burst FROM queues WHERE queue = %s", queue
    )
    return found


def test_a_queue_shows_its_rows_by_state_and_leads_to_them(visit: Visit, yard: Yard) -> None:
    for _ in range(3):
        yard.world.enqueue("haul")
    yard.world.enqueue("haul", delay_seconds=3600)
    yard.world.claim_one()
    page = visit("queues", url=yard.url)
    cells = row(page, "default").get_by_role("cell")
    expect(cells.nth(3)).to_have_text("2")
    expect(cells.nth(4)).to_have_text("1")
    expect(cells.nth(5)).to_have_text("1")
    expect(page.get_by_role("columnheader", name="Due", exact=True)).to_be_visible()
    due = cells.nth(3).get_by_role("link")
    expect(due).to_have_attribute("href", re.compile("status%3Arunnable"))  # those two, and not the scheduled one
    cells.nth(5).get_by_role("link").click()
    expect(page).to_have_url(f"{yard.url}/rows?filter=status%3Aprocessing+queue%3Adefault")


def test_the_switch_pauses_and_resumes_the_queue(visit: Visit, yard: Yard) -> None:
    yard.world.enqueue("haul")
    page = visit("queues", url=yard.url)
    page.get_by_role("switch", name="Queue default").click()
    expect(page.get_by_role("switch", name="Queue default: paused")).not_to_be_checked()
    assert yard.world.sql("SELECT paused FROM queues WHERE queue = 'default'") == [(True,)]
    page.get_by_role("switch", name="Queue default").press("Space")
    expect(page.get_by_role("switch", name="Queue default: runs")).to_be_checked()
    assert yard.world.sql("SELECT paused FROM queues WHERE queue = 'default'") == [(False,)]
    assert yard.deeds("pause")[0][:3] == yard.deeds("resume")[0][:3] == ("local", "http", "default")


def test_what_i_change_is_shown_although_i_hold_the_page_still(visit: Visit, yard: Yard) -> None:
    yard.world.enqueue("haul")
    page = visit("queues", url=yard.url)
    expect(page.get_by_role("switch", name="Queue default: runs")).to_be_checked()
    page.locator(".life").click()
    expect(page.locator(".life")).to_have_text("Paused")
    page.get_by_role("switch", name="Queue default").click()
    expect(page.get_by_role("switch", name="Queue default: paused")).not_to_be_checked()


def test_limits_are_set_and_taken_away(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.limit("default", max_per_key=9))
    page = visit("queues", url=yard.url)
    page.get_by_role("button", name="Edit the limits of default").click()
    form = page.get_by_role("form", name="Limits of default")
    expect(form.get_by_label("Run at once per key")).to_have_value("9")
    form.get_by_label("Run at once", exact=True).fill("4")
    form.get_by_label("Run at once per key").fill("")
    form.get_by_label("Start per second").fill("2.5")
    form.get_by_role("button", name="Save").click()
    expect(row(page, "default")).to_contain_text("0 of 4 run · 2.5 per second, burst 3")
    assert limits_of(yard, "default") == (4, None, 2.5, 3)
    assert yard.deeds("limit")[0][2] == "default"


def test_ended_rows_are_kept_for_as_long_as_is_said(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.limit("default", max_running=4))
    page = visit("queues", url=yard.url)
    page.get_by_role("button", name="Edit the limits of default").click()
    form = page.get_by_role("form", name="Retention of default")
    form.get_by_label("Days to keep completed and cancelled rows").fill("7")
    form.get_by_role("button", name="Save retention").click()
    expect(row(page, "default")).to_contain_text("0 of 4 run · kept 7 d")
    (queue,) = yard.world.run(queues.queues())
    assert (queue.retention_seconds, queue.max_running) == (604_800.0, 4)
    assert yard.deeds("retain")[0][2] == "default"


def test_a_limit_that_cannot_be_is_refused_in_the_form(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.limit("default", max_running=4))
    page = visit("queues", url=yard.url, expect="400")
    page.get_by_role("button", name="Edit the limits of default").click()
    form = page.get_by_role("form", name="Limits of default")
    for field, text, said in (
        ("Burst", "5", "rate_per_second"),
        ("Run at once", "-1", "max_running"),
        ("Run at once", "many", "max_running"),
    ):
        form.get_by_label(field, exact=True).fill(text)
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text(said)
        form.get_by_label(field, exact=True).fill("")
    assert limits_of(yard, "default") == (4, None, None, None)


def test_a_blocked_key_is_freed_and_its_head_stays_dead(visit: Visit, yard: Yard) -> None:
    yard.dead("ship", 1, key="order:9182", ordered=True, hold=True)
    for _ in range(2):
        yard.world.enqueue("ship", key="order:9182", ordered=True, hold=True)
    page = visit("queues", url=yard.url)
    blocked = row(page, "order:9182")
    expect(blocked).to_contain_text("waits for you")
    expect(blocked.get_by_role("cell").nth(4)).to_have_text("2")
    blocked.get_by_role("button", name="Free the key order:9182").click()
    assert len(yard.world.keys_taken()) == 1, "it is asked before anything happens"
    page.get_by_role("dialog").get_by_role("button", name="Free the key").click()
    expect(page.get_by_text("No ordered key is blocked.")).to_be_visible()
    assert not yard.world.keys_taken()
    assert yard.count("ship", "dead_letter") == 1
    assert yard.deeds("free_key")[0][2] == "default order:9182"


def test_a_held_head_cannot_be_freed(visit: Visit, yard: Yard) -> None:
    for _ in range(2):
        yard.world.enqueue("ship", key="order:1", ordered=True)
    yard.world.claim_ordered()
    page = visit("queues", url=yard.url)
    expect(row(page, "order:1")).to_contain_text("is held by a worker")
    expect(row(page, "order:1").get_by_role("button")).to_have_count(0)


def test_who_may_only_read_sees_no_switch(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.pause("default"))
    with served(yard.world, "--read-only") as url:
        page = visit("queues", url=url)
        expect(row(page, "default")).to_contain_text("paused")
        expect(page.get_by_role("switch")).to_have_count(0)
        expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)


def test_it_follows_what_others_do(visit: Visit, yard: Yard) -> None:
    yard.world.enqueue("haul")
    page = visit("queues", url=yard.url)
    expect(page.get_by_role("switch", name="Queue default: runs")).to_be_visible()
    eventually(lambda: yard.world.run(queues.pause("default")))
    expect(page.get_by_role("switch", name="Queue default: paused")).to_be_visible()


def test_everybody_can_read_it(visit: Visit, yard: Yard) -> None:
    yard.world.run(queues.limit("a-queue-with-a-rather-long-name", max_running=4, max_per_key=1, rate_per_second=10))
    yard.world.run(queues.pause("a-queue-with-a-rather-long-name"))
    yard.dead("ship", 1, key="customer:a-rather-long-key-of-somebody", ordered=True, hold=True)
    page = visit("queues", url=yard.url)
    page.get_by_role("button", name="Edit the limits of a-queue-with-a-rather-long-name").click()
    expect(page.get_by_role("button", name="Free the key")).to_be_visible()
    assert faults(page) == []
