"""Who may open the dashboard that a command serves: holders of credentials, holders of its link, or everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import settings
from ..errors import BadSettings

if TYPE_CHECKING:
    from ..web.access import Door

CREDENTIALS = (
    "TENURE_WEB_TOKEN",
    "TENURE_WEB_TOKENS",
    "TENURE_WEB_USERS",
    "TENURE_WEB_PROXY",
    "TENURE_WEB_PROXY_SECRET",
    "TENURE_WEB_OIDC_ISSUER",
)


class Doorway:
    """The door of the dashboard, and the link to open; where no credentials are set, the link lets one browser in."""

    def __init__(
        self,
        address: str,
        command: str,
        say: Callable[[str], None],
        allowed: tuple[str, ...] = (),
        *,
        insecure: bool = False,
    ) -> None:
        from ..web.access import Open
        from ..web.by_link import ByLink

        self.door: Door | None = None  # None: the credentials in the settings decide
        self.link = f"{address}/"
        if insecure:
            self.door = Open(any_host=True)
        elif not _has_credentials():
            self.door = ByLink(command, lambda token: say(_linked(address, token)), allowed)
            self.link = _linked(address, self.door.token())

    @property
    def is_by_link(self) -> bool:
        """Whether the link works only once."""
        return "?" in self.link


def check_reach(host: str, *, insecure: bool) -> None:
    """Refuse to listen where other machines can connect, if no credentials are set."""
    from ..console.loopback import is_loopback

    if not (insecure or is_loopback(host) or _has_credentials()):
        raise BadSettings(
            f"--host {host} lets others in: set TENURE_WEB_TOKEN (or TENURE_WEB_TOKENS, TENURE_WEB_USERS), "
            "or say --insecure to make everybody admin"
        )


def further(link: str) -> str:
    """The line about the next link, after one was used."""
    return f"the next link, good once: {link}"


def _has_credentials() -> bool:
    return any(settings.find(name) for name in CREDENTIALS)


def _linked(address: str, token: str) -> str:
    return f"{address}/?link={token}"
