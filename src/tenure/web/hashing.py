"""Secrets as salted hashes: whoever reads the settings does not learn the secret. scrypt, of the standard library."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

COST, BLOCK, LANES = 2**14, 8, 5  # 16 MiB; OWASP's list of equal strengths has it
MEMORY_MAX = 256 * 2**20
PREFIX = "scrypt."  # no $, : or comma in it: shells, compose files and our own lists would take those as theirs
_FORM = re.compile(r"scrypt\.(\d{1,7})\.(\d{1,2})\.(\d{1,2})\.([\w-]{22})\.([\w-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash of a secret, as `tenure serve --hash` prints it."""

    cost: int
    block: int
    lanes: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, secret: str) -> Hashed:
        """A new hash, with a salt of its own."""
        made = cls(COST, BLOCK, LANES, secrets.token_bytes(16), b"")
        return cls(COST, BLOCK, LANES, made.salt, made._made_of(secret))

    @classmethod
    def read(cls, text: str) -> Hashed | None:
        """The hash that is written so; None if this is none, or one that nobody could compute."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        cost, block, lanes = (int(found[n]) for n in (1, 2, 3))
        possible = cost >= 2 and cost & (cost - 1) == 0 and 128 * cost * block <= MEMORY_MAX
        if not (possible and block and 1 <= lanes <= 16):
            return None
        return cls(cost, block, lanes, _bytes(found[4]), _bytes(found[5]))

    def matches(self, secret: str) -> bool:
        """Is this the secret? It takes a quarter of a second."""
        return hmac.compare_digest(self._made_of(secret), self.digest)

    def __str__(self) -> str:
        """As `read` reads it."""
        return f"{PREFIX}{self.cost}.{self.block}.{self.lanes}.{_text(self.salt)}.{_text(self.digest)}"

    def _made_of(self, secret: str) -> bytes:
        return hashlib.scrypt(
            secret.encode(errors="surrogatepass"),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.lanes,
            maxmem=2 * MEMORY_MAX,
            dklen=32,
        )


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
