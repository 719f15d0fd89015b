"""Take every page of the dashboard at two widths and in both themes: `make shots`, or with a folder of your own.

The pages are those of the shop of the browser tests with what the shapes left there, the drills, and those that look
different over two inboxes. What axe-core finds serious on one of them is printed, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from faces.browser import goods  # noqa: E402
from faces.browser.conftest import CHROMIUM, FLAGS, overflow, serious  # noqa: E402
from faces.browser.shop import SESSIONS, open_shop, served  # noqa: E402
from faces.web_tools import served as web_of  # noqa: E402
from pairs import databases, new_pair  # noqa: E402

FOLDER = ROOT / "build/shots"
WIDTHS, THEMES = (1280, 390), ("light", "dark")
OF_TWO = ("", "rows", "workers", "ring", "dead", "queues", "flows", "flows/{flow}", "outbox", "hooks", "projections")
DRILLS = ("drills", "drills?scene=lease-race", "drills?scene=free")
SETTLE_MS, REPAINT_MS = 1500, 300


def main() -> None:
    """All pictures, and what is wrong with the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with tempfile.TemporaryDirectory() as place, open_shop(Path(place)) as shop:
            paths = {**goods.fill(shop.world), "contested": shop.contested}
            wrong = list(_shoot(chromium, shop.url, (*goods.PAGES, "rows/{contested}"), paths, folder))
            with served(shop.world, "--drills") as url:
                wrong += _shoot(chromium, url, DRILLS, {}, folder)
            with databases(shop.world.url) as urls, new_pair(*urls) as pair:
                paths = [goods.fill(world) for world in pair][-1]
                with web_of(pair.a, shards={"eu": pair.a.url, "us": pair.b.url}) as web:
                    wrong += _shoot(chromium, str(web.base_url), OF_TWO, paths, folder, "two-")
        chromium.close()
    taken = len(list(folder.glob("*.png")))
    print("\n".join(wrong) or f"no page has a serious fault; {taken} pictures are in {folder}")
    sys.exit(1 if wrong else 0)


def _shoot(
    chromium: Any, url: str, pages: Sequence[str], ids: Mapping[str, Any], folder: Path, prefix: str = ""
) -> Iterator[str]:
    """Every page with every look; gives its faults. A page is opened once for each width and painted twice."""
    for width in WIDTHS:
        context = chromium.new_context(viewport={"width": width, "height": 860}, reduced_motion="reduce")
        for name, value in SESSIONS.get(url, {}).items():
            context.add_cookies([{"name": name, "value": value, "url": url}])
        for path in pages:
            page = context.new_page()
            page.goto(f"{url}/{path.format(**ids)}")
            page.locator("h1").wait_for()
            page.wait_for_timeout(SETTLE_MS)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                page.wait_for_timeout(REPAINT_MS)
                title = prefix + _title(path)
                page.screenshot(path=folder / f"{title}-{width}-{theme}.png", full_page=True)
                yield from (f"{title}, {theme}, {width} wide: {fault}" for fault in serious(page))
            if (by := overflow(page)) > 0:
                yield f"{title}, {width} wide: sticks out by {by}"
            page.close()
        context.close()


def _title(path: str) -> str:
    """The name of a picture."""
    name, _, query = path.partition("?")
    return (name.partition("/{")[0] + ("-one" if "{" in name else "") or "overview") + re.sub("^[a-z]+=", "-", query)


if __name__ == "__main__":
    main()
