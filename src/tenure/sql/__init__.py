"""The SQL, one file per verb and per question, readable in psql: `:name` is a parameter, `tenure.` the schema."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z_]*)")
_SCHEMA = re.compile(r"\btenure\.")


@cache
def text(name: str) -> str:
    """The file of a verb or question, as written."""
    for room in ("verbs", "questions"):
        file = files(__name__) / room / f"{name}.sql"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise KeyError(name)


@cache
def prepared(name: str, schema: str) -> bytes:
    """The same, addressed to a schema and with psycopg's placeholders."""
    return PARAMETER.sub(r"%(\1)s", in_schema(text(name), schema).replace("%", "%%")).encode()


def in_schema(sql: str, schema: str) -> str:
    """SQL written for the schema tenure, addressed to another."""
    return _SCHEMA.sub(f'"{schema}".', sql)


def names(room: str) -> list[str]:
    """Every verb, or every question, in order."""
    return sorted(
        file.name.removesuffix(".sql") for file in (files(__name__) / room).iterdir() if file.name.endswith(".sql")
    )
