"""Several inboxes by name: a=postgresql://…,b=postgresql://…, or a table in the settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import BadSettings
from .known import BETWEEN_SHARDS, masked

SHARD_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SWALLOWED = re.compile(
    r",\s*([a-z0-9][a-z0-9_-]{0,31}\s*=[^,]*)", re.IGNORECASE
)  # after a URL, without one of its own
EXAMPLE = "write e.g. eu=postgresql://…,us=postgresql://…"


def parse_shards(text: str, source: str) -> dict[str, str]:
    """The URLs by name; BadSettings names what is wrong."""
    found: dict[str, str] = {}
    for part in BETWEEN_SHARDS.split(text):
        name, parted, url = part.strip().partition("=")
        if not parted or not url.strip().startswith(("postgresql://", "postgres://")):
            raise BadSettings(f"{source} has {masked('', part)!r}: each inbox must have a name and a URL; {EXAMPLE}")
        if swallowed := _SWALLOWED.search(url.rpartition("@")[2]):  # a password may have a comma
            wrong = masked("", swallowed[1])
            raise BadSettings(f"{source} has {wrong!r}: each inbox must have a name and a URL; {EXAMPLE}")
        if name in found:
            raise BadSettings(f"{source} names {name!r} twice: give each inbox a name of its own")
        found[name] = url.strip()
    check_shards(found)
    return found


def check_shards(shards: Mapping[str, str]) -> None:
    """BadSettings unless each has a plain name and a URL of its own."""
    for name, url in shards.items():
        if not SHARD_NAME.fullmatch(name):
            raise BadSettings(f"{name!r} must be a short name of a-z, 0-9, - and _ for an inbox; {EXAMPLE}")
        if not url:
            raise BadSettings(f"inbox {name!r} must have a URL of its own; {EXAMPLE}")
    places: dict[tuple[str, ...], str] = {}
    for name, url in shards.items():
        if (other := places.setdefault(_place(url), name)) != name:
            raise BadSettings(f"inboxes {other!r} and {name!r} are one database: give each inbox one of its own")


def _place(url: str) -> tuple[str, ...]:
    """Which database it is, whoever asks and however; the address itself, if it cannot be read."""
    from psycopg import ProgrammingError, conninfo

    try:
        words = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items()}
    except (ProgrammingError, UnicodeDecodeError):
        return (url,)
    host = words.get("hostaddr") or words.get("host") or ""
    return host.lower(), words.get("port") or "5432", words.get("dbname") or words.get("user") or ""
