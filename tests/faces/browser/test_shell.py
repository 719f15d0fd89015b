"""The shell: ways, keys, themes, life and death of the stream, the door, and any prefix."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from faces.browser.conftest import NARROW, WIDE, Visit, faults, serious
from faces.browser.shop import Shop, served
from slices import slice_of
from tenure.drills.stage.proxy import FaultProxy
from tenure.model.filter import is_prefix, literal, parse

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect

PAGES = ["", "rows?filter=status:processing kind:charge_card", "rows/{contested}"]


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_read_a_page_and_finds_its_menu_on_a_phone(visit: Visit, shop: Shop, path: str) -> None:
    page = visit(path.format(contested=shop.contested))
    expect(page.locator("h1")).to_be_visible()
    page.wait_for_load_state("load")
    assert faults(page) == []
    page.set_viewport_size({"width": NARROW, "height": 860})
    expect(page.get_by_role("button", name="Menu")).to_be_visible()


def test_keys_jump_from_page_to_page(visit: Visit) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page).to_have_url(re.compile("/rows$"))
    expect(page).to_have_title("Rows · Tenure")
    page.keyboard.press("g")
    page.keyboard.press("p")  # alone it pauses
    expect(page).to_have_url(re.compile("/projections$"))
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile("/$"))
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Filter rows")).to_be_focused()


def test_a_question_mark_shows_the_keys_and_escape_puts_them_away(visit: Visit) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys and words")).to_be_visible()
    assert serious(page) == []
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": 860})
        gaps = page.locator("dialog .pairs > div").evaluate_all(
            """(pairs) => pairs.map(({children: [sign, what]}) =>
                 what.getBoundingClientRect().left - sign.firstElementChild.getBoundingClientRect().right)"""
        )
        assert min(gaps) >= 8, gaps
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_theme_is_kept(visit: Visit) -> None:
    page = visit(theme="dark")
    dark = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    page.get_by_role("button", name="Theme: auto").click()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor") != dark


def test_the_page_holds_still_when_told_and_when_nobody_looks(visit: Visit) -> None:
    page = visit()
    life = page.locator(".life")
    expect(life).to_have_text("Live")
    life.click()
    expect(life).to_have_text("Paused")
    life.click()
    expect(life).to_have_text("Live")
    hide = """(on) => {
      Object.defineProperty(document, "hidden", { value: on, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    expect(life).to_have_text("Paused")
    page.evaluate(hide, False)
    expect(life).to_have_text("Live")


def test_a_lost_stream_is_said_and_the_page_polls(visit: Visit) -> None:
    page = visit(before=lambda page: page.route("**/api/events", lambda route: route.abort()), expect="ERR_FAILED")
    expect(page.locator(".life")).to_have_text("Connection lost, retrying")
    with page.expect_request("**/api/overview*"):
        pass
    page.unroute("**/api/events")
    expect(page.locator(".life")).to_have_text("Live")


def test_a_database_that_goes_away_is_said_on_every_page_and_live_returns_with_it(visit: Visit, shop: Shop) -> None:
    with FaultProxy(shop.world.url) as proxy, served(shop.world, "--database-url", proxy.url) as url:
        before = visit(url=url, expect="503")
        expect(before.locator(".life")).to_have_text("Live")
        expect(before.get_by_role("navigation", name="Now")).to_be_visible()
        proxy.refuse()
        proxy.cut()
        expect(before.locator(".life.is-lost")).to_have_text("Database unreachable")
        during = visit("rows", url=url, expect="503")
        for page in (before, during):
            expect(page.locator(".life.is-lost")).to_have_text("Database unreachable")
            expect(page.locator(".life")).to_have_attribute("title", re.compile("the database does not answer"))
            expect(page.get_by_role("alert")).to_contain_text("the database does not answer")
            assert faults(page) == []
        expect(before.locator(".page-head .note")).to_contain_text("as of")
        proxy.heal()
        for page in (before, during):
            expect(page.locator(".life.is-live")).to_have_text("Live")
            expect(page.get_by_role("alert")).to_have_count(0)
        expect(before.locator(".page-head .note")).to_have_count(0)
        expect(during.locator("tbody tr")).to_have_count(50)
        before.close()
        during.close()


def test_nothing_is_called_live_before_the_server_has_said_a_number(visit: Visit) -> None:
    page = visit(before=lambda page: page.route("**/api/events", lambda _: None))
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".life")).to_have_text("Connecting")


def test_the_door_asks_for_the_token_and_opens_for_it(visit: Visit, shop: Shop) -> None:
    with served(shop.world, TENURE_WEB_TOKEN="open-sesame") as url:
        page = visit("rows", url=url, expect="401")
        page.get_by_label("Access token or password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).not_to_be_empty()
        assert serious(page) == []
        page.get_by_label("Access token or password").fill("open-sesame")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Rows")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Rows")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Access token or password")).to_be_visible()
        page.close()


def test_who_has_no_link_is_told_which_one_to_open_and_who_opens_it_is_in(visit: Visit, shop: Shop) -> None:
    with served(shop.world) as url:
        page = visit("rows", url=url, expect="401", stranger=True)
        expect(page.get_by_role("status").first).to_have_text(re.compile("open the one that tenure serve printed last"))
        expect(page.get_by_label("Access token or password")).to_have_count(0)
        assert faults(page) == []
        known = visit("rows", url=url, expect="401")
        expect(known.get_by_role("heading", name="Rows")).to_be_visible()
        known.get_by_role("button", name="Log out").click()
        expect(known.get_by_role("status").first).to_have_text(re.compile("this dashboard opens by a link"))
        page.close()
        known.close()


def test_where_everybody_is_let_in_there_is_no_way_out_and_a_broken_address_is_no_stumble(
    visit: Visit, shop: Shop
) -> None:
    with served(shop.world, "--insecure") as url:
        page = visit("rows/%ff", url=url, expect="400")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_text("This page has a bug")).to_have_count(0)
        expect(page.get_by_role("button", name="Log out")).to_have_count(0)
        page.close()


@pytest.mark.parametrize("text", ["plain", "ends*", "two words", 'a "quote"', "back\\slash", "a,b", "both \\*", "*"])
def test_a_value_in_a_link_means_itself_and_nothing_more(visit: Visit, text: str) -> None:
    page = visit()
    word = page.evaluate("(text) => import('./static/lib/words.js').then((words) => words.filter_word(text))", text)
    kind = parse(f"kind:{word}").kind or ""
    assert (literal(kind), is_prefix(kind)) == (text, False)


def test_a_reader_is_shown_no_verb_and_no_hidden_payload(visit: Visit, shop: Shop) -> None:
    with served(shop.world, "--read-only", "--hide-payloads", "--prefix", "/inner/tenure") as url:
        assert url.endswith("/inner/tenure")
        page = visit(f"rows/{shop.contested}", url=url)
        expect(page.get_by_role("heading", name="Lease tape")).to_be_visible()
        expect(page.get_by_text("Hidden by this server.")).to_be_visible()
        expect(page.get_by_role("button", name="Release…")).to_have_count(0)
        page.get_by_role("link", name="Rows", exact=True).first.click()
        expect(page).to_have_url(f"{url}/rows")
        page.locator("tbody input").first.check()
        expect(page.get_by_role("region", name="Chosen rows").get_by_role("button", name="Redrive…")).to_have_count(0)
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(50)
        page.close()


def test_a_copy_works_without_the_clipboard_of_secure_pages(visit: Visit) -> None:
    page = visit("rows?filter=kind:send_receipt")
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy as command").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


@pytest.mark.parametrize("path", ["schedule", "workers/nope", "rows/a/b", "drills"])
def test_a_mistyped_address_is_said_to_be_no_page_and_leads_back(visit: Visit, shop: Shop, path: str) -> None:
    page = visit(path, expect="404")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(f"/{path}")
    expect(page).to_have_title("No such page · Tenure")
    expect(page.get_by_role("link", name="Drills")).to_have_count(0)
    expect(page.locator("nav [aria-current]")).to_have_count(0)
    assert faults(page) == []
    page.get_by_role("main").get_by_role("link", name="Overview").click()
    expect(page).to_have_url(f"{shop.url}/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_stranger_at_a_mistyped_address_is_asked_who_they_are_first(visit: Visit, shop: Shop) -> None:
    with served(shop.world, TENURE_WEB_TOKEN="open-sesame") as url:
        page = visit("nope", url=url, expect="40")
        expect(page.get_by_label("Access token or password")).to_be_visible()
        expect(page.get_by_role("heading", name="There is no such page")).to_have_count(0)
        page.get_by_label("Access token or password").fill("open-sesame")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
        page.close()


def test_an_inline_script_is_refused_and_the_refusal_is_heard(visit: Visit) -> None:
    page = visit(expect="Content Security Policy")
    inline = """() => {
      const script = document.createElement("script");
      script.textContent = "globalThis.ran = true";
      document.head.append(script);
    }"""
    with page.expect_console_message(lambda said: "Content Security Policy" in said.text):
        page.evaluate(inline)
    assert page.evaluate("() => globalThis.ran") is None


def test_a_button_without_a_name_would_be_found(visit: Visit) -> None:
    page = visit()
    expect(page.locator("h1")).to_be_visible()
    page.locator("h1").evaluate("(title) => title.append(document.createElement('button'))")
    assert any(found.startswith("button-name") for found in serious(page))


def test_what_only_fits_a_wide_screen_in_the_light_would_be_found(visit: Visit) -> None:
    page = visit()
    expect(page.locator("h1")).to_be_visible()
    page.locator("h1").evaluate("(title) => Object.assign(title.style, {color: '#222', minWidth: '900px'})")
    found = faults(page)
    seen = {fault.split(":")[0] for fault in found}
    assert seen == slice_of({"dark, 380 wide", "dark, 1280 wide", "380 wide"}, {"dark, 380 wide", "380 wide"}), found
