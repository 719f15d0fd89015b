"""Take every page of the dashboard at two widths and in both themes: `make shots`, or with a folder of your own.

The pages are those of the shop of the browser tests. What axe-core finds serious on one of them is printed, and the
exit code is 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from faces.browser.conftest import CHROMIUM, FLAGS, overflow, serious  # noqa: E402
from faces.browser.shop import SESSIONS, Shop, open_shop  # noqa: E402

FOLDER = ROOT / "build/shots"
WIDTHS, THEMES = (1280, 390), ("light", "dark")
PAGES = (
    "", "rows", "rows/{contested}", "workers", "ring", "dead", "queues", "schedules", "flows", "outbox", "hooks",
    "projections", "batches", "audit",
)  # fmt: skip
SETTLE_MS = 1500


def main() -> None:
    """All pictures, and what is wrong with the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, open_shop(Path(place)) as shop, sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        wrong = [fault for look in product(WIDTHS, THEMES) for fault in _shoot(chromium, shop, folder, *look)]
        chromium.close()
    print("\n".join(wrong) or f"no page has a serious fault; {len(PAGES) * 4} pictures are in {folder}")
    sys.exit(1 if wrong else 0)


def _shoot(chromium: Any, shop: Shop, folder: Path, width: int, theme: str) -> Iterator[str]:
    """Every page with this look; gives its faults."""
    context = chromium.new_context(
        viewport={"width": width, "height": 860}, color_scheme=theme, reduced_motion="reduce"
    )
    for name, value in SESSIONS[shop.url].items():
        context.add_cookies([{"name": name, "value": value, "url": shop.url}])
    for path in PAGES:
        page = context.new_page()
        page.goto(f"{shop.url}/{path.format(contested=shop.contested)}")
        page.locator("h1").wait_for()
        page.wait_for_timeout(SETTLE_MS)
        title = path.partition("/{")[0] + ("-one" if "{" in path else "") or "overview"
        page.screenshot(path=folder / f"{title}-{width}-{theme}.png", full_page=True)
        yield from (f"{title}, {theme}, {width} wide: {fault}" for fault in serious(page))
        if (by := overflow(page)) > 0:
            yield f"{title}, {width} wide: sticks out by {by}"
        page.close()
    context.close()


if __name__ == "__main__":
    main()
