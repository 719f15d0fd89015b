"""Schedules: in words, by the clock of their zone; run now, paused, removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop, served
from faces.browser.yard import OPERATOR, Yard, enter_as_operator, open_yard
from tenure.verbs.schedules import Schedule, plan


@pytest.fixture(scope="module")
def opened(shop: Shop) -> Iterator[Yard]:
    """One yard for all of them."""
    with open_yard(shop) as yard:
        yield yard


@pytest.fixture
def yard(opened: Yard) -> Yard:
    """The same with no schedule left."""
    opened.world.sql("DELETE FROM schedules")
    return opened


def row(page: Any, name: str) -> Any:
    """The line of this name."""
    return page.get_by_role("row").filter(has_text=name)


def test_a_schedule_is_told_in_words_paused_and_resumed(visit: Visit, yard: Yard) -> None:
    yard.world.run(plan(Schedule("nightly", "30 2 * * *", "report", zone="Europe/Berlin")))
    page = visit("schedules", url=yard.url)
    expect(row(page, "nightly")).to_contain_text("At 02:30 every day")
    expect(row(page, "nightly")).to_contain_text("Europe/Berlin")
    coming = row(page, "nightly").get_by_role("cell").nth(3)
    expect(coming).to_contain_text(re.compile(r"in .* 02:30 \+0[12]:00 Europe", re.DOTALL))
    page.locator(".coming summary").click()
    expect(page.locator(".coming li")).to_have_count(4)
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_role("switch", name="Schedule nightly").click()
    expect(page.get_by_role("switch", name="Schedule nightly: paused")).to_be_visible()
    assert yard.world.sql("SELECT paused FROM schedules") == [(True,)]
    page.get_by_role("switch", name="Schedule nightly").click()
    expect(page.get_by_role("switch", name="Schedule nightly: runs")).to_be_visible()
    assert yard.world.sql("SELECT paused FROM schedules") == [(False,)]


def test_a_schedule_is_removed_after_a_question(visit: Visit, yard: Yard) -> None:
    yard.world.run(plan(Schedule("old", "0 0 1 1 *", "report")))
    page = visit("schedules", url=yard.url)
    page.get_by_role("button", name="Remove the schedule old").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    assert yard.world.count("schedules") == 1
    page.get_by_role("button", name="Remove the schedule old").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("There are no schedules.")).to_be_visible()
    expect(page.get_by_text("inbox.schedule(")).to_be_visible()
    assert yard.world.count("schedules") == 0
    assert yard.deeds("unplan")[0][:3] == ("local", "http", "old")


def test_a_schedule_is_run_now_after_a_question(visit: Visit, yard: Yard) -> None:
    yard.world.run(plan(Schedule("nightly", "30 2 * * *", "report", {"n": 1})))
    page = visit("schedules", url=yard.url)
    page.get_by_role("button", name="Run now the schedule nightly").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page.get_by_text("A row of report is enqueued.")).to_be_visible()
    assert yard.count("report", "pending") == 1
    assert yard.deeds("fire")[0][:4] == ("local", "http", "nightly", 1)


def test_who_may_only_read_finds_no_button(visit: Visit, yard: Yard) -> None:
    yard.world.run(plan(Schedule("nightly", "30 2 * * *", "report")))
    with served(yard.world, "--read-only") as url:
        page = visit("schedules", url=url)
        expect(row(page, "nightly")).to_contain_text("runs")
        expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
        page.close()


def test_an_operator_may_pause_a_schedule_and_not_remove_it(visit: Visit, yard: Yard) -> None:
    yard.world.run(plan(Schedule("nightly", "30 2 * * *", "report")))
    with served(yard.world, **OPERATOR) as url:
        page = visit("schedules", url=url, expect="401")
        enter_as_operator(page)
        page.get_by_role("switch", name="Schedule nightly").click()
        expect(page.get_by_role("switch", name="Schedule nightly: paused")).to_be_visible()
        expect(page.get_by_role("button", name="Remove")).to_have_count(0)
        page.close()
    assert yard.deeds("pause_schedule")[0][:3] == ("ann", "http", "nightly")
