"""One row: its tape, its late write, its payload to the digit, and its own verbs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from faces.browser.conftest import NARROW, WIDE, Visit, overflow
from faces.browser.shop import BIG, Shop

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect


def test_the_tape_shows_who_held_the_row_and_the_write_that_came_too_late(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    expect(page.get_by_role("heading", level=1)).to_have_text("charge_card order:9182")
    expect(page.locator(".why")).to_contain_text("shop-7f9c-3")
    tape = page.locator(".tape")
    expect(tape.locator(".lane")).to_have_count(3)
    expect(tape.locator(".out-expired .torn")).to_have_count(1)
    expect(tape.locator(".lease")).to_have_count(1)
    expect(tape.locator(".stale-mark title")).to_contain_text(
        "shop-6d11-4 tried to complete with token 1, the row was at token 2: refused"
    )
    told = re.compile("attempt 1 by shop-6d11-4 expired.*1 late write refused")
    expect(tape.get_by_role("img")).to_have_attribute("aria-label", told)
    colours = {
        tape.locator(".lane").nth(i).locator(".held").evaluate("(bar) => getComputedStyle(bar).fill") for i in range(3)
    }
    assert len(colours) == 3


def test_the_same_stands_in_words_below(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    table = page.get_by_role("table", name="Attempts and refused writes")
    expect(table.locator("tr.refused")).to_contain_text("complete, row at token 2")
    expect(table.get_by_text("lease expired")).to_be_visible()
    expect(table.get_by_text("processing", exact=True)).to_be_visible()
    table.locator("summary", has_text="TimeoutError: the bank did not answer within 10 s").click()
    expect(table.get_by_text("bank.py")).to_be_visible()


def test_every_digit_of_the_payload_is_a_digit_of_the_row_and_secrets_are_not_shown(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    payload = page.locator(".json").first
    expect(payload).to_contain_text(f'"order_id": {BIG}')
    expect(payload).to_contain_text('"amount": 49.90')
    expect(payload).to_contain_text('"password": "***"')
    expect(page.locator("body")).not_to_contain_text("hunter2")
    expect(page.locator(".json").nth(1)).to_contain_text("00-4bf92f3577b34da6a3ce929d0e0e4736")


def test_its_keys_its_effects_and_its_neighbours_are_told(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    expect(page.get_by_text("charge-9182 was first sent")).to_be_visible()
    expect(page.locator(".effects")).to_contain_text("receipt")
    page.locator(".neighbours a").click()
    expect(page).to_have_url(f"{shop.url}/rows/{shop.waiting}")
    expect(page.get_by_text("No worker has held this row yet.")).to_be_visible()
    expect(page.locator(".why")).to_contain_text(str(shop.contested))


def test_the_command_and_the_sql_are_copied(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.contested}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as command").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"tenure row {shop.contested}"
    page.get_by_role("button", name="Copy as SQL").click()
    page.get_by_text("The same in SQL").click()
    sql = page.locator(".sql pre").inner_text()
    assert str(shop.contested) in sql
    assert page.evaluate("() => navigator.clipboard.readText()").strip() == sql.strip()


def test_only_the_verbs_of_its_state_are_offered_and_they_act(visit: Visit, shop: Shop) -> None:
    shop.dead("one_dead", 1)
    ((id,),) = shop.world.sql("SELECT id FROM dead WHERE kind = 'one_dead'")
    page = visit(f"rows/{id}")
    expect(page.get_by_role("button", name="Redrive…")).to_be_visible()
    expect(page.get_by_role("button", name="Release…")).to_have_count(0)
    page.get_by_role("button", name="Redrive…").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 1 row").click()
    expect(page.locator(".row-title .status")).to_have_text("runnable")
    assert shop.count("one_dead", "pending") == 1


def test_a_row_that_is_not_there_is_said_to_be_gone(visit: Visit) -> None:
    page = visit(f"rows/{uuid4()}", expect="404")
    expect(page.get_by_role("alert")).to_contain_text("there is no row")


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_no_two_times_on_the_tape_stand_upon_each_other(visit: Visit, shop: Shop, width: int, n: int) -> None:
    kind = f"retried_{n}_{width}"
    shop.dead(kind, 1)
    shop.world.sql(
        """INSERT INTO attempts (row_id, fence_token, lease_generation, worker, claimed_at, ended_at, outcome, error)
           SELECT d.id, i, i, 'shop-7f9c-1', d.finished_at - at, d.finished_at - at + interval '0.1 s', 'retried', 'E'
           FROM dead AS d, generate_series(1, %s) AS i, LATERAL (SELECT (%s - i) * interval '1.6 s') AS of (at)
           WHERE d.kind = %s""",
        *(n, n, kind),
    )
    ((id,),) = shop.world.sql("SELECT id FROM dead WHERE kind = %s", kind)
    page = visit(f"rows/{id}", width=width)
    expect(page.locator(".tape .lane")).to_have_count(n)
    expect(page.locator(".tape .fold")).to_have_count(n - 1)
    expect(page.locator(".tape .fold title").first).to_have_text("1.5 s in between")
    expect(page.locator(".tape .folds text").first).to_be_visible()
    times = page.locator(".tape .folds text, .tape .ends text").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.right])"
    )
    assert all(right + 2 <= left for (_, right), (left, _) in itertools.pairwise(sorted(times))), times


def test_a_completed_row_ends_its_tape_with_a_tick_and_fits_a_phone(visit: Visit, shop: Shop) -> None:
    page = visit(f"rows/{shop.ended}", width=NARROW)
    expect(page.locator(".tape .end.good")).to_have_count(1)
    assert overflow(page) <= 0
