"""Settings and where each came from: a flag, a TENURE_* variable or its _FILE, the settings file, or the default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import BadSettings
from .file import Found as Found
from .file import read_secret, written
from .file import settings_file as settings_file
from .known import DEFAULT_SCHEMA as DEFAULT_SCHEMA
from .known import DEFAULTS as DEFAULTS
from .known import DOOR as DOOR
from .known import KNOWN as KNOWN
from .known import LIBPQ as LIBPQ
from .known import POSTGRES_MAJORS as POSTGRES_MAJORS
from .known import URLS as URLS
from .known import check_names as check_names
from .known import masked as masked
from .shard_urls import check_list, parse_shards

_PORT_MAX = 65535
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command runs with. `database_url` is None when none is configured: the embedded Postgres is used."""

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
    """The settings in force; an unknown name or an impossible value is refused here."""
    env = os.environ if environ is None else environ
    check_names(env)
    url, source = (check_url(database_url, flag), flag) if database_url is not None else _database(env)
    found = find("TENURE_SCHEMA", schema, "--schema", env)
    return Settings(url, source, check_schema_name(found.value if found else DEFAULT_SCHEMA))


def session_url(given: str | None = None, environ: Mapping[str, str] | None = None) -> str | None:
    """The direct address for a worker behind a pooler, from its flag or its variable; None if not set."""
    if given is not None:
        return check_url(given, "--session-url")
    found = find("TENURE_SESSION_URL", environ=environ)
    return check_url(*found) if found else None


def shards(
    given: str | None = None, environ: Mapping[str, str] | None = None, *, wanted: bool = False
) -> dict[str, str]:
    """Several inboxes by name, from the flag, the variable or the settings file; none if not set.

    A variable that names one database goes before the file, unless an inbox of the file is `wanted`.
    """
    env = os.environ if environ is None else environ
    found = find("TENURE_SHARDS", given, "--shards", env)
    if found is None or not (given or wanted or _named("TENURE_SHARDS", env) or not _names_one(env)):
        return {}
    return {name: check_url(url, found.source) for name, url in parse_shards(*found).items()}


def check_shards(shards: Mapping[str, str]) -> None:
    """BadSettings unless each has a plain name and an address of its own that can be read."""
    check_list(shards)
    for name, url in shards.items():
        check_url(url, f"inbox {name!r}")


def on_citus(given: bool | None = None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the database is the coordinator of a Citus cluster, as the caller, the variable or the file says."""
    if given is not None:
        return given
    found = find("TENURE_CITUS", environ=environ)
    if found is not None and found.value not in ("on", "off"):
        raise BadSettings(f"TENURE_CITUS={found.value!r} must be on or off: correct it in {found.source}")
    return found is not None and found.value == "on"


def find(name: str, given: object = None, flag: str = "", environ: Mapping[str, str] | None = None) -> Found | None:
    """A setting from the first place that has it: flag, variable, the variable's _FILE, settings file, default."""
    if given is not None and given != "":
        return Found(_utf8(str(given), flag, name), flag)
    env = os.environ if environ is None else environ
    return _named(name, env) or written(name) or (Found(DEFAULTS[name], "default") if name in DEFAULTS else None)


def number(name: str, given: float | None = None, flag: str = "", environ: Mapping[str, str] | None = None) -> float:
    """A setting that must be a number and has a default."""
    found = find(name, given, flag, environ)
    assert found is not None, f"{name} has no default"
    try:
        return float(found.value)
    except ValueError:
        raise BadSettings(f"{name}={found.value!r} must be a number: correct it in {found.source}") from None


def whole(name: str, given: int | None = None, flag: str = "", environ: Mapping[str, str] | None = None) -> int:
    """A setting that must be a whole number."""
    found = number(name, given, flag, environ)
    if not found.is_integer():
        raise BadSettings(f"{name}={found:g} must be a whole number")
    return int(found)


def check_drills(environ: Mapping[str, str] | None = None) -> None:
    """BadSettings where drills are forbidden: they start processes and create schemas."""
    found = find("TENURE_DRILLS", environ=environ)
    if found is None or found.value == "allow":
        return
    if found.value != "forbid":
        raise BadSettings(f"TENURE_DRILLS={found.value!r} must be allow or forbid: correct it in {found.source}")
    raise BadSettings(f"drills are forbidden here by {found.source}: play them on another database")


def everything(
    environ: Mapping[str, str] | None = None, *, database_url: str | None = None, schema: str | None = None
) -> list[tuple[str, Found | None]]:
    """Every setting with its value and source, for people: secrets are masked."""
    env = os.environ if environ is None else environ
    chosen = load(database_url=database_url, schema=schema, environ=env)
    shown = {name: find(name, environ=env) for name in KNOWN}
    shown["TENURE_SCHEMA"] = find("TENURE_SCHEMA", schema, "--schema", env)
    shown["TENURE_DATABASE_URL"] = Found(chosen.database_url or "", chosen.database_from)
    return [(name, Found(masked(name, found.value), found.source) if found else None) for name, found in shown.items()]


def check_schema_name(schema: str) -> str:
    """The name itself, or BadSettings: it is written into SQL, so it must be a plain identifier."""
    if not _SCHEMA_NAME.fullmatch(schema):
        raise BadSettings(f"schema {schema!r} is not a plain name: use a-z, 0-9 and _, at most 63, no digit first")
    if schema.startswith("pg_"):
        raise BadSettings(f"schema {schema!r} is reserved by Postgres: choose a name that does not start with pg_")
    return schema


def _named(name: str, environ: Mapping[str, str]) -> Found | None:
    """A setting from its variable, or from the file its _FILE variable names (Docker and Kubernetes secrets)."""
    if value := environ.get(name):
        return Found(_utf8(value, name, name), name)
    if path := environ.get(f"{name}_FILE"):
        return Found(read_secret(path, f"{name}_FILE"), f"{name}_FILE")
    return None


def _utf8(value: str, source: str, name: str = "") -> str:
    """The value itself, or BadSettings: Python keeps bytes that are not UTF-8 in arguments and variables."""
    if value != value.encode(errors="ignore").decode():
        shown = masked(name, value)
        room = ":" in shown.replace("://", "").replace(":***", "")  # for a password that nobody can find
        raise BadSettings(f"{source} is {'a value' if room else repr(shown)}, which is not UTF-8: correct it there")
    return value


def _names_one(environ: Mapping[str, str]) -> bool:
    """Does a variable name one database?"""
    return any(_named(name, environ) for name in URLS) or any(environ.get(name) for name in LIBPQ)


def _database(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The environment goes before the file: a file belongs to the code, a variable to the machine."""
    for name in URLS:
        if found := _named(name, environ):
            return check_url(*found), found.source
    for name in LIBPQ:
        if environ.get(name):
            return "", name  # libpq reads its own variables from an empty conninfo
    if found := written("TENURE_DATABASE_URL"):
        return check_url(*found), found.source
    return None, "embedded"


def check_url(url: str, source: str) -> str:
    """The address for libpq, or BadSettings; a password in it is never shown."""
    from psycopg import ProgrammingError, conninfo

    text = _utf8(url, source).replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        words = conninfo.conninfo_to_dict(text)
    except (ProgrammingError, UnicodeDecodeError):  # the latter for u%ff
        # In an address that cannot be read, no password can be found: show it only if it has no room for one.
        shown = f" ({text!r})" if not set(text) & set("@:=") else ""
        raise BadSettings(
            f"{source}{shown} must be a database address: write postgresql://user@host:5432/name"
        ) from None
    if not text.strip():
        raise BadSettings(f"{source} is empty: write postgresql://user@host:5432/name")
    if "@" in str(words.get("host", "")) or not set(str(words.get("port") or "")) <= set("0123456789,"):
        raise BadSettings(  # without the text: where the host is forgotten, the password is what looks like a port
            f"{source} is an address where password and port cannot be told apart: "
            "write postgresql://user:password@host:5432/name, and in a password @ as %40, / as %2F, : as %3A"
        )
    if not all(0 < int(port) <= _PORT_MAX for port in str(words.get("port") or "").split(",") if port):
        raise BadSettings(  # without the number: it may be a password, too
            f"{source} has an impossible port: write one from 1 to {_PORT_MAX}, as in postgresql://user@host:5432/name"
        )
    return text
