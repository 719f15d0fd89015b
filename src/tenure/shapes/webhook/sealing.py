"""Secrets and bodies at rest: encrypted if the inbox has a codec, each bound to what it belongs to."""

from __future__ import annotations

from typing import Any

import msgspec

from ...app.codec import Codec
from ...model.envelope import MissingKey, find

SEALED = b"\0"  # how a sealed body begins; JSON never does


def seal(codec: Codec | None, text: str, what: str, of: str) -> str:
    """The text as it is kept."""
    if codec is None:
        return text
    return bytes(codec.encrypt(text, kind=f"webhook {what}", queue="", key=of)).decode()


def open_sealed(codec: Codec | None, kept: str, what: str, of: str) -> str:
    """The text again; MissingKey if this process cannot open it."""
    envelope = find(kept) if kept.startswith("{") else None
    if envelope is None:
        return kept
    if codec is None:
        raise MissingKey(envelope.key, "and this inbox has no codec")
    text: Any = msgspec.json.decode(codec.decrypt(kept, envelope, kind=f"webhook {what}", queue="", key=of))
    return str(text)


def seal_body(codec: Codec | None, body: bytes, tenant: str) -> bytes:
    """The bytes as they are kept."""
    return body if codec is None else SEALED + seal(codec, body.decode(), "body", tenant).encode()


def open_body(codec: Codec | None, kept: bytes, tenant: str) -> bytes:
    """The bytes that are signed and sent."""
    if not kept.startswith(SEALED):
        return kept
    return open_sealed(codec, kept.removeprefix(SEALED).decode(), "body", tenant).encode()
