"""Small rooms: no file outgrows its one sentence, no function its story, and every module says its sentence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import tenure

ROOT = Path(tenure.__file__).parent
LINES_MAX = 280
LONGER_FILES_MAX = 2
MEDIAN_MAX = 110
FUNCTION_MAX = 45


@cache
def files() -> dict[Path, str]:
    return {
        path: path.read_text()
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in (".py", ".sql", ".js", ".css") and "vendor" not in path.parts
    }


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in files().items() if path.suffix == ".py"}


def test_files_are_short() -> None:
    lines = {path.relative_to(ROOT).as_posix(): len(text.splitlines()) for path, text in files().items()}
    longer = {path: n for path, n in lines.items() if n > LINES_MAX}
    assert len(longer) <= LONGER_FILES_MAX, f"split by noun, not by layer: {longer}"
    assert median(n for path, n in lines.items() if path.endswith(".py")) <= MEDIAN_MAX


def test_no_function_is_longer_than_forty_five_lines() -> None:
    long = {f"{path.relative_to(ROOT)}: {name}": n for path, name, n in _functions() if n > FUNCTION_MAX}
    assert not long, "tell one story; give its parts names"


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    silent = [path for path, tree in modules().items() if len((ast.get_docstring(tree) or "").partition("\n")[0]) < 10]
    assert not silent


def _functions() -> Iterator[tuple[Path, str, int]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node.name, (node.end_lineno or node.lineno) - node.lineno + 1
