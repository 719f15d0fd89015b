"""Encryption keys: where they come from, and what a ring of them must be."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadSettings
from ..model.payload import check_name

DIGEST = "digest"  # the name of a key that encrypts nothing: it makes the digests of idempotent rows
KEY_BYTES = 32
_MAKE = "make one with `openssl rand -base64 32`"


class Keys(NamedTuple):
    """A ring of keys, ready for use."""

    writes: str  # the name of the one that encrypts
    ciphers: Mapping[str, Any]
    prints: Mapping[str, str]  # tells two keys of one name apart, and tells nothing of them
    digest: bytes


def check_keys(found: Mapping[str, bytes]) -> Keys:
    """These keys as a ring, or BadSettings; no sentence ever holds a key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not isinstance(found, Mapping):
        came = type(found).__name__
        raise BadSettings(f"encryption keys come as {came}: give a mapping of names to {KEY_BYTES} bytes")
    for name, key in found.items():
        check_name(name, "the name of an encryption key")
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            size = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise BadSettings(f"encryption key {name!r} has {size}, it must have {KEY_BYTES} bytes: {_MAKE}")
    ring = {name: key for name, key in found.items() if name != DIGEST}
    if not ring:
        raise BadSettings(f"no encryption key is given: {_MAKE}")
    return Keys(
        next(iter(ring)),
        {name: AESGCM(key) for name, key in ring.items()},
        {name: _derived(key, b"tenure print").hex()[:8] for name, key in ring.items()},
        _derived(found.get(DIGEST, ring[min(ring, key=_turn)]), b"tenure digest"),
    )


def keys_from_env(variable: str = "TENURE_ENCRYPTION_KEYS") -> Callable[[], Mapping[str, bytes]]:
    """Keys from an environment variable, like `k2:BASE64,k1:BASE64`: the first one encrypts.

    Or from the file that the same variable with _FILE names.
    """

    def read() -> Mapping[str, bytes]:
        text, path = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
        if not text and path:
            return keys_from_file(path)()
        if not text:
            raise BadSettings(f"{variable} is not set: give it keys like k1:BASE64, {_MAKE}")
        return parse(text, variable)

    return read


def keys_from_file(path: str | Path) -> Callable[[], Mapping[str, bytes]]:
    """Keys from a file, one `NAME:BASE64` a line, the first one encrypts; read again when it may have changed."""

    def read() -> Mapping[str, bytes]:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(f"the file of encryption keys cannot be read: {error}") from None
        return parse(text, str(path))

    return read


def parse(text: str, source: str) -> dict[str, bytes]:
    """Keys as `NAME:BASE64`, between them commas or line ends; lines that begin with # are left out."""
    lines = [line for line in text.splitlines() if not line.strip().startswith("#")]
    keys: dict[str, bytes] = {}
    for n, word in enumerate((each for each in re.split(r"[\s,]+", "\n".join(lines)) if each), 1):
        name, colon, value = word.partition(":")
        try:
            key = b64decode(value, validate=True)
        except ValueError:
            key = b""
        if not colon or not name or not key:
            raise BadSettings(f"entry {n} of {source} is not NAME:BASE64: {_MAKE}")
        if name in keys:
            raise BadSettings(f"{source} has two encryption keys named {name!r}: rename one")
        keys[name] = key
    return keys


def _turn(name: str) -> list[tuple[int, str]]:
    """Names in their order, with numbers as numbers: k9 comes before k10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.new(key, purpose, hashlib.sha256).digest()
