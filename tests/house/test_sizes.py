"""Small rooms: no file outgrows its one sentence, and every module says that sentence."""

from __future__ import annotations

import ast
from pathlib import Path

import tenure

ROOT = Path(tenure.__file__).parent
LINES_MAX = 300
FILES = sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", ".sql"))


def test_no_file_is_longer_than_three_hundred_lines() -> None:
    long = {path.name: n for path in FILES if (n := len(path.read_text().splitlines())) > LINES_MAX}
    assert not long, "split it by noun, not by layer"


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    silent = [path for path in FILES if path.suffix == ".py" and len(_sentence(path)) < 10]
    assert not silent


def _sentence(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
