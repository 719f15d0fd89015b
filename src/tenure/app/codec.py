"""Encrypted payloads: AES-GCM under a ring of named keys, bound to the row they were sent in."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import time
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ..errors import BadSettings, InvalidPayload
from ..model.envelope import MEMBER, Envelope, MissingKey
from ..model.payload import encode
from .key_ring import Keys, check_keys

NONCE_BYTES = 12
ASK_AGAIN_SECONDS = 60.0  # how old the keys of a callable may be when something is encrypted
MISSED_SECONDS = 5.0  # and when a key is missing
ANY_AGE = float("inf")
_raws = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Codec:
    """Encrypts payloads with the first key of its ring, and opens those of every key in it.

    `keys` is a mapping of names to 32 bytes, or a function that returns one: it is asked again every minute, and when
    a key is missing. `keys_from_env` and `keys_from_file` make such functions.
    """

    def __init__(self, keys: Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]) -> None:
        self._ask = keys if callable(keys) else None
        self._lock = threading.Lock()
        self._keys: Keys | None = None if callable(keys) else check_keys(keys)
        self._asked = 0.0
        _aesgcm()  # say at once that the package is missing

    def __repr__(self) -> str:
        return "<Codec>"  # never a key

    def encrypt(
        self,
        payload: Any,
        *,
        kind: str,
        queue: str,
        key: str | None,
        idempotency_key: str | None = None,
        fields: Iterable[str] | None = None,
    ) -> msgspec.Raw:
        """The payload as JSON with an envelope: whole, or only these fields of it."""
        keys, text = self._ring(ASK_AGAIN_SECONDS), encode(payload)
        clear: dict[str, msgspec.Raw] = {}
        if fields is not None:
            clear, text = _apart(text, frozenset(fields))
        elif MEMBER in text and isinstance(payload, Mapping) and MEMBER in payload:
            raise _taken()
        name, nonce = keys.writes, os.urandom(NONCE_BYTES)
        data = keys.ciphers[name].encrypt(nonce, text.encode(), _bound(name, kind, queue, key))
        envelope = {"key": name, "print": keys.prints[name], "data": b64encode(nonce + data).decode()}
        if idempotency_key is not None:
            envelope["digest"] = _digest(keys.digest, kind, idempotency_key, text)
        return msgspec.Raw(msgspec.json.encode({**clear, MEMBER: envelope}))

    def decrypt(self, payload: str, envelope: Envelope, *, kind: str, queue: str, key: str | None) -> str:
        """The payload as plain JSON text.

        MissingKey if its key is not in the ring, InvalidPayload if it is, but the content was changed or moved.
        """
        cipher = self._cipher(envelope)
        try:
            data = a2b_base64(envelope.data, strict_mode=True)
            bound = _bound(envelope.key, kind, queue, key)
            text: str = cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound).decode()
        except Exception:  # InvalidTag, or bytes that are no envelope at all
            raise InvalidPayload(
                f"the payload cannot be decrypted with its key {envelope.key!r}: "
                "it was changed, or comes from another row"
            ) from None
        clear = _raws.decode(payload)
        del clear[MEMBER]
        if not clear:
            return text
        beside = msgspec.json.encode(clear).decode()
        return f"{beside[:-1]},{text[1:]}" if len(text) > 2 else beside  # two objects made one

    def _cipher(self, envelope: Envelope) -> Any:
        for oldest in (ANY_AGE, MISSED_SECONDS):
            try:
                keys = self._ring(oldest)
            except Exception as error:  # of a vault that does not answer, of a file that is not there yet
                why = str(error) if isinstance(error, BadSettings) else type(error).__name__  # no sentence holds a key
                raise MissingKey(envelope.key, f"and this worker cannot read its keys ({why})") from None
            if keys.prints.get(envelope.key) == envelope.print:
                return keys.ciphers[envelope.key]
        if envelope.key in keys.prints:
            raise MissingKey(envelope.key, "but this worker has another key of that name")
        raise MissingKey(envelope.key, "which this worker does not have")

    def _ring(self, oldest_seconds: float) -> Keys:
        """The keys, asked for again if they are older than this."""
        keys = self._keys
        if keys is not None and (self._ask is None or oldest_seconds == ANY_AGE):
            return keys
        with self._lock:
            if self._keys is None or time.monotonic() - self._asked > oldest_seconds:
                self._asked = time.monotonic()
                self._keys = self._found()
            return self._keys

    def _found(self) -> Keys:
        """The keys as they are now; those of before, if they cannot be read."""
        assert self._ask is not None
        try:
            return check_keys(self._ask())
        except Exception:
            if self._keys is None:
                raise
            return self._keys


def _apart(text: str, fields: frozenset[str]) -> tuple[dict[str, msgspec.Raw], str]:
    """The clear fields of an object, and the others as JSON text."""
    try:
        every = _raws.decode(text)
    except msgspec.DecodeError:
        raise InvalidPayload("only fields of an object can be encrypted one by one: use encrypt=True") from None
    if MEMBER in every:
        raise _taken()
    secret = {name: value for name, value in every.items() if name in fields}
    return {name: every[name] for name in every.keys() - fields}, msgspec.json.encode(secret).decode()


def _taken() -> InvalidPayload:
    return InvalidPayload(f"a field of an encrypted payload cannot be named {MEMBER!r}: rename it")


def _bound(name: str, kind: str, queue: str, key: str | None) -> bytes:
    """What the ciphertext belongs to: in a row of another kind, queue or key it does not open."""
    return msgspec.json.encode(("tenure 1", name, kind, queue, key))


def _digest(secret: bytes, kind: str, idempotency_key: str, text: str) -> str:
    """The same for the same content, whichever key encrypts it, and told to nobody who lacks the secret."""
    same = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    said = "\x1f".join([kind, idempotency_key, same]).encode("utf-8", "surrogatepass")
    return hmac.new(secret, said, hashlib.sha256).hexdigest()


def _aesgcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise BadSettings("a Codec needs the package cryptography: pip install 'tenure[crypto]'") from None
    return AESGCM
