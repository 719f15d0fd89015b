"""The text of a web token, and what is kept of it: an id that may be shown, and the digest of its secret."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import NamedTuple

PREFIX = "tnr_"  # so that scanners for secrets can know it
_FORM = re.compile(r"tnr_([0-9a-f]{12})_([\w-]{43})", re.ASCII)


class Kept(NamedTuple):
    """What is kept of a token."""

    id: str
    hash: bytes


def new() -> str:
    """A token with a secret of 256 bits."""
    return f"{PREFIX}{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def kept(text: str) -> Kept | None:
    """What is kept of this token; None if it has not the form of one."""
    form = _FORM.fullmatch(text)
    return Kept(form[1], hashlib.sha256(form[2].encode()).digest()) if form else None
