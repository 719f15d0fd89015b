"""The blocks of every page: Python compiles, what is typed is understood, SQL is prepared, settings are read.

Tests of the guides run many of them; this looks at all.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import itertools
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]

from pages import PAGES, ROOT, Typed, blocks, commands, name_of, pages_with, typed, understood
from tenure import settings, sql
from tenure.errors import BadSettings
from tenure.web.routes import routes
from world import World

MAKEFILE = (ROOT / "Makefile").read_text()
EXTRAS: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# What readers have beside Tenure. A page may type no other program, so that a slip of the pen is found.
OTHERS = {"alias", "awk", "cd", "eval", "flask", "gh", "git", "openssl", "pg_dump", "pytest", "python", "read", "sort"}
ROW = "01a1e7ef-aaca-7459-81d3-c5c58a2cb213"
OTHERS |= {"docker", "do", "done", "grep", "sed", "wc", "while"}


def missing(text: str) -> list[str]:
    """What a page imports of Tenure that is not there; SyntaxError if a block is not Python."""
    found = []
    for block in blocks(text, "python"):
        tree = compile(block, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tenure":
                module = importlib.import_module(str(node.module))
                found += [f"{node.module}.{each.name}" for each in node.names if not hasattr(module, each.name)]
    return found


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_the_python_of_a_page_can_be_compiled_and_imports_what_is_there(page: Path) -> None:
    assert not missing(page.read_text())


def test_a_wrong_block_is_found() -> None:
    """The control."""
    assert missing("```python\nfrom tenure import Inbox, Nothing\n```\n") == ["tenure.Nothing"]
    with pytest.raises(SyntaxError):
        missing("```python\ndef (\n```\n")


# -- consoles


def _sh(text: str) -> None:
    assert subprocess.run(["sh", "-n"], input=text, text=True, timeout=60).returncode == 0
    settings.check_names(dict.fromkeys(re.findall(r"^(TENURE_\w+)=", text, re.MULTILINE), ""))


def _tenure(words: Sequence[str]) -> None:
    with suppress(click.exceptions.Exit):  # --help
        understood(words)


def _make(words: Sequence[str]) -> None:
    for word in words:
        name, _, value = word.partition("=")
        there = f"$({name})" in MAKEFILE if value else re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)
        assert there, f"the Makefile has no {name}"


def _pip(words: Sequence[str]) -> None:
    for name in re.findall(r"\[(.+?)\]", " ".join(words)):
        assert set(name.split(",")) <= set(EXTRAS), name


def _export(words: Sequence[str]) -> None:
    settings.check_names(dict(word.split("=", 1) for word in words))


def _curl(words: Sequence[str]) -> None:
    for path in re.findall(r"^(?:http://127.0.0.1:\d+|http://localhost:\d+|…)?(/[\w/]+)", "\n".join(words), re.M):
        known = (re.sub(r"\{\w+(:\w+)?\}", r"[^/]+", each.path) for each in routes(drills=True))
        assert any(re.fullmatch(pattern, path) for pattern in known), f"no route {path}"


CHECKS: Mapping[str, Callable[[Sequence[str]], None]] = {
    "tenure": _tenure,
    "make": _make,
    "pip": _pip,
    "export": _export,
    "curl": _curl,
}


def look(line: str) -> None:
    """Fail if a line of a console cannot be typed: each `tenure …` is read by its own options, and so on."""
    for program, *words in commands(re.sub(r"(?<!\w)\$?ID\b|WEBHOOK\.\.\.", ROW, line)):
        assert program in CHECKS or program in OTHERS, f"what is {program}?"
        if program in CHECKS:
            CHECKS[program](words)


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_what_a_page_types_is_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit-until-today.jsonl").touch()  # an earlier line has written it
    for block in blocks(page.read_text(), "console"):
        lines = typed(block)
        _sh("\n".join(each.line for each in lines))
        for each in lines:
            try:
                look(each.line)
            except (AssertionError, click.ClickException, BadSettings) as error:
                pytest.fail(f"{each.line}: {getattr(error, 'message', error)}")


@pytest.mark.parametrize(
    "line",
    [
        "tenure explode", "tenure rows --no-such", "tenure queues unpause mail", 'eval "$(tenure completion tcsh)"',
        "make nothing", "make soak-order MINUTES=1", 'pip install "tenure[wbe]"', "export TENURE_WEB_GROPS=x",
        "curl http://127.0.0.1:7117/api/rwos", "tenur rows", "tenure sql claim | tenure nix",
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_typed_is_found(line: str) -> None:
    """The control."""
    with pytest.raises((AssertionError, click.ClickException, BadSettings)):
        look(line)


def test_a_line_may_go_on_in_the_next_and_its_answer_stands_below() -> None:
    assert typed("$ a \\\n  b\nsaid\n$ c |\n d\n") == [Typed("a \\\n  b", "said\n"), Typed("c |\n d", "")]
    assert list(commands("X=1 a 'b c' > f; d $(e g) # h")) == [["e", "g"], ["a", "b c"], ["d", "answer"]]
    assert list(commands(r"a age:\>5m | b")) == [["a", "age:>5m"], ["b"]]


# -- files


def _ini(text: str) -> None:
    configparser.ConfigParser(interpolation=None).read_string(text if text.startswith("[") else f"[part]\n{text}")


READERS: Mapping[str, Callable[[str], object]] = {
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "ini": _ini,
    "sh": _sh,
}


@pytest.mark.parametrize(("page", "kind"), [(page, kind) for kind in READERS for page in pages_with(kind)], ids=str)
def test_the_files_that_a_page_shows_can_be_read(page: Path, kind: str) -> None:
    for block in blocks(page.read_text(), kind):
        READERS[kind](block)


def test_every_kind_of_block_is_looked_at() -> None:
    kinds = {kind for page in PAGES for kind in re.findall(r"^ *```(\w+)$", page.read_text(), re.MULTILINE)}
    assert kinds == {*READERS, "python", "console", "sql"}


# -- SQL


def statements(page: Path) -> list[str]:
    """The statements of a page, without remarks; `-- ERROR: …` stands alone after the one that it belongs to."""
    said = [re.sub(r"--(?! ERROR).*", "", block).split(";") for block in blocks(page.read_text(), "sql")]
    return [each.strip() for block in said for each in block if each.strip()]


def try_sql(world: World, statement: str) -> None:
    """What Postgres says of a statement that is prepared or, where that cannot be, run and undone."""
    text = sql.in_schema(statement, world.schema).replace("'tenure'", f"'{world.schema}'")
    text = re.sub(r"\btenure_(producer|worker|operator|readonly)\b", rf"{world.schema}_\1", text)
    text = text.replace("DATABASE shop", f"DATABASE {world.conn.info.dbname}").replace(":'id'", "gen_random_uuid()")
    if text.startswith("COPY"):
        with world.conn.cursor().copy(text.encode()):
            return
    can_wait = re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text)
    world.conn.execute((f"PREPARE tried AS {text}" if can_wait else text).encode())
    if can_wait:
        world.conn.execute("DEALLOCATE tried")


@pytest.mark.one_server
@pytest.mark.parametrize("page", pages_with("sql"), ids=name_of)
def test_the_sql_of_a_page_is_prepared_on_a_migrated_schema(page: Path, world: World) -> None:
    with world.conn.transaction(force_rollback=True):
        for role in ("producer", "worker", "operator", "readonly"):
            world.sql(f'CREATE ROLE "{world.schema}_{role}"')
        for statement in statements(page):
            if not statement.startswith("-- ERROR"):
                try_sql(world, statement)


@pytest.mark.one_server
def test_an_error_that_a_page_shows_is_the_one_that_comes(world: World) -> None:
    shown = 0
    for page in pages_with("sql"):
        found = statements(page)
        for statement, after in itertools.pairwise(found):
            if after.startswith("-- ERROR:  "):
                with pytest.raises(psycopg.Error) as refused:
                    world.sql(sql.in_schema(statement, world.schema))
                assert refused.value.diag.message_primary == after.removeprefix("-- ERROR:  ").splitlines()[0]
                shown += 1
    assert shown


@pytest.mark.one_server
@pytest.mark.parametrize("statement", ["SELECT nothing FROM tenure.inbox", "SELEC 1", "GRANT tenure_boss TO ann"])
def test_sql_that_cannot_be_is_found(statement: str, world: World) -> None:
    """The control."""
    with pytest.raises(psycopg.Error), world.conn.transaction():
        try_sql(world, statement)
