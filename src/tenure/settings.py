"""Settings and where each came from: a flag, a TENURE_* variable or its _FILE, the settings file, or the default."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .errors import BadSettings

DEFAULT_SCHEMA = "tenure"
POSTGRES_MAJORS = range(14, 19)  # the versions every change is tested on
_PASSWORD = re.compile(r"(://[^:/@]*:).*@|(password\s*=\s*)(?:'[^']*'?|[^\s&]+)", re.IGNORECASE | re.DOTALL)
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRET = re.compile(r"TOKEN|USERS|PASSWORD|SECRET")
URLS = ("TENURE_DATABASE_URL", "DATABASE_URL")
LIBPQ = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGDATABASE")  # any of them names a database, too

KNOWN = {
    "TENURE_DATABASE_URL": "where the database is, as a postgresql:// URL or libpq words",
    "TENURE_SESSION_URL": "a direct address for the one session a worker keeps, beside a pooler's",
    "TENURE_SCHEMA": "the schema Tenure lives in (tenure)",
    "TENURE_HOME": "where the embedded Postgres keeps its files",
    "TENURE_TRACE": "how OpenTelemetry spans of jobs hang together with their producers': link, parent or off (link)",
    "TENURE_PG_BIN": "a bin folder with another PostgreSQL for the embedded server",
    "TENURE_QUEUES": "which queues a worker serves",
    "TENURE_SLOTS": "how many jobs a worker runs at once",
    "TENURE_LEASE_SECONDS": "how long a claim holds without renewal",
    "TENURE_DRAIN_SECONDS": "how long handlers may finish after SIGTERM",
    "TENURE_POLL_SECONDS": "how often a worker looks when nobody calls",
    "TENURE_GRACE_SECONDS": "how long a worker whose session ended may stay away",
    "TENURE_HEALTH_PORT": "where a worker serves /livez /readyz /startupz /metrics",
    "TENURE_HEALTH_HOST": "on which address it does",
    "TENURE_WEB_HOST": "on which address `tenure serve` listens (127.0.0.1)",
    "TENURE_WEB_PORT": "on which port it does (7117)",
    "TENURE_WEB_TOKEN": "a token that makes its bearer admin of the HTTP API and the dashboard",
    "TENURE_WEB_TOKENS": "tokens with names and roles: ann:operate:TOKEN,grafana:read:TOKEN",
    "TENURE_WEB_USERS": "people with names, roles and passwords for basic auth: ann:operate:PASSWORD",
    "TENURE_WEB_REDACT": "further names whose values in payloads are not shown: iban,birthday",
    "TENURE_DRILLS": "whether drills may be played on this database: allow or forbid (allow)",
    "TENURE_TERMINATION_GRACE_SECONDS": "how long the orchestrator waits after SIGTERM, for `tenure doctor` to check",
}

# What holds where nothing is said; a name that is not here has no default.
DEFAULTS = {
    "TENURE_SCHEMA": DEFAULT_SCHEMA,
    "TENURE_SLOTS": "20",
    "TENURE_LEASE_SECONDS": "90",
    "TENURE_DRAIN_SECONDS": "25",
    "TENURE_POLL_SECONDS": "2",
    "TENURE_GRACE_SECONDS": "6",
    "TENURE_HEALTH_HOST": "127.0.0.1",
}


class Found(NamedTuple):
    """A value, and who said so: the flag, the variable, the file, or `default`."""

    value: str
    source: str


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
    found = find("TENURE_SCHEMA", schema, "--schema", env)
    return Settings(url, source, check_schema_name(found.value if found else DEFAULT_SCHEMA))


def session_url(given: str | None = None, environ: Mapping[str, str] | None = None) -> str | None:
    """The direct address beside a pooler's, from its flag or its variable; None if there is none."""
    if given is not None:
        return check_url(given, "--session-url")
    found = find("TENURE_SESSION_URL", environ=environ)
    return check_url(*found) if found else None


def find(name: str, given: object = None, flag: str = "", environ: Mapping[str, str] | None = None) -> Found | None:
    """A setting from the first who says it: flag, variable, the file it names, settings file, default."""
    if given is not None and given != "":
        return Found(_utf8(str(given), flag, name), flag)
    env = os.environ if environ is None else environ
    return _named(name, env) or _written(name) or (Found(DEFAULTS[name], "default") if name in DEFAULTS else None)


def number(name: str, given: float | None = None, flag: str = "", environ: Mapping[str, str] | None = None) -> float:
    """The same, where it must be a number and there is always one."""
    found = find(name, given, flag, environ)
    assert found is not None, f"{name} has no default"
    try:
        return float(found.value)
    except ValueError:
        raise BadSettings(f"{name}={found.value!r} is no number: correct it in {found.source}") from None


def whole(name: str, given: int | None = None, flag: str = "", environ: Mapping[str, str] | None = None) -> int:
    """The same, where it must be a whole number."""
    found = number(name, given, flag, environ)
    if not found.is_integer():
        raise BadSettings(f"{name}={found:g} is no whole number: correct it")
    return int(found)


def check_drills(environ: Mapping[str, str] | None = None) -> None:
    """BadSettings where drills are forbidden: they start processes and make schemas, which not every place wants."""
    found = find("TENURE_DRILLS", environ=environ)
    if found is None or found.value == "allow":
        return
    if found.value != "forbid":
        raise BadSettings(f"TENURE_DRILLS={found.value!r} is neither allow nor forbid: correct it in {found.source}")
    raise BadSettings(f"drills are forbidden here by {found.source}: play them on another database")


def everything(
    environ: Mapping[str, str] | None = None, *, database_url: str | None = None, schema: str | None = None
) -> list[tuple[str, Found | None]]:
    """Every setting there is with its value and source, for people: what is secret in a value is masked."""
    env = os.environ if environ is None else environ
    chosen = load(database_url=database_url, schema=schema, environ=env)
    shown = {name: find(name, environ=env) for name in KNOWN}
    shown["TENURE_SCHEMA"] = find("TENURE_SCHEMA", schema, "--schema", env)
    shown["TENURE_DATABASE_URL"] = Found(chosen.database_url or "", chosen.database_from)
    return [(name, Found(masked(name, found.value), found.source) if found else None) for name, found in shown.items()]


def masked(name: str, value: str) -> str:
    """The value as it may be shown."""
    if _SECRET.search(name):
        return "***"
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", value)


def check_schema_name(schema: str) -> str:
    """The name itself, or BadSettings: it is written into SQL, so it must be a plain identifier."""
    if not _SCHEMA_NAME.fullmatch(schema):
        raise BadSettings(f"schema {schema!r} is not a plain name: use a-z, 0-9 and _, at most 63, no digit first")
    if schema.startswith("pg_"):
        raise BadSettings(f"schema {schema!r} is reserved by Postgres: choose a name that does not start with pg_")
    return schema


def check_names(environ: Mapping[str, str]) -> None:
    """Refuse TENURE_* variables that mean nothing, with the nearest one that does."""
    for name in environ:
        known = name.removesuffix("_FILE") in KNOWN or name in KNOWN
        if name.startswith("TENURE_") and not known and not name.startswith("TENURE_TEST_"):
            raise BadSettings(f"unknown setting {name}: did you mean {_nearest(name, KNOWN)}?")


def _nearest(name: str, known: Iterable[str]) -> str:
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def _named(name: str, environ: Mapping[str, str]) -> Found | None:
    """A setting from its variable, or from the file its _FILE variable names (Docker and Kubernetes secrets)."""
    if value := environ.get(name):
        return Found(_utf8(value, name, name), name)
    if path := environ.get(f"{name}_FILE"):
        return Found(_read_secret(path, f"{name}_FILE"), f"{name}_FILE")
    return None


def _utf8(value: str, source: str, name: str = "") -> str:
    """The value itself, or BadSettings: Python keeps bytes of arguments and variables that mean nothing."""
    if value != value.encode(errors="ignore").decode():
        raise BadSettings(f"{source} is {masked(name, value)!r}, which is not UTF-8: correct it there")
    return value


def _read_secret(path: str, source: str) -> str:
    return _read(Path(path), f"{source} names {path!r}, which").strip()


def _read(path: Path, named: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadSettings(f"{named} cannot be read: {why}") from error


# -- the settings file: tenure.toml, or [tool.tenure] in pyproject.toml, of the working directory


def _written(name: str) -> Found | None:
    source, table = settings_file()
    word = _word(name)
    if word in table:
        return Found(_text(table[word], word, source), source)
    if f"{word}_file" in table:
        path = _text(table[f"{word}_file"], f"{word}_file", source)
        return Found(_read_secret(path, f"{word}_file in {source}"), f"{word}_file in {source}")
    return None


def settings_file(folder: Path | None = None) -> tuple[str, Mapping[str, Any]]:
    """Its name and what it says; a name in it that means nothing is refused, with the nearest one that does."""
    at = folder or Path()
    if (text := _content(at / "tenure.toml")) is not None:
        return _checked("tenure.toml", _parsed(text, "tenure.toml"))
    text = _content(at / "pyproject.toml") or ""
    if "tool.tenure" not in text:  # most have none: spare them the parsing
        return "", {}
    table = _parsed(text, "pyproject.toml").get("tool", {}).get("tenure", {})
    return _checked("[tool.tenure] in pyproject.toml", table)


def _content(path: Path) -> str | None:
    return _read(path, f"{path.name} of the working directory") if os.path.lexists(path) else None


def _parsed(text: str, source: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSettings(f"{source} of the working directory is not TOML: {error}") from None


def _checked(source: str, table: object) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(table, Mapping):
        raise BadSettings(f"{source} must be a table of names and values")
    words = {_word(name) for name in KNOWN}
    for word in table:
        if word not in words and word.removesuffix("_file") not in words:
            raise BadSettings(f"unknown setting {word!r} in {source}: did you mean {_nearest(word, words)}?")
    return source, table


def _word(name: str) -> str:
    """A setting as the file calls it: TENURE_LEASE_SECONDS is lease_seconds there."""
    return name.removeprefix("TENURE_").lower()


def _text(value: object, word: str, source: str) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadSettings(f"{word} in {source} is {value!r}: write a text or a number")
    return str(value)


# -- the database


def _database(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Whatever the environment says goes before the file: a file travels with the code, a variable with the place."""
    for name in URLS:
        if found := _named(name, environ):
            return check_url(*found), found.source
    for name in LIBPQ:
        if environ.get(name):
            return "", name  # libpq reads its own variables from an empty conninfo
    if found := _written("TENURE_DATABASE_URL"):
        return check_url(*found), found.source
    return None, "embedded"


def check_url(url: str, source: str) -> str:
    """The address as libpq takes it, or BadSettings; a password in it is never shown."""
    from psycopg import ProgrammingError, conninfo

    text = _utf8(url, source).replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        words = conninfo.conninfo_to_dict(text)
    except (ProgrammingError, UnicodeDecodeError):  # the latter for u%ff
        # Where it cannot be read, a password in it cannot be found either: only what has no room for one is shown.
        shown = f" ({text!r})" if not set(text) & set("@:=") else ""
        raise BadSettings(f"{source}{shown} is no database address: write postgresql://user@host:5432/name") from None
    if not text.strip():
        raise BadSettings(f"{source} is empty: write postgresql://user@host:5432/name")
    if "@" in str(words.get("host", "")) or not set(str(words.get("port") or "")) <= set("0123456789,"):
        raise BadSettings(
            f"{source} is {masked('', text)!r}, where password and port cannot be told apart: "
            "in a password write @ as %40, / as %2F, : as %3A"
        )
    return text
