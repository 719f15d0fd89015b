"""Rows: one filter that lives in the address, states, keys, and verbs that say exactly what they will do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faces.browser.conftest import NARROW, Visit, faults, serious
from faces.browser.shop import Shop
from tenure.model.rows import Lane

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect


def _box(page: Any) -> Any:
    return page.get_by_role("combobox", name="Filter rows")


def test_the_rail_counts_and_leads_to_each_state(visit: Visit) -> None:
    page = visit("rows?filter=kind:send_receipt")
    rail = page.get_by_role("navigation", name="States")
    expect(rail.get_by_role("link", name="completed")).to_contain_text(re.compile(r"\d+k?\+"))
    rail.get_by_role("link", name="dead letter").click()
    expect(_box(page)).to_have_value("status:dead_letter kind:send_receipt")
    expect(page.locator("tbody .is-dead_letter").first).to_be_visible()
    expect(page.locator("tbody tr td:nth-child(2)", has_not_text="dead letter")).to_have_count(0)


def test_typing_changes_the_address_without_filling_the_history_and_enter_makes_a_step(visit: Visit) -> None:
    page = visit("rows")
    before = page.evaluate("() => history.length")
    _box(page).press_sequentially("kind:ship_order", delay=5)
    expect(page).to_have_url(re.compile(r"filter=kind%3Aship_order$"))
    expect(page.locator("tbody td.title", has_not_text="ship_order")).to_have_count(0)
    assert page.evaluate("() => history.length") == before
    _box(page).fill("kind:ship_order status:failed")
    _box(page).press("Enter")
    expect(page.locator("tbody .is-failed").first).to_be_visible()
    page.reload()
    expect(_box(page)).to_have_value("kind:ship_order status:failed")


def test_a_wrong_word_is_named_under_the_box_and_the_rows_stay(visit: Visit) -> None:
    page = visit("rows", expect="400")
    expect(page.locator("tbody tr")).to_have_count(50)
    _box(page).fill("knd:send_receipt")
    expect(page.locator("#filter-fault")).to_contain_text("knd")
    expect(_box(page)).to_have_attribute("aria-invalid", "true")
    expect(page.locator("tbody tr")).to_have_count(50)
    assert serious(page) == []


def test_an_old_word_is_understood_and_the_new_one_is_named_under_the_box(visit: Visit) -> None:
    page = visit("rows?filter=status:dead")
    expect(page.locator("#filter-hint")).to_have_text("status:dead is now status:dead_letter")
    expect(page.locator("tbody .is-dead_letter").first).to_be_visible()
    _box(page).fill("status:dead_letter")
    expect(page.locator("#filter-hint")).to_be_hidden()
    assert serious(page) == []


def test_the_box_completes_fields_states_and_values_by_keyboard(visit: Visit) -> None:
    """And asks the server about no word that is only begun: a 400 would be a complaint."""
    page = visit("rows")
    expect(page.locator("tbody tr")).to_have_count(50)
    _box(page).press_sequentially("sta", delay=5)
    expect(page.get_by_role("option", name="status:")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(_box(page)).to_have_value("status:")
    _box(page).press_sequentially("dea", delay=5)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(_box(page)).to_have_value("status:dead_letter ")
    expect(page).to_have_url(re.compile("dead_letter"))
    _box(page).press_sequentially("kind:s", delay=5)
    expect(page.get_by_role("option", name="ship_order")).to_be_visible()


def test_rows_are_walked_chosen_and_opened_by_keyboard(visit: Visit, shop: Shop) -> None:
    page = visit("rows?filter=status:failed")
    lines = page.locator("tbody tr")
    expect(lines).to_have_count(50)
    page.keyboard.press("j")
    expect(lines.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(lines.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(lines.nth(0)).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_role("region", name="Chosen rows")).to_contain_text("1 row chosen")
    expect(page.locator(".life")).to_have_text("Paused, rows selected")
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(page.locator(".life")).to_have_text("Live")
    chosen = lines.nth(0).get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{shop.url}/rows/{chosen}")
    page.go_back()
    expect(lines).to_have_count(50)


def test_all_that_match_are_redriven_after_the_number_has_been_typed(visit: Visit, shop: Shop) -> None:
    shop.dead("redriven_in_bulk", 1203)
    page = visit("rows?filter=status:dead_letter kind:redriven_in_bulk")
    page.get_by_role("checkbox", name="Choose every row of this page").check()
    page.get_by_role("button", name=re.compile(r"Choose all [\d,]+\+? matching")).click()
    page.get_by_role("button", name="Redrive…").click()
    dialog = page.get_by_role("dialog", name="Redrive 1,203 rows?")
    expect(dialog).to_contain_text("status:dead_letter kind:redriven_in_bulk")
    go = dialog.get_by_role("button", name="Redrive 1,203 rows")
    expect(go).to_be_disabled()
    assert serious(page) == []
    dialog.get_by_label("Reason, for the audit").fill("mail is back")
    dialog.get_by_label("Type 1,203 to go on").fill("1203")
    go.click()
    expect(page.get_by_role("status").filter(has_text="1,203 rows redriven")).to_be_visible()
    assert shop.count("redriven_in_bulk", "pending") == 1203
    ((reason, rows),) = shop.world.sql("SELECT reason, rows FROM audit WHERE target LIKE '%%redriven_in_bulk%%'")
    assert (reason, rows) == ("mail is back", 1203)


def test_leaving_the_dialog_changes_nothing(visit: Visit, shop: Shop) -> None:
    shop.dead("left_alone", 3)
    page = visit("rows?filter=kind:left_alone")
    page.get_by_role("checkbox", name="Choose every row of this page").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert shop.count("left_alone", "dead_letter") == 3


@pytest.mark.parametrize(
    ("verb", "status", "then"),
    [
        ("Cancel", "pending", "cancelled"),
        ("Delete", "dead_letter", None),
        ("Retry now", "scheduled", "pending"),
        ("Release", "processing", "pending"),
    ],
)
def test_each_verb_acts_on_the_chosen_rows_and_on_no_other(
    visit: Visit, shop: Shop, verb: str, status: str, then: str | None
) -> None:
    kind = f"chosen_to_{verb.split()[0].lower()}"
    if status == "dead_letter":
        shop.dead(kind, 3)
    else:
        shop.enqueue(kind, 3)
    if status == "scheduled":
        shop.world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 h' WHERE kind = %s", kind)
    if status == "processing":
        shop.world.sql(
            """UPDATE live SET status = 'processing', claimed_by = 'w', claimed_at = clock_timestamp(), claim_id = 1,
                 lease_generation = 1, lease_expires_at = clock_timestamp() + interval '1 h' WHERE kind = %s""",
            kind,
        )
    page = visit(f"rows?filter=kind:{kind}")
    for i in (0, 2):
        page.locator("tbody input").nth(i).check()
    spared = page.locator("tbody tr").nth(1).get_attribute("data-id")
    page.get_by_role("button", name=f"{verb}…").click()
    page.get_by_role("dialog").get_by_role("button", name=f"{verb.split()[0]} 2 rows").click()
    expect(page.get_by_role("status").filter(has_text="2 rows")).to_be_visible()
    left = shop.world.sql("SELECT id::text, status, available_at <= clock_timestamp() FROM inbox WHERE kind = %s", kind)
    assert [each for each in left if each[0] == spared] == [
        (spared, "pending" if status == "scheduled" else status, status != "scheduled")
    ]
    assert [each[1:] for each in left if each[0] != spared] == ([(then, True)] * 2 if then else [])


def test_a_refusal_of_the_server_is_said_and_nothing_is_changed(visit: Visit, shop: Shop) -> None:
    shop.dead("grows_meanwhile", 2)
    page = visit("rows?filter=kind:grows_meanwhile", expect="409")
    page.get_by_role("checkbox", name="Choose every row of this page").check()
    expect(page.get_by_text("2 rows chosen")).to_be_visible()
    page.route(
        "**/api/actions",
        lambda route: route.continue_(
            post_data=json.dumps({**route.request.post_data_json, "filter": "kind:grows_meanwhile"})
        ),
    )
    page.get_by_role("button", name="Redrive…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    shop.dead("grows_meanwhile", 1)
    page.get_by_role("dialog").get_by_role("button", name="Redrive 2 rows").click()
    expect(page.get_by_text("redrive would now change 3 rows, not 2")).to_be_visible()
    assert shop.count("grows_meanwhile", "dead_letter") == 3


def test_a_search_that_finds_nothing_says_how_far_it_got_and_goes_on(visit: Visit) -> None:
    page = visit("rows?filter=status:completed payload.order_id:74990")
    onward = page.get_by_role("link", name="Search more")
    expect(page.get_by_text(re.compile(r"searched [\d,]+ rows so far"))).to_be_visible()
    for _ in range(40):
        with page.expect_response("**/api/rows?*before=*") as answered:
            onward.click()
        if answered.value.json()["rows"]:
            break
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="← Newest").click()
    expect(page).to_have_url(re.compile(r"rows\?filter=status%3Acompleted\+payload.order_id%3A74990$"))


def test_pages_follow_each_other_and_the_payload_is_hidden_on_demand(visit: Visit) -> None:
    page = visit("rows?filter=status:completed")
    first = page.locator("tbody tr").first.get_attribute("data-id")
    page.get_by_role("link", name="Older →").click()
    expect(page.locator(f"tbody tr[data-id='{first}']")).to_have_count(0)
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.locator("tbody tr").first).to_contain_text('"order_id"')
    page.get_by_role("button", name="Hide payload").click()
    expect(page.locator("tbody tr").first).not_to_contain_text('"order_id"')
    expect(page).to_have_url(re.compile("payload=0"))
    page.go_back()
    expect(page.locator(f"tbody tr[data-id='{first}']")).to_have_count(1)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_the_filter_is_exported(visit: Visit, tmp_path: Path, format: str) -> None:
    page = visit("rows?filter=status:failed kind:ship_order")
    with page.expect_download() as saved:
        page.get_by_role("link", name=format.upper(), exact=True).click()
    saved.value.save_as(tmp_path / "rows")
    lines = (tmp_path / "rows").read_text().splitlines()
    assert len(lines) > 100
    assert "ship_order" in lines[1]


def test_a_held_row_shows_its_lease_running_out(visit: Visit) -> None:
    page = visit("rows?filter=status:processing kind:charge_card")
    holder = page.locator(".holder").last
    expect(holder).to_contain_text(re.compile(r"shop-7f9c-\d"))
    left = holder.locator(".quiet").inner_text()
    expect(holder.locator(".quiet")).not_to_have_text(left)


def test_an_error_is_told_by_its_line_with_room_beside_a_row_without_a_key(visit: Visit, shop: Shop) -> None:
    line = f"RuntimeError: the courier has no van for order 9182 {'and none for the next one either ' * 3}"
    shop.dead("boom", 2)
    trace = 'Traceback (most recent call last):\n  File "/srv/shop/app.py", line 13, in boom\n    raise it\n'
    shop.world.sql("UPDATE dead SET last_error = %s WHERE kind = 'boom'", f"{trace * 4}{line}")
    page = visit("rows?filter=kind:boom")
    error = page.locator("tbody .error").first
    expect(error).to_have_text(line)
    expect(error).to_have_attribute("title", line.strip())
    expect(page.locator("tbody td[data-label=Key]").first).to_have_text("–")
    assert error.bounding_box()["width"] > 300


def test_the_error_of_a_completed_row_is_called_an_earlier_one(visit: Visit, shop: Shop) -> None:
    id = shop.world.enqueue("mended", queue="mended")
    (job,) = shop.world.claim("w", 1, lanes=[Lane("mended")])
    shop.world.sql("UPDATE live SET last_error = 'boom' WHERE id = %s", id)
    shop.world.complete(job.lease)
    page = visit("rows?filter=kind:mended")
    expect(page.locator("tbody .error")).to_have_text("Earlier error: boom")
    page = visit(f"rows/{id}")
    expect(page.get_by_role("heading", name="Earlier error")).to_be_visible()


def test_rows_are_cards_on_a_phone(visit: Visit) -> None:
    page = visit("rows?filter=status:dead_letter", width=NARROW)
    first = page.locator("tbody tr").first
    expect(first).to_be_visible()
    assert first.bounding_box()["width"] <= NARROW
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()


def test_a_head_sorts_the_rows_shown_and_a_range_and_a_view_are_kept(visit: Visit) -> None:
    page = visit("rows?filter=status:completed")
    head = page.get_by_role("columnheader", name="Key")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    shown = page.locator("tbody td[data-label=Key]").all_inner_texts()
    keys = [int(text.split(":")[1]) for text in shown if ":" in text]  # without one it is a dash
    assert len(keys) > 2
    assert keys == sorted(keys)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    with page.expect_response("**/api/rows?*age*"):
        page.get_by_label("Created").select_option("in the last hour")
    expect(page.get_by_role("combobox", name="Filter rows")).to_have_value("status:completed age:<1h")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("Name of the view").fill("lately done")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Rows", exact=True).first.click()
    expect(page.get_by_role("combobox", name="Filter rows")).to_have_value("")
    page.reload()
    page.get_by_role("link", name="lately done").click()
    expect(page).to_have_url(re.compile("sort=-key"))
    expect(page.get_by_role("combobox", name="Filter rows")).to_have_value("status:completed age:<1h")
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_role("button", name="Forget the view lately done").click()
    expect(page.get_by_role("link", name="lately done")).to_have_count(0)
