"""What the pages show in blocks: the language of each, and of a console what is typed and what it answers."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

import tenure.cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^(?P<margin> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=margin)```$", re.MULTILINE | re.DOTALL)
_INNER = re.compile(r"\$\(([^()]*)\)")
_BREAKS = re.compile(r"[;|&()]+")
_SENT = re.compile(r"[<>]+")


class Typed(NamedTuple):
    """A line after the prompt, and what the page shows as its answer."""

    line: str
    shown: str


class Block(NamedTuple):
    """A block without its margin, and whether it follows the one before without a word in between."""

    kind: str
    text: str
    follows: bool


def in_order(text: str) -> list[Block]:
    """Every block of a page."""
    found: list[Block] = []
    end = 0
    for each in _BLOCK.finditer(text):
        follows = bool(found) and not text[end : each.start()].strip()
        found.append(Block(each["kind"], textwrap.dedent(each["text"]), follows))
        end = each.end()
    return found


def blocks(text: str, kind: str) -> list[str]:
    """The blocks of one language, in order."""
    return [each.text for each in in_order(text) if each.kind == kind]


def pages_with(kind: str) -> list[Path]:
    """The pages that have such a block."""
    return [page for page in PAGES if blocks(page.read_text(), kind)]


def name_of(page: Path) -> str:
    """Its path in this repository."""
    return str(page.relative_to(ROOT))


def typed(block: str) -> list[Typed]:
    """The lines of a console; one that ends with \\ or | goes on in the next."""
    found: list[Typed] = []
    lines = iter(block.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            assert found, f"a console begins with what is typed: {line}"
            found[-1] = Typed(found[-1].line, f"{found[-1].shown}{line}\n")
            continue
        while line.endswith(("\\", "|")):
            line += "\n" + next(lines)
        found.append(Typed(line[2:], ""))
    return found


def commands(line: str) -> Iterator[list[str]]:
    """The words of each command in a line of a shell, those in $(…) first; comments, values and files are left out."""
    while inner := _INNER.search(line):
        yield from commands(inner[1])
        line = f"{line[: inner.start()]}answer{line[inner.end() :]}"
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    to_file = False
    for word in lexer:
        if _BREAKS.fullmatch(word):
            yield from _alone(words)
            words = []
        elif _SENT.fullmatch(word) or to_file:
            to_file = not to_file
        else:
            words.append(word)
    yield from _alone(words)


def _alone(words: list[str]) -> Iterator[list[str]]:
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if words:
        yield words


def understood(words: Sequence[str]) -> click.Context:
    """These words as `tenure` understands them, without doing it; click's error if it does not."""
    command: click.Command = tenure.cli.tenure
    ctx = command.make_context("tenure", list(words))
    while isinstance(command, click.Group) and (rest := [*ctx._protected_args, *ctx.args]):
        name, found, left = command.resolve_command(ctx, rest)
        assert name is not None
        assert found is not None
        command = found
        ctx = command.make_context(name, left, parent=ctx)
    return ctx
