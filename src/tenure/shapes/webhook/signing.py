"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and the very bytes that are sent."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable

from ...errors import BadSettings

PREFIX = "whsec_"
SECRET_BYTES = 32
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64


def new_secret() -> str:
    """A secret as Standard Webhooks writes it."""
    return PREFIX + b64encode(os.urandom(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """The key in a secret, or BadSettings; no sentence holds it."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (ValueError, AttributeError):
        raise BadSettings(
            f"a secret must be {PREFIX} and base64: make one with tenure.shapes.webhook.new_secret()"
        ) from None
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise BadSettings(f"a secret has {len(key)} bytes, it must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}")
    return key


def signature(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """One signature, with its version."""
    signed = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + b64encode(signed).decode()


def headers(secrets: Iterable[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What is sent beside the body: one signature for each live secret."""
    signed = " ".join(signature(key_of(secret), id, timestamp, body) for secret in secrets)
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": signed}
