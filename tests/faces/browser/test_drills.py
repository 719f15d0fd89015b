"""The Drills page: every scene and control clicked through, acts that really act, and what is said when they cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from crew import eventually
from drills.tales import FACED
from faces.browser.conftest import Visit, serious
from faces.browser.shop import served
from faces.browser.stagehand import Theatre, button, end, schema_of, start, state_of, verdict_of
from faces.browser.stagehand import shop_as_theatre as shop_as_theatre
from faces.browser.stagehand import theatre_as_shop as theatre_as_shop
from tenure.drills.scenes.book import BOOK
from tenure.drills.stage.scene import Scene

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
expect: Callable[..., Any] = sync_api.expect

SCENES = list(BOOK)
CONTROLS = [name for name, drill in BOOK.items() if drill().control]
WITH_CONTROL = (
    "crash",
    "rollback",
)  # two are enough here: test_scenes plays every control


def kept(page: Any, scene: Scene) -> None:
    """The verdict on the page is what the scene promises: the same sentences, every one of them green."""
    verdict = verdict_of(page)
    expect(verdict).to_contain_text(scene.shows)
    checks = verdict.get_by_role("listitem").all_text_contents()
    assert checks == [f"✓{proof.sentence}: holds" for proof in scene.proofs]
    steps = page.locator(".drill-steps li.done span")
    assert steps.all_text_contents() == [step.caption for step in scene.steps]


@pytest.mark.parametrize("name", FACED)
def test_a_drill_is_played_on_the_page_as_promised(visit: Visit, theatre: Theatre, name: str) -> None:
    drill = BOOK[name]()
    pages = [start(visit, name)]
    if drill.control and name in WITH_CONTROL:
        pages.append(start(visit, name, control=True))
        kept(pages[1], drill.control)
    kept(pages[0], drill.scene)
    for page in pages:
        end(page, theatre)


def test_every_drill_stands_in_the_row_of_scenes_and_its_control_behind_a_switch(visit: Visit) -> None:
    page = visit("drills")
    scenes = page.get_by_role("navigation", name="Scenes").get_by_role("link")
    titles = [BOOK[name]().scene.title for name in SCENES]
    expect(scenes).to_have_count(len(titles) + 3)
    words = [re.sub(r"^\d+", "", text) for text in scenes.all_text_contents()]
    assert words == [*titles, "Free play", "Explorer", "Tuner"]
    for name in SCENES:
        page.get_by_role("navigation", name="Scenes").get_by_role("link", name=BOOK[name]().scene.title).click()
        expect(page).to_have_url(re.compile(f"scene={name}$"))
        expect(page.get_by_role("heading", name=BOOK[name]().scene.title)).to_be_visible()
        expect(button(page, "without it")).to_have_count(1 if name in CONTROLS else 0)


def test_the_stale_write_is_blocked_on_the_tape_and_without_the_fence_it_goes_through(
    visit: Visit, theatre: Theatre
) -> None:
    fenced, loose = start(visit, "lease-race"), start(visit, "lease-race", control=True)
    verdict_of(fenced)
    tape = fenced.get_by_role("img", name=re.compile("^Tape: "))
    said = re.compile("worker-A with token 1: expired, then a stale write blocked")
    expect(tape).to_have_attribute("aria-label", said)
    expect(tape).to_contain_text("✗ stale write blocked, token 1 < 2")
    expect(fenced.get_by_text("duplicate!")).to_have_count(0)
    verdict_of(loose)
    tape = loose.get_by_role("img", name=re.compile("^Tape: "))
    expect(tape).to_contain_text("stale write went through, token 1 < 2")
    expect(loose.locator(".drill-ledger").get_by_text("duplicate!")).to_have_count(2)
    for page in (fenced, loose):
        end(page, theatre)


def test_what_a_scene_rests_on_cannot_be_set(visit: Visit) -> None:
    for scene, free in [("crash", "Handler time"), ("lease-race", "Lease"), ("drain", "")]:
        page = visit(f"drills?scene={scene}")
        for slider in ("Lease", "Handler time"):
            found = page.get_by_role("slider", name=slider)
            (expect(found).to_be_enabled if slider == free else expect(found).to_be_disabled)()
            if slider != free:
                expect(page.get_by_title("This scene depends on it.").filter(has_text=slider)).to_be_visible()
        page.close()


def test_while_a_scene_plays_the_buttons_wait_and_say_why(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=lease-race&pace=1")
    expect(page.get_by_text("No stage is open yet.")).to_be_visible()
    button(page, "Play").click()
    expect(page.get_by_text("A scene plays. You can use the buttons when it has ended.")).to_be_visible()
    expect(button(page, "Enqueue order:9182")).to_be_disabled()
    expect(page.get_by_text("step 2 of 5")).to_be_visible()
    expect(page.locator("[aria-current=step]")).to_contain_text("worker-A is stopped in the middle of it")
    expect(page.get_by_role("region", name="worker-A").get_by_text("stopped")).to_be_visible()
    verdict_of(page)
    button(page, "10 orders").click()
    eventually(lambda: theatre.count(page, "inbox") == 11)
    end(page, theatre)


def pid(page: Any, worker: str) -> int:
    card = page.get_by_role("region", name=worker)
    return int(re.sub(r"\D", "", card.get_by_text(re.compile(r"^pid \d+$")).inner_text()))


def hire(page: Any, worker: str) -> int:
    button(page, "+ Add worker").click()
    expect(page.get_by_role("region", name=worker)).to_contain_text("runs")
    return pid(page, worker)


def _producer_buttons(page: Any, theatre: Theatre) -> None:
    button(page, "Enqueue order:9182").click()
    expect(page.get_by_text("order:9182 enqueued: order and row committed together.")).to_be_visible()
    button(page, "Same again").click()
    expect(page.get_by_text("order:9182 was already there: one row, as before.")).to_be_visible()
    button(page, "Rollback after enqueue").click()
    expect(page.get_by_text("Order 9600 rolled back, and its row with it: nothing appeared.")).to_be_visible()
    assert theatre.ask(page, "SELECT partition_key FROM inbox") == [("order:9182",)]


def _settings_and_dead_letters(page: Any, theatre: Theatre) -> None:
    page.get_by_role("switch", name="Handler dedupe").click()
    expect(page.get_by_role("switch", name="Handler dedupe")).to_have_attribute("aria-checked", "false")
    page.get_by_role("slider", name="Handler time").press("ArrowRight")
    eventually(lambda: theatre.ask(page, "SELECT handler_seconds, dedupe FROM shop") == [(0.6, False)])

    button(page, "Poison row").click()
    poison = page.locator(".drill-row").filter(has_text="order:9900")
    expect(poison).to_contain_text("names a product that nobody has ever made")
    expect(poison).to_contain_text("dead letter")
    button(page, "Redrive dead letters").click()
    expect(page.get_by_text("1 dead letter brought back.")).to_be_visible()


def test_in_free_play_every_button_does_what_it_says(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=free")
    button(page, "Open a stage").click()
    expect(button(page, "Enqueue order:9182")).to_be_enabled()
    _producer_buttons(page, theatre)
    first = hire(page, "worker-A")
    assert state_of(first) in "RSD"
    expect(page.locator(".drill-row")).to_contain_text("completed")
    assert theatre.ask(page, "SELECT order_id, token FROM ledger") == [(9182, 1)]
    expect(page.locator(".drill-ledger")).to_contain_text("9182")
    expect(page.locator(".drill-mailbox")).to_contain_text("9182")

    button(page, "Pause", "worker-A").click()
    expect(page.get_by_role("region", name="worker-A")).to_contain_text("stopped")
    assert state_of(first) == "T"
    button(page, "Resume", "worker-A").click()
    expect(page.get_by_role("region", name="worker-A")).to_contain_text("runs")
    assert state_of(first) != "T"

    second = hire(page, "worker-B")
    expect(page.locator(".drill-moved")).to_contain_text(re.compile(r"moved \d+ of 1024 \(\d\.\d\d/N\), \d+ needless"))
    button(page, "Kill -9", "worker-B").click()
    expect(page.get_by_role("region", name="worker-B")).to_contain_text("gone")
    assert state_of(second) in ("", "Z")

    button(page, "Cut database").click()
    expect(page.get_by_text("The line to the database is cut: workers cannot reach it.")).to_be_visible()
    button(page, "10 orders").click()
    eventually(lambda: theatre.count(page, "inbox WHERE status = 'pending'") == 10)
    button(page, "Heal database").click()
    eventually(lambda: theatre.count(page, "ledger") == 11)

    _settings_and_dead_letters(page, theatre)
    button(page, "Drain", "worker-A").click()
    expect(page.get_by_role("region", name="worker-A")).to_contain_text("gone")
    assert state_of(first) in ("", "Z")
    end(page, theatre)
    expect(page.get_by_text("No stage is open yet.")).to_be_visible()


def test_the_row_is_shown_beside_the_sql_that_shows_it(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=free")
    button(page, "Open a stage").click()
    button(page, "Enqueue order:9182").click()
    page.get_by_role("button", name="Show the row").click()
    drawer = page.get_by_role("dialog", name="order:9182")
    expect(drawer).to_contain_text("send_receipt-9182-0")
    query = drawer.locator("pre").inner_text()
    assert schema_of(page) in query
    ((id, *_),) = theatre.world.sql(query)
    expect(drawer).to_contain_text(str(id))
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    end(page, theatre)


def test_a_reload_finds_the_stage_again_with_all_it_said(visit: Visit, theatre: Theatre) -> None:
    page = start(visit, "duplicate")
    said = verdict_of(page).get_by_role("listitem").all_text_contents()
    page.reload()
    assert verdict_of(page).get_by_role("listitem").all_text_contents() == said
    end(page, theatre)
    page.goto(f"{theatre.url}/drills?scene=free")
    expect(button(page, "Open a stage")).to_be_visible()


def test_what_cannot_be_is_said_in_a_sentence(visit: Visit, theatre: Theatre) -> None:
    pages = []
    for _ in range(2):
        pages.append(visit("drills?scene=free"))
        button(pages[-1], "Open a stage").click()
        expect(button(pages[-1], "End")).to_be_visible()
    third = visit("drills?scene=free", expect="409")
    button(third, "Open a stage").click()
    expect(third.get_by_text("2 stages are open already")).to_be_visible()
    gone = visit("drills?scene=free&stage=00000000", expect="404")
    expect(gone.get_by_text("That stage was closed. Open a new one.")).to_be_visible()
    nowhere = visit("drills?scene=nowhere")
    expect(nowhere.get_by_text("There is no drill nowhere.")).to_be_visible()
    for page in pages:
        end(page, theatre)


def test_a_stage_that_somebody_else_ends_is_said_to_be_closed(visit: Visit, theatre: Theatre) -> None:
    page = visit("drills?scene=free")
    button(page, "Open a stage").click()
    expect(button(page, "Enqueue order:9182")).to_be_enabled()
    id = schema_of(page).removeprefix("tenure_drill_")
    page.evaluate(f"() => fetch('api/stage/{id}', {{method: 'DELETE', headers: {{'x-tenure': '1'}}}})")
    expect(page.get_by_text("The stage is closed.").first).to_be_visible()
    expect(button(page, "Enqueue order:9182")).to_be_disabled()


def test_a_reader_may_look_but_not_play(visit: Visit, theatre: Theatre) -> None:
    with served(theatre.world, "--drills", "--read-only") as url:
        page = visit("drills", url=url)
        expect(button(page, "Play")).to_be_disabled()
        expect(page.get_by_text("You need the role admin to act on a stage.")).to_be_visible()
        page.close()
