"""Lay out the pages of the site in .site: docs/ and pages of the root, with links that fit."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / ".site"
# Pages of the root that are pages of the site; what else lies outside of docs/ is a link to the repository.
ROOT_PAGES = {
    f"{name}.md": f"project/{name.lower()}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")
}
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^ *```")
_BELOW = re.compile(r"^( {2,3})(?=[^ ])")
_ENTRY = re.compile(r"^ *(?:[-*]|\d+\.) ")


def lay_out(to: Path = STAGE) -> None:
    """Write every page and picture anew."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ROOT / "docs", to)
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ROOT_PAGES)]:
        there = to / site_path(path)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(page(path), encoding="utf-8")


def site_path(path: Path) -> Path:
    """Where a page or picture stands on the site, as a path below its root."""
    within = path.relative_to(ROOT)
    return Path(ROOT_PAGES.get(str(within), os.path.relpath(within, "docs")))


def page(path: Path) -> str:
    """A page as the site's Markdown wants it: links that fit, four spaces below an entry of a list."""
    lines, fenced = [], False
    for line in _deeper(path.read_text(encoding="utf-8").splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else _LINK.sub(lambda match: f"]({_target(path, match[1])}{match[2] or ''})", line))
    return "\n".join([*lines, ""])


def _target(page_path: Path, link: str) -> str:
    """A link of the repository as a link of the site, or to the repository."""
    found = Path(os.path.normpath(page_path.parent / link))
    within = found.relative_to(ROOT)
    if str(within) in ROOT_PAGES or (within.parts[0] == "docs" and found.is_file()):
        return os.path.relpath(site_path(found), site_path(page_path).parent)
    return f"{_repository()}/{'tree' if found.is_dir() else 'blob'}/main/{within}"


def _repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Source"])


def _deeper(lines: list[str]) -> Iterator[str]:
    """GitHub takes two or three spaces as `below this entry`, the site four; and a list begins after an empty line."""
    added, fenced, paragraph, before = 0, False, False, ""
    for line in lines:
        below, entry, edge = _BELOW.match(line), _ENTRY.match(line), _FENCE.match(line)
        if not fenced:
            starts = bool(below) and bool(not before.strip() or edge or entry or _FENCE.match(before))
            added = 4 - len(below[1]) if below and starts else 0
            if (
                entry
                and not below
                and before.strip()
                and (paragraph or (not _ENTRY.match(before) and before[0] != " "))
            ):
                yield ""
            paragraph = not entry and (starts or (paragraph and bool(line.strip())))
        yield " " * added + line
        fenced, before = fenced != bool(edge), line


if __name__ == "__main__":
    lay_out()
