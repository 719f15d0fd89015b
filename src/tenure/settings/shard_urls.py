"""Several inboxes by name: a=postgresql://…,b=postgresql://…, or a table in the settings file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import BadSettings
from .known import BETWEEN_SHARDS

SHARD_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SWALLOWED = re.compile(r"[,;]\s*([a-z0-9][a-z0-9_-]{0,31}\s*=[^,;]*)", re.IGNORECASE)  # after a URL, in place of one
# After the name of the database, after the last folder of sockets, or nothing after the last comma.
_STRAY = re.compile(r"^[^/?]*/[^?]*[,;]\s*([^?]*)|[?&]host=(?:/|%2F)[^&]*,\s*([a-z0-9_-]+)$|[,;]\s*$", re.IGNORECASE)
EXAMPLE = "write e.g. eu=postgresql://…,us=postgresql://…"


def parse_shards(text: str, source: str) -> dict[str, str]:
    """The URLs by name; BadSettings names what is wrong, and shows no password."""
    found: dict[str, str] = {}
    for part in BETWEEN_SHARDS.split(text):
        name, parted, url = part.strip().partition("=")
        wrong = part.strip() if not parted or not _is_url(url.strip()) else _wrong_in(_behind_user(url.strip()))
        if wrong is not None:
            raise BadSettings(f"{source} has {_shown(wrong)!r}: each inbox must have a name and a URL; {EXAMPLE}")
        if name in found:
            raise BadSettings(f"{source} names {_shown(name)!r} twice: give each inbox a name of its own")
        found[name] = url.strip()
    check_list(found)
    return found


def _is_url(text: str) -> bool:
    return text.startswith(("postgresql://", "postgres://"))


def _behind_user(url: str) -> str:
    """Hosts, database and options; a password may have a comma."""
    rest = url.partition("://")[2]
    user, found, place = rest.partition("@")
    return place if found and "/" not in user else rest


def _wrong_in(place: str) -> str | None:
    """What comes behind a URL and is no inbox; None if nothing does."""
    if swallowed := _SWALLOWED.search(place):
        return swallowed[1]
    stray = _STRAY.search(place)
    return (stray[1] or stray[2] or "") if stray else None


def _shown(part: str) -> str:
    """An entry that cannot be read: only its name, if there is room for a password."""
    name, _, rest = part.partition("=")
    if not set(part.replace("://", "", 1)) & set("@:?") and "=" not in rest:
        return part
    return f"{name}=…" if SHARD_NAME.fullmatch(name.strip()) else "…"


def check_list(shards: Mapping[str, str]) -> None:
    """BadSettings unless each has a plain name and a URL of its own."""
    for name, url in shards.items():
        if not SHARD_NAME.fullmatch(name):
            raise BadSettings(f"{_shown(name)!r} must be a short name of a-z, 0-9, - and _ for an inbox; {EXAMPLE}")
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
