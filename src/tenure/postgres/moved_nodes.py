"""Addresses that have changed since a worker began: failover tools give a node of a Citus cluster another one."""

from __future__ import annotations

_NOW: dict[str, str] = {}


def present(url: str) -> str:
    """Where that is now."""
    return _NOW.get(url, url)


def moved(url: str, now: str) -> bool:
    """From now on it is there; False if that was known."""
    if present(url) == now:
        return False
    _NOW[url] = now
    return True
