"""Identity from a trusted proxy: it has logged people in, and says in headers who asks and which groups they have."""

from __future__ import annotations

import logging
import re
from typing import ClassVar

from starlette.requests import Request

from ..errors import BadSettings
from .access import Access
from .groups import Groups, clean_name, is_ours, not_theirs
from .http_errors import Refused
from .peer import Trusted

USER, GROUPS = "x-forwarded-user", "x-forwarded-groups"  # as oauth2-proxy sends them
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_LOG = logging.getLogger("tenure.web")


class Proxy:
    """Believes the headers of a trusted proxy. From anybody else they are ignored, which is told once."""

    settings: ClassVar = ("TENURE_WEB_PROXY", "TENURE_WEB_PROXY_SECRET")

    def __init__(self, trusted: Trusted, groups: Groups, user: str = "", groups_header: str = "") -> None:
        self.trusted, self._groups = trusted, groups
        self._user = _header(user or USER, "TENURE_WEB_PROXY_USER")
        self._groups_header = _header(groups_header or GROUPS, "TENURE_WEB_PROXY_GROUPS")
        self._told = False

    def __call__(self, request: Request) -> Access | None:
        """Who asks, as the proxy says; None if it says nothing, or if it is not a trusted one."""
        shown = request.headers.getlist(self._user)
        if not shown:
            return None
        if not self.trusted.believes(request):
            self._tell(request)
            return None
        name = clean_name(shown[0]) if len(shown) == 1 else None
        if name is None:
            raise Refused(400, f"the proxy sent no usable name in {self._user}: it must send it once, up to 200 bytes")
        if is_ours(name):
            raise Refused(403, not_theirs(name))
        access = self._groups.access(name, self._groups_of(request))
        if access is None:
            raise Refused(403, f"{name!r} has no role here: none of their groups is in TENURE_WEB_GROUPS")
        return access

    def _groups_of(self, request: Request) -> list[str]:
        """As the proxy lists them. Of two headers, one may be the client's own, which the proxy did not remove."""
        lines = request.headers.getlist(self._groups_header)
        if len(lines) > 1:
            raise Refused(
                400, f"the proxy sent {self._groups_header} twice: it must send it once, and remove a client's"
            )
        return [each.strip() for line in lines for each in line.split(",")]

    def _tell(self, request: Request) -> None:
        if not self._told:
            self._told = True
            peer = request.client.host if request.client else "here"
            _LOG.warning(
                "%s sent %s and is no trusted proxy: it is ignored, and this is not told again", peer, self._user
            )


def proxy_of(addresses: str, secret: str, user: str, groups_header: str, groups: str) -> Proxy | None:
    """The proxy of the settings; None if none is trusted."""
    found = Trusted.read(addresses, secret)
    return Proxy(found, Groups.read(groups), user, groups_header) if found else None


def _header(name: str, setting: str) -> str:
    if not _HEADER.fullmatch(name):
        raise BadSettings(f"{setting}={name[:60]!r} must be the name of a header: letters, digits and -")
    return name.lower()
