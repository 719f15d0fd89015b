"""What a handler's rows have encrypted: nothing, the whole payload, or some of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ..errors import BadSettings, InvalidPayload
from ..model.envelope import MissingKey, find
from ..model.payload import encode
from ..model.rows import Claimed, NewRow
from ..model.veil import Veil
from .codec import Codec


@dataclass(frozen=True, slots=True)
class Encryption:
    """A codec, perhaps, and what it is used for; None means the whole payload, if there is a codec."""

    codec: Codec | None = None
    wanted: bool | Sequence[str] | None = None

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The fields to encrypt; None: all."""
        return None if self.wanted is None or isinstance(self.wanted, bool) else tuple(self.wanted)

    @property
    def on(self) -> bool:
        """Whether rows are encrypted when they are sent."""
        return self.codec is not None and self.wanted is not False

    def checked(self, kind: str, known: Sequence[str] | None, shown: Sequence[str]) -> Encryption:
        """Itself, or BadSettings: a field that is not there, or one that the key would show."""
        _check(kind, self.codec, self.wanted)
        if not self.on:
            return self
        for name in self.fields or ():
            if known is not None and name not in known:
                raise BadSettings(
                    f"handler {kind!r} encrypts {name!r}, but it does not take it: it takes {', '.join(known)}"
                )
        for name in shown:
            if self.fields is None or name in self.fields:
                raise BadSettings(
                    f"the key of handler {kind!r} would show {name!r}, which is encrypted: "
                    "make the key of other fields, or name the fields to encrypt without it, encrypt=[…]"
                )
        return self

    def encrypted(self, row: NewRow) -> NewRow:
        """The row as it is sent."""
        if self.codec is None or not self.on:
            return row
        payload = self.codec.encrypt(
            row.payload,
            kind=row.kind,
            queue=row.queue,
            key=row.key,
            idempotency_key=row.idempotency_key,
            fields=self.fields,
        )
        return replace(row, payload=payload)

    def decrypted(self, row: Claimed) -> tuple[str, Veil | None]:
        """The payload of a claimed row as plain JSON, with a veil if it was encrypted.

        MissingKey if this process cannot open it. A payload that was sent in clear is taken as it is.
        """
        envelope = find(row.payload)
        if envelope is None:
            return row.payload, None
        if self.codec is None:
            raise MissingKey(envelope.key, "and this worker has no codec")
        key = None if row.partition_key == str(row.id) else row.partition_key
        plain = self.codec.decrypt(row.payload, envelope, kind=row.kind, queue=row.queue, key=key)
        return plain, Veil(plain)

    def sealed(self, value: Any, row: Claimed, *, secret: bool) -> str:
        """The result of a row as JSON text: encrypted if its handler encrypts, or if its payload was (secret)."""
        if not (self.on or secret):
            return encode(value)
        if self.codec is None:
            raise InvalidPayload("its payload was encrypted, and this worker has no codec for its result")
        key = None if row.partition_key == str(row.id) else row.partition_key
        kept = self.codec.encrypt(value, kind=f"{RESULT_OF}{row.kind}", queue=row.queue, key=key)
        return bytes(kept).decode()


CLEAR = Encryption()
RESULT_OF = "result of "  # a sealed result does not open as the payload of its row


def _check(kind: str, codec: Any, wanted: Any) -> None:
    if codec is not None and not isinstance(codec, Codec):
        raise BadSettings(f"codec={type(codec).__name__} must be a Codec: Inbox(codec=Codec(keys_from_env()))")
    if isinstance(wanted, str) or not (wanted is None or isinstance(wanted, bool | Sequence)):
        raise BadSettings(f"handler {kind!r} has encrypt={wanted!r}: give True, False or a list of fields")
    if wanted and codec is None:
        raise BadSettings(f"handler {kind!r} has encrypt={wanted!r}, but its inbox has no codec: Inbox(codec=…)")
    if not isinstance(wanted, bool) and wanted is not None and not wanted:
        raise BadSettings(f"handler {kind!r} has encrypt={wanted!r}, which names no field: write encrypt=False")
