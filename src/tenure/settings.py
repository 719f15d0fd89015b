"""Which database, which schema: flags, then TENURE_* variables, then the libpq ones, then the embedded Postgres."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import BadSettings

DEFAULT_SCHEMA = "tenure"
_PASSWORD = re.compile(r"(://[^:/@]*:).*@|(password\s*=\s*)(?:'[^']*'?|[^\s&]+)", re.IGNORECASE | re.DOTALL)
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

KNOWN = {
    "TENURE_DATABASE_URL": "where the database is, as a postgresql:// URL or libpq words",
    "TENURE_SESSION_URL": "a direct address for the one session a worker keeps, beside a pooler's",
    "TENURE_SCHEMA": "the schema Tenure lives in (tenure)",
    "TENURE_HOME": "where the embedded Postgres keeps its files",
    "TENURE_PG_BIN": "a bin folder with another PostgreSQL for the embedded server",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command runs with. `database_url` is None when only the embedded Postgres is left."""

    database_url: str | None
    database_from: str
    schema: str = DEFAULT_SCHEMA


def load(
    *,
    database_url: str | None = None,
    flag: str = "--database-url",
    schema: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force; a name that is not known, or a value that cannot be, is refused here."""
    env = os.environ if environ is None else environ
    check_names(env)
    url, source = (check_url(database_url, flag), flag) if database_url is not None else _database(env)
    return Settings(url, source, check_schema_name(schema or _value("TENURE_SCHEMA", env) or DEFAULT_SCHEMA))


def session_url(given: str | None = None, environ: Mapping[str, str] | None = None) -> str | None:
    """The direct address beside a pooler's, from its flag or its variable; None if there is none."""
    if given is not None:
        return check_url(given, "--session-url")
    value = _value("TENURE_SESSION_URL", os.environ if environ is None else environ)
    return check_url(value, "TENURE_SESSION_URL") if value else None


def check_schema_name(schema: str) -> str:
    """The name itself, or BadSettings: it is written into SQL, so it must be a plain identifier."""
    if not _SCHEMA_NAME.fullmatch(schema):
        raise BadSettings(
            f"schema {schema!r} is not a plain name: use a-z, 0-9 and _, not starting with a digit, at most 63 letters"
        )
    if schema.startswith("pg_"):
        raise BadSettings(f"schema {schema!r} is reserved by Postgres: choose a name that does not start with pg_")
    return schema


def check_names(environ: Mapping[str, str]) -> None:
    """Refuse TENURE_* variables that mean nothing, with the nearest one that does."""
    for name in environ:
        known = name in KNOWN or (name.endswith("_FILE") and name.removesuffix("_FILE") in KNOWN)
        if name.startswith("TENURE_") and not known and not name.startswith("TENURE_TEST_"):
            near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.0)
            raise BadSettings(f"unknown setting {name}: did you mean {near[0]}?")


def _value(name: str, environ: Mapping[str, str]) -> str | None:
    """A setting from its variable, or from the file its _FILE variable names (Docker and Kubernetes secrets)."""
    if value := environ.get(name):
        return value
    if not (path := environ.get(f"{name}_FILE")):
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadSettings(f"{name}_FILE names {path!r}, which cannot be read: {error.strerror}") from error


def _database(environ: Mapping[str, str]) -> tuple[str | None, str]:
    for name in ("TENURE_DATABASE_URL", "DATABASE_URL"):
        if value := _value(name, environ):
            return check_url(value, name), name
    for name in ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGDATABASE"):
        if environ.get(name):
            return "", name  # libpq reads its own variables from an empty conninfo
    return None, "embedded"


def check_url(url: str, source: str) -> str:
    """The address as libpq takes it, or BadSettings; a password in it is never shown."""
    from psycopg import ProgrammingError, conninfo

    text = url.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        words = conninfo.conninfo_to_dict(text)
    except ProgrammingError:
        # Where it cannot be read, a password in it cannot be found either: only what has no room for one is shown.
        shown = f" ({text!r})" if not set(text) & set("@:=") else ""
        raise BadSettings(f"{source}{shown} is no database address: write postgresql://user@host:5432/name") from None
    shown = _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)
    if not text.strip():
        raise BadSettings(f"{source} is empty: write postgresql://user@host:5432/name")
    if "@" in str(words.get("host", "")) or not set(str(words.get("port") or "")) <= set("0123456789,"):
        raise BadSettings(
            f"{source} is {shown!r}, where password and port cannot be told apart: "
            "in a password write @ as %40, / as %2F, : as %3A"
        )
    return text
