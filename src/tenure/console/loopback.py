"""Which addresses reach nobody but this machine."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Does this address reach nobody but this machine?"""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
