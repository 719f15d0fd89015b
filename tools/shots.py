"""Take the pictures of the README from real runs: `tools/shots.py [FOLDER]` writes drills-race.png and overview.png."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # tools/chromium
FOLDER = Path(__file__).parent.parent / "docs/images"
WIDTH, HEIGHT = 1280, 960
PATIENCE_MS = 60_000
# What a reader of the dashboard would like to see happen: a key of the demo, and how long to look at what follows.
KEYS = (("", 10), ("p", 8), ("r", 4), ("x", 2), ("s", 2), ("k", 6), ("a", 6), ("p", 8), ("r", 8), ("a", 16))


def main() -> None:
    """Both pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with shop() as (link, press), browser() as visit:
        address = link.partition("/?")[0]
        visit(link)
        race(visit(f"{address}/drills?scene=lease-race&pace=2.5"), folder / "drills-race.png")
        for key, seconds in KEYS:
            press(key)
            time.sleep(seconds)
        overview(visit(f"{address}/?seconds=300"), folder / "overview.png")


def race(page: Page, file: Path) -> None:
    """The stale worker stands still and believes in its lease; the other one has completed the row."""
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.locator(".drill-believes")).to_be_visible()
    expect(page.locator(".drill-tape")).to_contain_text("token 2, completed")
    shoot(page, page.locator(".drill-board"), file)
    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_text("No stage is open yet.")).to_be_visible()


def overview(page: Page, file: Path) -> None:
    """The dashboard of a shop whose workers were killed and stopped."""
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.locator(".fence-log li").first).to_be_visible()
    shoot(page, page.locator(".chart").last, file)


def shoot(page: Page, last: Any, file: Path) -> None:
    """From the top of the page to the end of this part of it."""
    box = last.bounding_box()
    height = box["y"] + box["height"] + 12
    page.screenshot(path=file, clip={"x": 0, "y": 0, "width": WIDTH, "height": height}, full_page=True)
    print(f"{file}: {WIDTH} × {height:.0f}")


@contextlib.contextmanager
def shop() -> Iterator[tuple[str, Any]]:
    """`tenure demo` on a terminal of its own while the block lasts: its link, and a way to press its keys."""
    ours, theirs = pty.openpty()
    command = [*TENURE, "demo", "--no-open", "--port", "0", "--orders-per-second", "8"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        link = listen(ours)
        threading.Thread(target=drink, args=[ours], daemon=True).start()
        yield link, lambda key: os.write(ours, key.encode())
        os.write(ours, b"q")
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def listen(terminal: int) -> str:
    """Where the demo says that its dashboard is."""
    said = ""
    while not (found := re.search(r"dashboard\s+(http://\S+)\s", said)):
        try:
            said += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # a terminal whose other side is closed
            sys.exit(f"the demo ended:\n{said}")
    return found.group(1)


def drink(terminal: int) -> None:
    """A terminal that nobody reads fills up, and stops the demo."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """visit(url) opens a page in a real Chromium."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")

        def visit(url: str) -> Page:
            page = context.new_page()
            page.goto(url)
            return page

        yield visit
        chromium.close()


if __name__ == "__main__":
    main()
