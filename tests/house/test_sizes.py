"""Small rooms: no file outgrows its one sentence, and every module says that sentence."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tenure

ROOT = Path(tenure.__file__).parent
LINES_MAX = 300
FILES = sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", ".sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_three_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX, "split it by noun, not by layer"


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix == ".py"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_module_says_in_a_sentence_what_it_is(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text()))
    assert said
    assert len(said.splitlines()[0]) >= 10
