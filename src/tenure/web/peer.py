"""Where a request comes from, as the connection says. Headers of a proxy are not read: whoever connects can send them.

This is the one door for a trusted proxy: what it says of address and scheme belongs here, and nowhere else.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request


def address_of(request: Request) -> str:
    """The address of the client; of IPv6 the network of 64 bits, because a client has all of its addresses."""
    host = request.client.host if request.client else ""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a Unix socket, or none
        return host
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def is_https(request: Request) -> bool:
    """Does the browser speak https, to us or to a proxy before us? It says so in the origin of every change."""
    try:
        origin = urlsplit(request.headers.get("origin", "")).scheme
    except ValueError:
        origin = ""
    return "https" in (request.url.scheme, origin)
