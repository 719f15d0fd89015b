"""Verifiers: whether a request came from its provider, lately and unchanged, and which id the provider gave it.

Every comparison takes constant time. A reason names no secret and echoes nothing of the body.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from ...errors import BadSettings, TenureError
from .setting_checks import SECONDS_MAX, check_header, check_seconds
from .signing import key_of, signature

TOLERANCE_SECONDS = 300.0
ID_CHARS_MAX = 200
OUT_OF_RANGE = "the body has a number that is too large"


class Forged(TenureError):
    """A request that is not to be believed."""


class Verifier(Protocol):
    """Looks at one request."""

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """The id that the provider gave it, or Forged. Header names are in lower case."""


@dataclass(frozen=True)
class StandardSignature:
    """Standard Webhooks: `StandardSignature("whsec_…")`, or several secrets while one is rotated."""

    secrets: str | Sequence[str] = field(repr=False)
    tolerance_seconds: float = TOLERANCE_SECONDS

    def __post_init__(self) -> None:
        _ = [key_of(each) for each in _several(self.secrets)]
        _check_tolerance(self.tolerance_seconds)

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """By webhook-id, webhook-timestamp and webhook-signature."""
        id, said = _id(headers.get("webhook-id")), headers.get("webhook-signature", "")
        at = _lately(headers.get("webhook-timestamp"), now, self.tolerance_seconds)
        wanted = [signature(key_of(each), id, at, body) for each in _several(self.secrets)]
        _match(wanted, said.split(" "))
        return id


@dataclass(frozen=True)
class StripeSignature:
    """Stripe: `StripeSignature("whsec_…")`. The id is that of the event."""

    secrets: str | Sequence[str] = field(repr=False)
    tolerance_seconds: float = TOLERANCE_SECONDS

    def __post_init__(self) -> None:
        _several(self.secrets)
        _check_tolerance(self.tolerance_seconds)

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """By Stripe-Signature: t=…,v1=…"""
        pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
        at = _lately(next((value for name, _, value in pairs if name == "t"), None), now, self.tolerance_seconds)
        wanted = [_hex(each, f"{at}.".encode() + body, "sha256") for each in _several(self.secrets)]
        _match(wanted, [value for name, _, value in pairs if name == "v1"])
        return _id(_field(body, "id"))


@dataclass(frozen=True)
class GitHubSignature:
    """GitHub: `GitHubSignature(secret)`. It signs no time: what is old is known by its delivery id."""

    secrets: str | Sequence[str] = field(repr=False)

    def __post_init__(self) -> None:
        _several(self.secrets)

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:  # noqa: ARG002
        """By X-Hub-Signature-256."""
        wanted = ["sha256=" + _hex(each, body, "sha256") for each in _several(self.secrets)]
        _match(wanted, [headers.get("x-hub-signature-256", "")])
        return _id(headers.get("x-github-delivery"))


@dataclass(frozen=True)
class HmacSignature:
    """Any other: an HMAC of the body in hex in a header; the id in another, or without one the hash of the body."""

    secrets: str | Sequence[str] = field(repr=False)
    header: str
    id_header: str | None = None
    prefix: str = ""
    digest: Literal["sha256", "sha512"] = "sha256"

    def __post_init__(self) -> None:
        _several(self.secrets)
        check_header("header", self.header)
        if self.id_header is not None:
            check_header("id_header", self.id_header)
        if not isinstance(self.prefix, str):
            raise BadSettings(f"prefix must be text, not {type(self.prefix).__name__}")
        if self.digest not in ("sha256", "sha512"):
            raise BadSettings(f"digest={self.digest!r} is not taken: choose from sha256, sha512")

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:  # noqa: ARG002
        """By the header that was named."""
        wanted = [self.prefix + _hex(each, body, self.digest) for each in _several(self.secrets)]
        _match(wanted, [headers.get(self.header.lower(), "")])
        return _id(headers.get(self.id_header.lower())) if self.id_header else hashlib.sha256(body).hexdigest()


def check_verifier(verify: Any) -> None:
    """BadSettings for what cannot verify: nothing, a secret, or a class without its secret."""
    if isinstance(verify, type) or not callable(getattr(verify, "verify", None)):
        said = f"the class {verify.__name__}" if isinstance(verify, type) else type(verify).__name__
        raise BadSettings(f"verify= must be a verifier, such as StripeSignature(secret), not {said}")


def _check_tolerance(seconds: Any) -> None:
    if isinstance(seconds, str | bytes):
        raise BadSettings("tolerance_seconds must be a number of seconds: give several secrets as one list")
    check_seconds("tolerance_seconds", seconds, 1, SECONDS_MAX)


def _several(secrets: str | Sequence[str]) -> list[str]:
    found = [secrets] if not isinstance(secrets, Iterable) or isinstance(secrets, str) else list(secrets)
    if not found or not all(isinstance(each, str) and each for each in found):
        raise BadSettings("a verifier needs a secret: text that is not empty, or several of them")
    return found


def _hex(secret: str, signed: bytes, digest: str) -> str:
    return hmac.new(secret.encode(), signed, digest).hexdigest()


def _match(wanted: Sequence[str], said: Sequence[str]) -> None:
    """Every pair is compared, whatever the others said."""
    pairs = [(ours.encode(), theirs.encode("utf-8", "replace")) for ours in wanted for theirs in said[:16]]
    if sum(hmac.compare_digest(ours, theirs) for ours, theirs in pairs) == 0:
        raise Forged("the signature does not match")


def _lately(said: str | None, now: float, tolerance_seconds: float) -> int:
    if said is None or not said.isascii() or not said.isdigit() or len(said) > 12:
        raise Forged("the time of the request is missing")
    if abs(now - int(said)) > tolerance_seconds:
        raise Forged("the time of the request is too far from now")
    return int(said)


def _id(said: Any) -> str:
    if said is None or said == "":
        raise Forged("the request has no id")
    if not isinstance(said, str) or not said.isprintable():
        raise Forged("the id of the request is not printable text")
    if len(said) > ID_CHARS_MAX:
        raise Forged(f"the id of the request has {len(said)} characters, the limit is {ID_CHARS_MAX}")
    return said


def _field(body: bytes, name: str) -> Any:
    try:
        return msgspec.json.decode(body, type=dict[str, Any]).get(name)
    except msgspec.DecodeError as error:
        raise Forged(OUT_OF_RANGE if "out of range" in str(error) else "the body is not a JSON object") from None
    except UnicodeDecodeError:
        raise Forged("the body is not a JSON object") from None
    except RecursionError:
        raise Forged("the body is nested too deep") from None
