"""The Python of every page compiles, and what it imports of Tenure is there. Tests of the guides run many of them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = [page for page in PAGES if "```python" in page.read_text()]


def missing(text: str) -> list[str]:
    """What a page imports of Tenure that is not there; SyntaxError if a block is not Python."""
    found = []
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        tree = compile(block, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tenure":
                module = importlib.import_module(str(node.module))
                found += [f"{node.module}.{each.name}" for each in node.names if not hasattr(module, each.name)]
    return found


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_can_be_compiled_and_imports_what_is_there(page: Path) -> None:
    assert not missing(page.read_text())


def test_a_wrong_block_is_found() -> None:
    """The control."""
    assert missing("```python\nfrom tenure import Inbox, Nothing\n```\n") == ["tenure.Nothing"]
    with pytest.raises(SyntaxError):
        missing("```python\ndef (\n```\n")
