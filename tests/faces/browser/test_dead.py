"""Dead letters: groups by error, and actions that are sent only when ten seconds have passed without undo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from crew import eventually
from faces.browser.conftest import Visit, faults, overflow
from faces.browser.shop import Shop, served
from faces.browser.yard import OPERATOR, Yard, enter_as_operator, open_yard

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/bank.py", line 88, in charge
    return bank.post(order, timeout=10)
TimeoutError: the bank did not answer within 10 s"""


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for this page."""
    with open_yard(shop) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _nothing_dead(yard: Yard) -> None:
    yard.world.sql("DELETE FROM dead")
    yard.world.sql("DELETE FROM live")


def group(page: Page, kind: str) -> Locator:
    """The group of a kind."""
    return page.get_by_role("list", name="Groups by kind and error").get_by_role("listitem").filter(has_text=kind)


def ask(page: Page, verb: str, kind: str, **said: str) -> None:
    """Press the group's button, answer the dialog, and stand still on the clock."""
    page.clock.install()
    group(page, kind).get_by_role("button", name=verb).click()
    for name, text in said.items():
        page.get_by_role("dialog").locator(f"input[name={name}]").fill(text)
    page.get_by_role("dialog").get_by_role("button", name=verb).click()
    expect(page.get_by_role("region", name="Actions to be sent")).to_contain_text(f"{verb} ")


def actions(page: Page) -> list[dict[str, Any]]:
    """What the page really asked the server to change, from now on."""
    sent: list[dict[str, Any]] = []

    def hear(request: Request) -> None:
        if request.url.endswith("/api/actions"):
            sent.append(request.post_data_json or {})

    page.on("request", hear)
    return sent


def test_rows_with_the_same_error_are_one_group(visit: Visit, yard: Yard) -> None:
    yard.dead("charge_card", 3, TRACEBACK)
    yard.dead("charge_card", 2, "KeyError: 'order_id'", fail=True)
    page = visit("dead", url=yard.url)
    expect(page.locator(".note")).to_have_text("5 rows in 2 groups")
    timed_out = group(page, "TimeoutError: the bank did not answer")
    expect(timed_out).to_contain_text("3")
    expect(timed_out).to_contain_text("dead letter")
    expect(group(page, "KeyError")).to_contain_text("failed")
    expect(timed_out.get_by_text("/srv/shop/bank.py")).to_be_hidden()
    timed_out.locator("summary").click()
    expect(timed_out.get_by_text("/srv/shop/bank.py")).to_be_visible()


def test_a_group_leads_to_its_latest_row_and_to_all_of_them(visit: Visit, yard: Yard) -> None:
    yard.dead("ship_order", 2)
    ((latest,),) = yard.world.sql("SELECT id FROM dead ORDER BY finished_at DESC LIMIT 1")
    page = visit("dead", url=yard.url)
    expect(group(page, "ship_order").get_by_role("link", name="latest row")).to_have_attribute("href", f"rows/{latest}")
    group(page, "ship_order").get_by_role("link", name="all of them").click()
    expect(page).to_have_url(
        f"{yard.url}/rows?filter=status%3Adead_letter+kind%3Aship_order+fingerprint%3A" + _fingerprint(yard)
    )
    expect(page.locator(f"a[href*='{latest}']").first).to_be_visible()


def _fingerprint(yard: Yard) -> str:
    return str(yard.world.sql("SELECT fingerprint FROM dead LIMIT 1")[0][0])


def test_redrive_is_sent_when_ten_seconds_have_passed(visit: Visit, yard: Yard) -> None:
    yard.dead("again", 3)
    page = visit("dead", url=yard.url)
    sent = actions(page)
    ask(page, "Redrive", "again", reason="the bank is back")
    page.clock.run_for(9_500)
    assert [each["dry_run"] for each in sent] == [True], "only counted so far"
    assert yard.count("again", "dead_letter") == 3
    page.clock.run_for(1_000)
    expect(page.get_by_text("3 rows redriven.")).to_be_visible()
    assert yard.count("again", "pending") == 3
    actor, via, target, rows, reason = yard.deeds("redrive")[0]
    assert (actor, via, rows, reason) == ("local", "http", 3, "the bank is back")
    assert target.startswith("status:dead_letter kind:again fingerprint:")


def test_undo_sends_nothing(visit: Visit, yard: Yard) -> None:
    yard.dead("kept", 2)
    page = visit("dead", url=yard.url)
    sent = actions(page)
    ask(page, "Redrive", "kept")
    page.clock.run_for(6_000)
    expect(page.get_by_role("button", name="Undo: Redrive 2 rows")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Undone: nothing was sent.")).to_be_visible()
    page.clock.run_for(20_000)
    assert [each["dry_run"] for each in sent] == [True]
    assert yard.count("kept", "dead_letter") == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [(409, "Nothing was changed: it broke"), (503, "it broke. The audit shows the rows changed.")],
)
def test_only_a_refusal_is_said_to_have_changed_nothing(visit: Visit, yard: Yard, status: int, words: str) -> None:
    def answer(route: Any) -> None:
        if route.request.post_data_json["dry_run"]:
            route.continue_()
        else:
            route.fulfill(status=status, json={"error": "it broke"})

    yard.dead(f"broken{status}", 2)
    page = visit("dead", url=yard.url, expect=str(status))
    page.route("**/api/actions", answer)
    ask(page, "Redrive", f"broken{status}")
    page.clock.run_for(11_000)
    expect(page.get_by_text(words)).to_be_visible()


def test_leaving_the_page_sends_nothing_and_says_so(visit: Visit, yard: Yard) -> None:
    yard.dead("left", 2)
    page = visit("dead", url=yard.url)
    sent = actions(page)
    ask(page, "Delete", "left")
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_text("You left the page: nothing was sent (delete 2 rows).")).to_be_visible()
    page.clock.run_for(20_000)
    assert [each["dry_run"] for each in sent] == [True]
    assert yard.count("left", "dead_letter") == 2


def test_delete_deletes_the_group_and_no_other(visit: Visit, yard: Yard) -> None:
    yard.dead("junk", 2, "ValueError: junk")
    yard.dead("junk", 1, "KeyError: another")
    page = visit("dead", url=yard.url)
    page.clock.install()
    group(page, "ValueError: junk").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 rows").click()
    page.clock.run_for(11_000)
    expect(page.get_by_text("2 rows deleted.")).to_be_visible()
    assert yard.world.sql("SELECT last_error FROM dead WHERE kind = 'junk'") == [("KeyError: another",)]
    assert yard.deeds("delete")[0][3] == 2


def test_above_a_thousand_rows_the_number_must_be_typed(visit: Visit, yard: Yard) -> None:
    yard.world.sql(
        """INSERT INTO dead (id, seq, created_at, available_at, finished_at, lease_generation, fence_token, attempts,
             max_attempts, priority, ordered, hold, status, kind, queue, payload, last_error)
           SELECT new_id(), n, t, t, t, 1, n, 5, 5, 0, false, false, 'dead_letter', 'many', 'default', '{}', 'KeyError'
           FROM generate_series(1, 1001) AS n, clock_timestamp() AS t"""
    )
    page = visit("dead", url=yard.url)
    page.clock.install()
    group(page, "many").get_by_role("button", name="Redrive").click()
    go_on = page.get_by_role("dialog").get_by_role("button", name="Redrive 1,001 rows")
    expect(go_on).to_be_disabled()
    page.locator("input[name=typed]").fill("1000")
    expect(go_on).to_be_disabled()
    page.locator("input[name=typed]").fill("1001")
    go_on.click()
    page.clock.run_for(11_000)
    expect(page.get_by_text("1,001 rows redriven.")).to_be_visible()
    assert yard.count("many", "pending") == 1001


def test_what_grew_meanwhile_is_left_alone(visit: Visit, yard: Yard) -> None:
    yard.dead("growing", 1)
    page = visit("dead", url=yard.url, expect="409")
    ask(page, "Redrive", "growing")
    yard.dead("growing", 1)
    page.clock.run_for(11_000)
    expect(page.get_by_text("Nothing was changed:")).to_be_visible()
    assert yard.count("growing", "dead_letter") == 2


def test_two_groups_wait_side_by_side(visit: Visit, yard: Yard) -> None:
    yard.dead("pack", 1)
    yard.dead("sail", 1)
    page = visit("dead", url=yard.url)
    ask(page, "Redrive", "pack")
    page.clock.run_for(5_000)
    ask(page, "Redrive", "sail")
    page.clock.run_for(6_000)
    eventually(lambda: yard.count("pack", "pending") == 1)
    expect(page.get_by_role("region", name="Actions to be sent")).to_contain_text("kind:sail")
    assert yard.count("sail", "dead_letter") == 1


def test_nothing_dead_is_said_in_words(visit: Visit, yard: Yard) -> None:
    expect(visit("dead", url=yard.url).get_by_text("No failed rows and no dead letters.")).to_be_visible()


def test_who_may_only_read_sees_no_button(visit: Visit, yard: Yard) -> None:
    yard.dead("seen", 1)
    with served(yard.world, "--read-only") as url:
        page = visit("dead", url=url)
        expect(group(page, "seen")).to_be_visible()
        expect(group(page, "seen").get_by_role("button")).to_have_text(["Copy command"])


def test_an_operator_may_redrive_and_not_delete(visit: Visit, yard: Yard) -> None:
    yard.dead("seen", 1)
    with served(yard.world, **OPERATOR) as url:
        page = visit("dead", url=url, expect="401")
        enter_as_operator(page)
        expect(group(page, "seen").get_by_role("button")).to_have_text(["Redrive", "Copy command"])


def test_everybody_can_read_it(visit: Visit, yard: Yard) -> None:
    yard.dead("a_kind_with_quite_a_long_name_for_its_own_good", 1, TRACEBACK)
    yard.dead("other", 1, "x" * 300)
    page = visit("dead", url=yard.url)
    group(page, "long_name").locator("summary").click()
    ask(page, "Redrive", "other")
    assert faults(page) == []


def test_the_shop_with_a_hundred_thousand_rows_shows_its_groups(visit: Visit) -> None:
    page = visit("dead")
    expect(group(page, "ConnectionError: mail.example.test refused").first).to_contain_text("rows")
    assert overflow(page) <= 0
