"""Signatures of Standard Webhooks over id, time and the very bytes that are sent: HMAC-SHA256, or ed25519.

A secret whsec_… is shared with the receiver and signs as v1. A key whsk_… stays with us and signs as v1a: the receiver
has its public half, whpk_…, and can forge nothing with it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

from ...errors import BadSettings

PREFIX, SIGNING, PUBLIC = "whsec_", "whsk_", "whpk_"
SEED_BYTES = 32
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


def new_signing_key() -> str:
    """A key for ed25519: give the receiver `public_key` of it, and nobody the key itself."""
    _ed25519()
    return SIGNING + b64encode(os.urandom(SEED_BYTES)).decode()


def public_key(key: str) -> str:
    """The half of a signing key that a receiver verifies with."""
    return PUBLIC + b64encode(_private(key).public_key().public_bytes_raw()).decode()


def check_secret(secret: Any) -> str:
    """The secret or signing key itself, or BadSettings."""
    _private(secret) if str(secret).startswith(SIGNING) else key_of(secret)
    return str(secret)


def signed(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """One signature by what the secret is, with its version."""
    if not secret.startswith(SIGNING):
        return signature(key_of(secret), id, timestamp, body)
    return "v1a," + b64encode(_private(secret).sign(f"{id}.{timestamp}.".encode() + body)).decode()


def signature(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """One signature, with its version."""
    made = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + b64encode(made).decode()


def headers(secrets: Iterable[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What is sent beside the body: one signature for each live secret."""
    every = " ".join(signed(secret, id, timestamp, body) for secret in secrets)
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": every}


def _private(key: str) -> Any:
    try:
        seed = b64decode(key.removeprefix(SIGNING), validate=True)
    except ValueError:
        seed = b""
    if len(seed) not in (SEED_BYTES, 2 * SEED_BYTES):  # others write the public half behind it
        raise BadSettings(f"a signing key must be {SIGNING} and 32 bytes in base64: make one with new_signing_key()")
    return _ed25519().from_private_bytes(seed[:SEED_BYTES])


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise BadSettings("ed25519 needs the package cryptography: pip install 'tenure[crypto]'") from None
    return Ed25519PrivateKey
