"""Every sentence the product says to people, with the place it stands: commands, API, pages, events, errors, docs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

import tenure
from tenure.cli import COMMANDS
from tenure.cli import tenure as program
from tenure.web import stage
from tenure.web.openapi import document
from tenure.web.routes import ROUTES

PACKAGE = Path(tenure.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
STATIC = PACKAGE / "web" / "static"
OTHERS = ("vendor", "recordings")  # modules of others, and what a stage said
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "mutants").glob("*.md"))]
# Python files whose every string is read by people.
EVENTS = [*sorted((PACKAGE / "events").glob("*.py")), PACKAGE / "demo" / "event_lines.py"]
_SHOWN = re.compile(r"\b(?:title|placeholder|label|aria-label|alt)=(?:\"([^\"]*)\"|(\S+))")

# What a reader of JavaScript must tell apart: comments, strings, templates, braces, and regular expressions.
_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | ` | [{}]
    | (?<=[(=,:|&!?\s])/(?![/*\s])(?:\\.|\[[^\]]*\]|[^/\n\\])+/""",
    re.DOTALL | re.VERBOSE,
)


class Said(NamedTuple):
    """One text and where it stands: a path of the repository, with a line or a name."""

    place: str
    text: str


def commands() -> Iterator[Said]:
    """The help of every command, of its options, and the list of all."""
    for name, sentence in COMMANDS.items():
        yield Said(f"tenure --help: {name}", sentence)
    yield from _command(program, "tenure")


def _command(command: click.Command, name: str) -> Iterator[Said]:
    for text in (command.help, command.epilog, command.short_help):
        yield Said(f"{name} --help", text or "")
    for option in command.params:
        yield Said(f"{name} {option.opts[-1]}", getattr(option, "help", None) or "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from _command(below, f"{name} {each}")


def api() -> Iterator[Said]:
    """Every summary and description in the OpenAPI document, drills included."""
    yield from _described(document([*ROUTES, *stage.ROUTES], ""), "openapi")


def _described(node: Any, place: str) -> Iterator[Said]:
    if isinstance(node, list):
        for each in node:
            yield from _described(each, place)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in ("summary", "description", "title") and isinstance(value, str):
                yield Said(place, value)
            else:
                yield from _described(value, f"{place}/{name}")


def pages() -> Iterator[Said]:
    """What the dashboard shows: strings and template texts of its modules, and its page."""
    for path in sorted(STATIC.rglob("*.js")):
        if path.relative_to(STATIC).parts[0] not in OTHERS:
            for line, text in literals(path.read_text()):
                yield Said(f"{path.relative_to(ROOT)}:{line}", text)
    yield Said(str((STATIC / "index.html").relative_to(ROOT)), shown((STATIC / "index.html").read_text()))


def literals(code: str) -> Iterator[tuple[int, str]]:
    """Strings and templates of a JavaScript module with their lines; what stands inside ${…} is code again."""
    # One entry for each template that is open: its text so far, the line it began on, and the braces of its ${.
    open_: list[tuple[list[str], int, int]] = []
    depth, at = 0, 0
    while match := _TOKEN.search(code, at):
        token, at = match[0], match.end()
        line = code.count("\n", 0, match.start()) + 1
        if token[0] in "\"'":
            yield line, token[1:-1]
        elif token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if open_ and depth < open_[-1][2]:
                at, depth = _template(code, at, open_, depth)
        elif token == "`":
            open_.append(([], line, 0))
            at, depth = _template(code, at, open_, depth)
        while open_ and open_[-1][2] < 0:
            text, line, _ = open_.pop()
            yield line, shown("".join(text))


def _template(code: str, at: int, open_: list[tuple[list[str], int, int]], depth: int) -> tuple[int, int]:
    """Read the text of the innermost template up to its next ${ or its end."""
    text, line, _ = open_[-1]
    piece = re.compile(r"((?:\\.|(?!\$\{)[^`\\])*)(`|\$\{)", re.DOTALL).match(code, at)
    assert piece is not None, f"line {line}: a template without an end"
    text.append(piece[1])
    if piece[2] == "`":
        open_[-1] = (text, line, -1)
        return piece.end(), depth
    text.append(" … ")
    open_[-1] = (text, line, depth + 1)
    return piece.end(), depth + 1


def shown(markup: str) -> str:
    """The text between tags, and of the attributes that a reader sees."""
    attributes = [" ".join(filter(None, found)) for found in _SHOWN.findall(markup)]
    return re.sub(r"\s+", " ", " ".join([re.sub(r"</?[\w!$](?:[^<>]|=>)*>", " ", markup), *attributes])).strip()


def events() -> Iterator[Said]:
    """What an event says of itself, and how the demo tells it."""
    for path in EVENTS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield Said(f"{path.relative_to(ROOT)}:{node.lineno}", node.value)


def messages() -> Iterator[Said]:
    """Every sentence in the package's Python that is not a docstring: what is raised, printed or answered."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
                continue
            if " " in node.value.strip():
                yield Said(f"{path.relative_to(ROOT)}:{node.lineno}", node.value)


def docs() -> Iterator[Said]:
    """Every line of every page; of the changelog what is not released yet; of deploy/ all that is text."""
    for path in [*DOCS, *sorted((ROOT / "deploy").rglob("*.yml")), *sorted((ROOT / "deploy").rglob("*.json"))]:
        text = path.read_text()
        if path.name == "CHANGELOG.md":
            text = text.split("\n## 0.1.0", 1)[0]
        for number, line in enumerate(text.splitlines(), 1):
            yield Said(f"{path.relative_to(ROOT)}:{number}", line)
