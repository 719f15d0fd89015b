"""The guard against server-side request forgery: which URLs are taken, and which addresses are connected to.

A URL is read once, here, and called by its parts: no second parser can read it otherwise. A name is resolved when it is
connected to, every address is judged, and the connection goes to a judged address: a name that turns private in between
is refused. The host of TLS and of the Host header stays the name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...errors import USAGE, BadSettings, TenureError
from .addresses import Network, may_call, read_address

URL_CHARS_MAX = 2048
PORTS = (443, 8443)
_PLAIN = re.compile(r"[!-~]+")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")  # how old parsers read an address
_LOCAL = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "localdomain",
    "arpa",
    "onion",
    "test",
    "invalid",
)


class ForbiddenUrl(TenureError, ValueError):
    """A URL that is not called, whoever asks."""

    exit_code = USAGE


class ForbiddenAddress(TenureError):
    """A name leads to an address that is not called."""


class Target(NamedTuple):
    """A URL in parts, as it is called."""

    scheme: str
    host: str
    port: int
    path: str


@dataclass(frozen=True, slots=True)
class Guard:
    """`Guard()` takes https on ports 443 and 8443 of public addresses. Everything else is allowed by name."""

    ports: Sequence[int] = PORTS
    allow_http: bool = False
    allow_networks: Sequence[str] = ()  # such as "10.1.0.0/16", for receivers of your own
    networks: tuple[Network, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if not isinstance(self.allow_http, bool):
            raise BadSettings(f"allow_http={self.allow_http!r} must be True or False")
        ports = _some(self.ports)
        if not ports or not all(type(each) is int and 1 <= each <= 65_535 for each in ports):
            raise BadSettings(f"ports={self.ports!r} must be a list of ports from 1 to 65535, such as (443, 8443)")
        object.__setattr__(self, "networks", _networks(self.allow_networks))

    def target(self, url: str) -> Target:
        """The URL in parts, or ForbiddenUrl. Nothing is resolved or opened."""
        if not isinstance(url, str) or len(url) > URL_CHARS_MAX or not _PLAIN.fullmatch(url) or "\\" in url:
            raise ForbiddenUrl(f"the URL must be 1 to {URL_CHARS_MAX} visible ASCII characters without a backslash")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ForbiddenUrl(f"the URL cannot be read: {error}") from None
        if parts.scheme != "https" and not (self.allow_http and parts.scheme == "http"):
            own = "or allow it, guard=Guard(allow_http=True, …) of your Webhooks, with --app at the terminal"
            raise ForbiddenUrl(f"scheme {parts.scheme!r} is not called: give an https URL, {own}")
        if "@" in parts.netloc or parts.fragment or not parts.hostname:
            raise ForbiddenUrl("the URL must have a host, no user, no password and no fragment")
        port = port if port is not None else (443 if parts.scheme == "https" else 80)
        if port not in self.ports:
            raise ForbiddenUrl(f"port {port} is not called: choose from {', '.join(map(str, self.ports))}")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Target(parts.scheme, self._host(parts.hostname), port, path)

    def _host(self, host: str) -> str:
        """The host itself: a public address in its plain spelling, or a name with a dot that is not local."""
        address = read_address(host)
        if address is not None:
            if not may_call(address, self.networks):
                raise ForbiddenUrl(f"{host} is not an address of the public internet: allow its network in the Guard")
            return str(address)
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(_LABEL.fullmatch(each) for each in labels):
            raise ForbiddenUrl("the host of the URL is not a name: write an international one in its ASCII form, xn--…")
        if _NUMBER.fullmatch(labels[-1]):
            raise ForbiddenUrl(f"{host[:60]!r} is an odd spelling of an address: write it plainly")
        if len(labels) < 2 or labels[-1] in _LOCAL:
            raise ForbiddenUrl(f"{host[:60]!r} is a name of a local network")
        return ".".join(labels)

    def judge(self, host: str, found: Sequence[str]) -> list[str]:
        """These addresses of a host, or ForbiddenAddress if any of them is not called."""
        for each in found:
            address = read_address(each)
            if address is None or not may_call(address, self.networks):
                raise ForbiddenAddress(f"{host[:80]!r} leads to {each[:60]}, which is not called")
        if not found:
            raise ForbiddenAddress(f"{host[:80]!r} leads to no address")
        return list(found)


def _some(given: Any) -> list[Any]:
    """What is in a list; of anything else nothing."""
    return list(given) if isinstance(given, Collection) and not isinstance(given, str | bytes) else []


def _networks(given: Any) -> tuple[Network, ...]:
    """The networks that these texts are, or BadSettings."""
    try:
        if not isinstance(given, Collection) or isinstance(given, str | bytes):
            raise ValueError("give a list of them")
        if not all(isinstance(each, str | Network) for each in given):
            raise ValueError("each is text")
        return tuple(ip_network(each) for each in given)
    except ValueError as error:
        raise BadSettings(f"allow_networks={given!r} must be networks like 10.1.0.0/16: {error}") from None
