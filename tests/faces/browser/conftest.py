"""Fixtures of the browser tests: a real Chromium, a live server over a full shop, and pages that may not complain."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faces.browser.shop import SESSIONS, Shop, open_shop
from slices import slice_of

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # tools/chromium
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
AXE = Path(__file__).with_name("axe.min.js")
WIDE, NARROW = 1280, 380
LOOKS = slice_of(list(itertools.product((NARROW, WIDE), ("dark", "light"))), [(NARROW, "dark"), (WIDE, "light")])
PATIENCE_MS = 90_000  # a machine with other work is slow, not wrong

Visit = Callable[..., Any]


@pytest.fixture(scope="session")
def playwright() -> Any:
    """The module itself; without it, or without Chromium, what asks for a browser is skipped."""
    found = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    if CHROMIUM is None:
        pytest.skip("browser tests need Chromium: apt-get install --no-install-recommends chromium-headless-shell")
    found.expect.set_options(timeout=PATIENCE_MS)
    return found


@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    """The system's Chromium. For a module: as long as playwright runs, this process can have no other event loop."""
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def shop(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The live server over 100,000 rows; asks for a browser first, without which nothing need be built."""
    with open_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def visit(browser: Any, shop: Shop) -> Iterator[Visit]:
    """visit("rows?filter=…", theme="dark", width=380) opens a page; a complaint of any page fails the test."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_page(
        path: str = "",
        *,
        theme: str = "light",
        width: int = WIDE,
        url: str = "",
        expect: str = "",
        stranger: bool = False,
        before: Callable[[Any], object] = id,
    ) -> Any:
        look = {"color_scheme": theme, "reduced_motion": "reduce"}
        context = browser.new_context(viewport={"width": width, "height": 860}, **look)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        for name, value in SESSIONS.get(url or shop.url, {}).items() if not stranger else ():
            context.add_cookies([{"name": name, "value": value, "url": url or shop.url}])
        own = (url or shop.url, "blob:", "data:")
        page = context.new_page()

        def hear(text: str) -> None:
            if not expect or expect not in text:
                complaints.append(text)

        page.on("console", lambda said: hear(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: hear(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(own) else hear(f"left the host: {asked.url}"))
        before(page)
        page.goto(f"{url or shop.url}/{path}", wait_until="domcontentloaded")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, complaints


def serious(page: Any) -> list[str]:
    """What axe-core finds serious or critical on the page as it stands, each with its first place."""
    if page.evaluate("() => window.axe === undefined"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations)")
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in grave]


def overflow(page: Any) -> int:
    """How many pixels the page is wider than its window."""
    return int(page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def faults(page: Any) -> list[str]:
    """What keeps somebody from reading the page, in the dark, in the light, on a phone and on a wide screen."""
    found = []
    for width, theme in LOOKS:
        page.set_viewport_size({"width": width, "height": 860})
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}, {width} wide: {fault}" for fault in serious(page)]
        if overflow(page) > 0:
            found.append(f"{width} wide: sticks out by {overflow(page)}")
    return found
