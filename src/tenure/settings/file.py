"""Settings from files: tenure.toml or [tool.tenure] in pyproject.toml, and files that hold one secret each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadSettings
from .known import KNOWN, NEVER_IN_FILES, masked, nearest


class Found(NamedTuple):
    """A value, and where it came from: the flag, the variable, the file, or `default`."""

    value: str
    source: str


def written(name: str) -> Found | None:
    """A setting from the settings file, or from the file that it names for a secret."""
    source, table = settings_file()
    word = _word(name)
    if word in table:
        return Found(_text(table[word], word, source), source)
    if f"{word}_file" in table:
        path = _text(table[f"{word}_file"], f"{word}_file", source)
        return Found(read_secret(path, f"{word}_file in {source}"), f"{word}_file in {source}")
    return None


def settings_file(folder: Path | None = None) -> tuple[str, Mapping[str, Any]]:
    """The file's name and its values; an unknown name in it is refused, with the nearest known one."""
    at = folder or Path()
    if (text := _content(at / "tenure.toml")) is not None:
        return _checked("tenure.toml", _parsed(text, "tenure.toml"))
    text = _content(at / "pyproject.toml") or ""
    if "tool.tenure" not in text:  # most have none: do not parse them
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
    words = {_word(name): name for name in KNOWN}
    for word in table:
        if (name := words.get(word.removesuffix("_file"))) in NEVER_IN_FILES:
            raise BadSettings(
                f"{word} in {source} {NEVER_IN_FILES[name]}: remove it there, and set {name} in the environment"
            )
        if word not in words and word.removesuffix("_file") not in words:
            raise BadSettings(f"unknown setting {word!r} in {source}: did you mean {nearest(word, words)}?")
    return source, table


def _word(name: str) -> str:
    """The name of a setting in the file: TENURE_LEASE_SECONDS is lease_seconds there."""
    return name.removeprefix("TENURE_").lower()


def _text(value: object, word: str, source: str) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if isinstance(value, Mapping) and value and all(isinstance(each, str) for each in value.values()):
        return ",".join(f"{name}={each}" for name, each in value.items())  # [shards]
    if isinstance(value, Mapping | list):  # not shown: [shards.eu] may have a password in it
        form = "table, where each name" if isinstance(value, Mapping) else "list, where each part"
        raise BadSettings(f"{word} in {source} is a {form} must have text; else it must be text or a number")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        shown = masked(f"TENURE_{word.upper()}", repr(value))
        raise BadSettings(f"{word} in {source} is {shown}: it must be text or a number")
    return str(value)


def read_secret(path: str, source: str) -> str:
    """What a file with a secret contains; BadSettings names the source if it cannot be read."""
    return _read(Path(path), f"{source} names {path!r}, which").strip()


def _read(path: Path, named: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadSettings(f"{named} cannot be read: {why}") from error
