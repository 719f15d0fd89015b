"""The SQL, one file per verb and per question, readable in psql: `:name` is a parameter, `tenure.` the schema."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z_]*)")
_TYPED = re.compile(PARAMETER.pattern + "(::)?")
_SCHEMA = re.compile(r"\btenure(_door)?\.")
_REMARK = re.compile(r"\s*--[^\n]*|(?<=\n)\s+")


@cache
def text(name: str) -> str:
    """The file of a verb or question, as written."""
    for room in ("verbs", "questions", "citus"):
        file = files(__name__) / room / f"{name}.sql"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise KeyError(name)


@cache
def prepared(name: str, schema: str) -> bytes:
    """The same as it is sent: to a schema, with psycopg's placeholders, and of its remarks only the line with its name.

    psycopg remembers how it reads a statement of at most 4,096 bytes; a longer one it reads anew each time.
    """
    title, _, rest = in_schema(text(name), schema).partition("\n")
    return PARAMETER.sub(r"%(\1)s", f"{title}\n{_REMARK.sub('', rest).strip()}".replace("%", "%%")).encode()


@cache
def portable(name: str, schema: str, *, dollar: bool) -> tuple[str, tuple[str, ...]]:
    """The same for any driver, with $1 or %(name)s, and the parameters in order.

    Drivers guess the type of a value, each in its own way. Where we say the type (`:ids::uuid[]`), the value is sent as
    a text that the server reads: such a parameter is named `ids::text`.
    """
    title, _, rest = in_schema(text(name), schema).partition("\n")
    code = f"{title}\n{_REMARK.sub('', rest).strip()}"
    named = [found[1] + ("::text" if found[2] else "") for found in _TYPED.finditer(code)]
    order = tuple(dict.fromkeys(named))
    places = iter(f"${order.index(each) + 1}" if dollar else f"%({each})s" for each in named)
    code = code if dollar else code.replace("%", "%%")
    return _TYPED.sub(lambda found: next(places) + ("::text::" if found[2] else ""), code), order


def in_schema(sql: str, schema: str) -> str:
    """SQL written for the schema tenure and its door, addressed to another."""
    return _SCHEMA.sub(lambda found: f'"{schema}{found[1] or ""}".', sql)


def names(room: str) -> list[str]:
    """Every verb, or every question, in order."""
    return sorted(
        file.name.removesuffix(".sql") for file in (files(__name__) / room).iterdir() if file.name.endswith(".sql")
    )
