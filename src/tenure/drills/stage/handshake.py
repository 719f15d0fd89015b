"""The first packet of a Postgres connection: its kind, the secret of the line in it, and a refusal."""

from __future__ import annotations

import hmac
import re
import struct
from typing import Literal

PACKET_BYTES_MAX = 10_000  # the limit of Postgres itself
CANCEL_BYTES_MAX = 268  # a key of 256 bytes, the longest of protocol 3.2
_TLS = 0x16  # the first byte of direct TLS; as the first byte of a length it would be far too long
_CANCEL, _SSL, _GSS = 80_877_102, 80_877_103, 80_877_104
_SECRET = re.compile(r"(?:^|(?<= ))-c tenure\.line=([0-9a-f]+)(?: |$)")

Kind = Literal["startup", "cancel", "encryption", "tls", "nonsense"]


def options_with(secret: str, options: str) -> str:
    """The options of a connection with the secret added."""
    return f"{options} -c tenure.line={secret}".strip()


def rest_of(length: bytes) -> int | None:
    """How many bytes follow the four bytes of the length; None if these four are not a length."""
    rest = int(struct.unpack("!I", length)[0]) - len(length)
    return rest if 4 <= rest <= PACKET_BYTES_MAX else None


def kind_of(packet: bytes) -> Kind:
    """The kind of a first packet with its length in front; four bytes are enough if they are not a length."""
    if len(packet) < 8:
        return "tls" if packet[0] == _TLS else "nonsense"
    (code,) = struct.unpack_from("!I", packet, 4)
    if code == _CANCEL and len(packet) <= CANCEL_BYTES_MAX:
        return "cancel"
    if code in (_SSL, _GSS) and len(packet) == 8:
        return "encryption"
    return "startup" if code >> 16 == 3 else "nonsense"


def without_secret(packet: bytes, secret: str) -> bytes | None:
    """A startup packet without the secret, for the server; None if the secret is not in it."""
    words = packet[8:].rstrip(b"\0").split(b"\0")
    # A name without a value: the packet is broken, and the server need not see it.
    settings = {} if len(words) % 2 else dict(zip(words[::2], words[1::2], strict=True))
    options = settings.get(b"options", b"").decode("latin-1")
    if not any(hmac.compare_digest(shown, secret) for shown in _SECRET.findall(options)):
        return None
    left = _SECRET.sub("", options).strip(" ").encode("latin-1")
    kept = {name: value for name, value in settings.items() if name != b"options"}
    return _packet(packet[4:8], kept | ({b"options": left} if left else {}))


def no(sqlstate: str, sentence: str) -> bytes:
    """A refusal of a connection, as a Postgres server sends it."""
    fields = {"S": "FATAL", "V": "FATAL", "C": sqlstate, "M": sentence}
    body = b"".join(f"{name}{text}".encode() + b"\0" for name, text in fields.items()) + b"\0"
    return b"E" + struct.pack("!I", len(body) + 4) + body


def _packet(version: bytes, settings: dict[bytes, bytes]) -> bytes:
    body = version + b"".join(name + b"\0" + value + b"\0" for name, value in settings.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body
