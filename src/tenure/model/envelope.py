"""The envelope of an encrypted payload: how it is recognised and told of, without any key."""

from __future__ import annotations

import re

import msgspec

from ..errors import TenureError

MEMBER = "$encrypted"  # the name in a payload under which its encrypted part stands
ENCRYPTED_WITH = "encrypted with key"  # how the reason begins why a worker left a row

MARK = f'"{MEMBER}"'
# As Postgres writes it; the end may be missing.
_ENVELOPE = re.compile(r'"\$encrypted": \{"key": "((?:[^"\\]|\\.)*)", "data": "[A-Za-z0-9+/=]*(?:"[^{}]*\}?)?')
_SHOWN = re.compile(rf'{re.escape(MARK)}\s*:\s*"{ENCRYPTED_WITH} ')  # what `shown` writes


class Envelope(msgspec.Struct, frozen=True):
    """What stands in the row: the key's name, which key that was, the bytes, and a digest for its idempotency key."""

    key: str
    print: str
    data: str
    digest: str = ""


class MissingKey(TenureError):
    """The payload is encrypted with a key that is not here; nothing was tried, and the row is left to others."""

    def __init__(self, key: str, why: str) -> None:
        self.key, self.why = key, why
        super().__init__(f"{ENCRYPTED_WITH} {key!r}, {why}")


class _Outer(msgspec.Struct):
    envelope: Envelope | None = msgspec.field(name=MEMBER, default=None)


_outer = msgspec.json.Decoder(_Outer)


def find(payload: str) -> Envelope | None:
    """The envelope in this JSON text; None if the payload is plain."""
    if MARK not in payload:
        return None
    try:
        return _outer.decode(payload).envelope
    except (msgspec.DecodeError, RecursionError):  # not an object, or not ours
        return None


def is_shown(payload: str) -> bool:
    """Is this what `shown` makes of an encrypted payload? Nobody can decrypt it any more."""
    return _SHOWN.search(payload) is not None


def shown(payload: str) -> str:
    """The payload for people, as JSON text: in place of the envelope, the name of its key. It may be cut off."""
    return _ENVELOPE.sub(rf'"{MEMBER}": "{ENCRYPTED_WITH} \1"', payload) if MARK in payload else payload
