"""Which addresses may be called: a table of our own, and what is not allowed in it is denied.

Python's `is_global` is not asked: it lets some addresses pass that reach a machine of ours, and versions differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NOT_4 = [
    "0.0.0.0/8",  # this host
    "10.0.0.0/8",
    "100.64.0.0/10",  # carriers, and the metadata of one cloud
    "127.0.0.0/8",
    "168.63.129.16/32",  # the host agent of one cloud, at a public address
    "169.254.0.0/16",  # link-local: metadata of most clouds
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",  # multicast, reserved, broadcast
]
_ONLY_6 = ip_network("2000::/3")  # all else is local, mapped, translated or not given out
_NOT_6 = [
    "2001::/23",  # Teredo, ORCHID, benchmarks and the like
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: an IPv4 address inside
    "2620:4f:8000::/48",
    "3fff::/20",  # documentation
]
_DENIED: dict[int, list[Network]] = {
    4: [ip_network(each) for each in _NOT_4],
    6: [ip_network(each) for each in _NOT_6],
}


def is_public(address: Address) -> bool:
    """Whether it is an address of the public internet."""
    if address.version == 6 and (address not in _ONLY_6 or address.scope_id is not None):
        return False
    return not any(address in network for network in _DENIED[address.version])


def may_call(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """A public address, or one of a network that was allowed by name."""
    if getattr(address, "scope_id", None) is not None:
        return False
    return is_public(address) or any(address in each for each in allowed if each.version == address.version)


def read_address(text: str) -> Address | None:
    """The address that a text is, in its plain spelling; None if it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None
