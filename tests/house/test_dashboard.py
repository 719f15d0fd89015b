"""The dashboard's files: small enough to read, and each says why it exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import tenure

STATIC = Path(tenure.__file__).parent / "web" / "static"
TOOLS = Path(__file__).parents[2] / "tools" / "js"
OTHERS = ("vendor", "recordings")  # modules of others, and what a stage said
LINES_MAX = 200
WIDTH_MAX = 120
FILES = sorted(
    path
    for path in STATIC.rglob("*")
    if path.suffix in (".js", ".css", ".html") and path.relative_to(STATIC).parts[0] not in OTHERS
)
MODULES = [path for path in FILES if path.suffix == ".js"]
SHEETS = [path for path in FILES if path.suffix == ".css"]


def name(path: Path) -> str:
    return str(path.relative_to(STATIC))


def _why(path: Path) -> str:
    said = re.match(r"/\*\*(.+?)\*/", path.read_text(), re.DOTALL)
    return re.sub(r"[\s*]+", " ", said[1]).strip() if said else ""


def test_every_file_can_be_read_at_once() -> None:
    long = {name(path): n for path in FILES if (n := len(path.read_text().splitlines())) > LINES_MAX}
    assert not long, "split it by noun: a component with a name, a pure module"
    wide = [
        f"{name(path)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > WIDTH_MAX
    ]
    assert not wide, f"more than {WIDTH_MAX} characters"


def test_every_module_begins_with_why_it_exists() -> None:
    assert not [name(path) for path in MODULES if len(_why(path)) < 20], "begin it with /** a sentence */"


def test_every_stylesheet_says_what_it_is_for_and_is_linked() -> None:
    index = (STATIC / "index.html").read_text()
    assert not [name(path) for path in SHEETS if not path.read_text().startswith("/* ")]
    assert not [name(path) for path in SHEETS if f'href="static/{name(path)}"' not in index]


def test_a_module_that_calls_itself_pure_imports_only_such_modules() -> None:
    pure = {path.resolve() for path in MODULES if " Pure." in path.read_text().split("*/")[0]}
    assert len(pure) > 10
    for path in pure:
        imported = {(path.parent / found).resolve() for found in re.findall(r'from "(\..+?)"', path.read_text())}
        assert imported <= pure, f"{name(path)} imports what is not pure"


def test_the_types_are_those_of_the_vendored_packages() -> None:
    pinned = json.loads((TOOLS / "package.json").read_text())["devDependencies"]
    for file, package in {"preact": "preact", "htm": "htm", "signals": "@preact/signals", "uplot": "uplot"}.items():
        head = (STATIC / "vendor" / f"{file}.js").read_text().split("\n", 1)[0]
        assert f" {pinned[package]}, " in head, f"run tools/vendor: {head}"


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((TOOLS / "package-lock.json").read_text())
    assert not [place for place, package in lock["packages"].items() if "resolved" in package]
