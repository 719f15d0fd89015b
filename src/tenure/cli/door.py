"""Who may come to a dashboard that a command serves: by credentials, by a link that it prints, or everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import settings
from ..errors import BadSettings

if TYPE_CHECKING:
    from ..web.access import Door

CREDENTIALS = ("TENURE_WEB_TOKEN", "TENURE_WEB_TOKENS", "TENURE_WEB_USERS")


class Doorway:
    """The door of an app at an address, and the address to open: with a token in it where the door is one by link."""

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

        self.door: Door | None = None  # None leaves it to the credentials of the settings
        self.link = f"{address}/"
        if insecure:
            self.door = Open(any_host=True)
        elif not _has_credentials():
            self.door = ByLink(command, lambda token: say(_linked(address, token)), allowed)
            self.link = _linked(address, self.door.token())

    @property
    def is_by_link(self) -> bool:
        """Is the link good once only?"""
        return "?" in self.link


def check_reach(host: str, *, insecure: bool) -> None:
    """Refuse to listen where others could come and nothing says who may."""
    from ..web.access import is_loopback

    if not (insecure or is_loopback(host) or _has_credentials()):
        raise BadSettings(
            f"--host {host} lets others in: set TENURE_WEB_TOKEN (or TENURE_WEB_TOKENS, TENURE_WEB_USERS), "
            "or say --insecure to make everybody admin"
        )


def further(link: str) -> str:
    """What to say of the next link, when one was used."""
    return f"a further link, good once: {link}"


def _has_credentials() -> bool:
    return any(settings.find(name) for name in CREDENTIALS)


def _linked(address: str, token: str) -> str:
    return f"{address}/?link={token}"
