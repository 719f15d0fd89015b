"""The site of the docs, without building it: every page is listed, and a browser asks no other host for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import site_pages
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in site_pages.ROOT_PAGES)]
BY_PLACE = {str(site_pages.site_path(page)): page for page in PAGES}
# What a page loads without being asked: pictures, frames, scripts, styles, sounds.
LOADED = re.compile(
    r"!\[[^\]]*\]\((https?:)?//|\b(?:src|poster|data)\s*=\s*[\"']?(?:https?:)?//|<(?:script|link|iframe)\b|@import"
)


def _listed(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _listed(each)


def test_every_page_is_in_the_list_once() -> None:
    listed = sorted(_listed(CONFIG["nav"]))
    assert listed == sorted(BY_PLACE)


def test_a_warning_of_the_build_is_an_error() -> None:
    assert "mkdocs build --quiet --strict" in (ROOT / "Makefile").read_text()
    assert set(CONFIG["validation"].values()) == {"warn"}


def test_no_page_and_no_style_asks_another_host_for_anything() -> None:
    texts = {
        path: path.read_text() for path in [*PAGES, *(ROOT / "docs").rglob("*.css"), *(ROOT / "docs").rglob("*.svg")]
    }
    assert not [(path, found[0]) for path, text in texts.items() if (found := LOADED.search(_shown(text)))]
    assert not [
        path for path, text in texts.items() if path.suffix in (".css", ".svg") and re.search(r"url\(\W*http", text)
    ]
    assert CONFIG["theme"]["font"] is False, "the theme would ask Google for its fonts"
    assert not {"repo_url", "extra_javascript"} & CONFIG.keys(), "the theme would ask GitHub for the number of stars"
    assert CONFIG["plugins"] == ["search"], "it searches in the browser; another plugin needs a look at what it loads"


def _shown(text: str) -> str:
    """A page without its code, which shows such things and does not do them."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(
    "text", ["![x](https://a.example/x.png)", '<img src="//a.example/x.png">', '<script src="a.js">']
)
def test_what_would_load_something_is_found(text: str) -> None:
    """The control."""
    assert LOADED.search(_shown(text))
    assert not LOADED.search(_shown(f"```\n{text}\n```\n`{text}` [a link](https://a.example)"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_site_finds_the_headings_that_pages_link_to(page: Path) -> None:
    """Its anchors are made by another rule than those of GitHub, which test_habits checks."""
    laid_out = site_pages.page(page)
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", laid_out):
        name = str((Path("/") / site_pages.site_path(page).parent / target).resolve())[1:] if target else ""
        text = BY_PLACE[name].read_text() if name else laid_out
        headings = {_slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert anchor in headings, f"{target}#{anchor}"


def _slug(heading: str) -> str:
    """As Python-Markdown makes it: several spaces or hyphens are one hyphen."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def test_what_lies_outside_of_the_site_becomes_a_link_to_the_repository(tmp_path: Path) -> None:
    drills = site_pages.page(ROOT / "docs/guides/drills.md")
    assert "](https://github.com/tenure-queue/tenure/blob/main/src/tenure/drills/stage/acts.py)" in drills
    assert "](../project/changelog.md)" in site_pages.page(ROOT / "docs/reference/versions.md")
    site_pages.lay_out(tmp_path / "site")
    laid_out = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.md")}
    assert laid_out == set(_listed(CONFIG["nav"]))


def test_below_an_entry_of_a_list_the_site_wants_four_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("text:\n- one\n\n  ```\n  code\n  ```\n  more\n- two\n  goes on\n")
    assert site_pages.page(page) == "text:\n\n- one\n\n    ```\n    code\n    ```\n    more\n\n- two\n  goes on\n"
