"""Addresses and names of brokers: what none can have is refused where it is written, not said to be away."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ...errors import BadSettings


def check_address(url: Any, schemes: tuple[str, ...], example: str) -> None:
    """BadSettings if no broker can have it; a password may stand before an @ or after a ?, and is not told."""
    said = str(url) if isinstance(url, str) or hasattr(url, "scheme") else ""
    try:
        parts = urlsplit(said)
        host = parts.hostname or not parts.scheme.startswith("http")  # clients of brokers have a host of their own
        fits = parts.scheme in schemes and bool(host) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        told = repr(said.rpartition("@")[2].partition("?")[0][:100]) if said else f"of type {type(url).__name__}"
        raise BadSettings(f"the address {told} must begin with {' or '.join(schemes)}://, such as {example!r}")


def check_broker_name(name: Any, what: str, *, never: str = "") -> None:
    """BadSettings if it is empty, no text, or has a character that the broker forbids in names."""
    if not isinstance(name, str) or not name or any(c in never for c in name):
        without = f" without any of {never!r}" if never else ""
        raise BadSettings(f"{what}={name!r} must be a name{without}, such as 'shop'")
