"""Where a request comes from, as the connection says. Headers of a proxy are read only if it is a trusted one.

This is the one door for a trusted proxy: what it says of address and scheme belongs here, and nowhere else.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from ..errors import BadSettings

SECRET_HEADER = "x-tenure-proxy-secret"  # noqa: S105
SECRET_MIN = 16
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Trusted:
    """Which proxies are believed: by their address, by a secret they send, or by both if both are given."""

    networks: tuple[Network, ...]
    secret: str = ""

    @classmethod
    def read(cls, addresses: str, secret: str) -> Trusted | None:
        """Of TENURE_WEB_PROXY and TENURE_WEB_PROXY_SECRET; None if both are empty."""
        networks = []
        for text in filter(None, map(str.strip, addresses.split(","))):
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError:
                raise BadSettings(
                    f"TENURE_WEB_PROXY: {text[:60]!r} is no address and no network: write 10.0.0.7 or 10.0.0.0/24"
                ) from None
        if secret and (len(secret) < SECRET_MIN or not secret.isascii()):
            raise BadSettings(f"TENURE_WEB_PROXY_SECRET must have {SECRET_MIN} ASCII characters or more")
        return cls(tuple(networks), secret) if networks or secret else None

    def believes(self, request: Request) -> bool:
        """Did a trusted proxy send this?"""
        peer = _address(request.client.host if request.client else "")
        near = not self.networks or (peer is not None and self._has(peer))
        shown = request.headers.getlist(SECRET_HEADER)
        told = not self.secret or (len(shown) == 1 and _same(shown[0], self.secret))
        return near and told

    def client(self, request: Request) -> str:
        """The last address in X-Forwarded-For that is no trusted proxy: what stands before it, anybody could send."""
        hops = [hop.strip() for line in request.headers.getlist("x-forwarded-for") for hop in line.split(",")]
        for hop in reversed(hops):
            found = _address(hop)
            if found is None or not self._has(found):
                return hop if found else ""
        return ""

    def _has(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def trusted(request: Request) -> Trusted | None:
    """The rule of this app about proxies, if this request came through one that is trusted."""
    site = getattr(getattr(request.scope.get("app"), "state", None), "site", None)
    proxy = getattr(site, "proxy", None)
    return proxy.trusted if proxy is not None and proxy.trusted.believes(request) else None


def address_of(request: Request) -> str:
    """The address of the client; of IPv6 the network of 64 bits, because a client has all of its addresses."""
    proxy = trusted(request)
    host = (proxy.client(request) if proxy else "") or (request.client.host if request.client else "")
    found = _address(host)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return host if found is None else str(found)


def is_https(request: Request) -> bool:
    """Does the browser speak https, to us or to a proxy before us? It says so in the origin of every change."""
    try:
        origin = urlsplit(request.headers.get("origin", "")).scheme
    except ValueError:
        origin = ""
    proxy = request.headers.get("x-forwarded-proto", "").strip().lower() if trusted(request) else ""
    return "https" in (request.url.scheme, origin, proxy)


def _address(host: str) -> Address | None:
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a Unix socket, or none
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("latin-1", "replace"), other.encode("latin-1", "replace"))
