"""One app of the web: its database, its rules about payloads, who may come in, and its feed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.requests import Request

from ..events import Bus
from ..model.envelope import shown
from ..model.filter import BadFilter, Filter, parse
from ..telemetry.fleet_metrics import FleetMetrics
from .access import COOKIE, Access, Door
from .by_link import ByLink
from .credentials import Credentials
from .feed import Feed
from .forwarded import Proxy
from .http_errors import Refused
from .redact import NAMES, Redaction
from .store import Store, in_thread
from .tokens import Tokens
from .witness import Witness

if TYPE_CHECKING:
    from ..drills.host import Hosts
    from .oidc import Oidc

CHALLENGE = {"www-authenticate": 'Bearer realm="tenure"'}  # not Basic: a browser would open its own login window


SHARED = ("metrics", "bus", "tokens", "witness")


@dataclass(frozen=True)
class Site:
    """One app; `close` ends its streams at once, `aclose` closes its connections."""

    store: Store
    feed: Feed
    door: Door
    redaction: Redaction = field(default_factory=lambda: Redaction(NAMES))
    hide_payloads: bool = False
    read_only: bool = False
    hosts: Hosts | None = None  # the stages, where drills are served
    oidc: Oidc | None = None
    proxy: Proxy | None = None  # whom a trusted proxy vouches for comes in, whatever the door is
    citus: bool = False  # the inboxes are nodes of a cluster
    inboxes: dict[str, Site] = field(default_factory=dict)  # where several are served; a node may join them

    @cached_property
    def metrics(self) -> FleetMetrics:
        """The fleet's numbers."""
        return FleetMetrics(self.store.schema)

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens of the database, whatever the door is."""
        return Tokens(self.store, self.bus)

    @cached_property
    def witness(self) -> Witness:
        """What writes down who read what."""
        return Witness(self.store, self.bus)

    @cached_property
    def hiding(self) -> Site:
        """The same site for those who are not shown payloads."""
        made = replace(self, hide_payloads=True)
        made.__dict__.update({name: getattr(self, name) for name in SHARED})
        return made

    @cached_property
    def showing(self) -> Site:
        """The same site with payloads, for those who reveal them; values of secret names stay hidden."""
        made = replace(self, hide_payloads=False)
        made.__dict__.update({name: getattr(self, name) for name in SHARED})
        return made

    def seen_by(self, access: Access) -> Site:
        """This site, or the one without payloads. Whoever has the right to reveal does so one by one."""
        return self if self.hide_payloads or access.reveal is None else self.hiding

    @cached_property
    def bus(self) -> Bus:
        """Where events of the server go, as LoginFailed."""
        return self.credentials.bus if self.credentials else Bus()

    @property
    def credentials(self) -> Credentials | None:
        """The credentials for a login, if there are any."""
        return self.door if isinstance(self.door, Credentials) else None

    def logged_in(self, request: Request) -> bool:
        """Did this come with a cookie of ours, so that a logout is possible?"""
        return isinstance(self.door, ByLink) or (self.credentials is not None and COOKIE in request.cookies)

    async def admit(self, request: Request) -> Access:
        """Who asks; 401 if that is unknown."""
        access = await self.tokens(request) or (self.proxy(request) if self.proxy else None)
        access = access or (self.oidc(request) if self.oidc else None)
        if access is None:
            found = self.door(request)
            access = found if isinstance(found, Access) or found is None else await found
        if access is None:
            raise Refused(
                401,
                "you are not logged in: send an access token as `authorization: Bearer …`, or log in",
                CHALLENGE,
                **({"oidc": True} if self.oidc else {}),
            )
        return replace(access, role="read") if self.read_only else access

    def filter(self, text: str) -> Filter:
        """The filter of this text; refused if it searches hidden values, which could then be found by guessing."""
        found = parse(text)
        for name, value in found.payload:
            if self._hides(name, value):
                raise Refused(403, f"payload.{name} is hidden here and cannot be searched: filter by another field")
        return found

    def target(self, text: str) -> str:
        """A filter of the audit as this site shows it, with hidden values replaced."""
        try:
            found = parse(text)
        except BadFilter:  # written by another version: it may contain hidden values
            return "***"
        stars = ((name, "***" if self._hides(name, value) else value) for name, value in found.payload)
        return str(replace(found, payload=tuple(stars)))

    def _hides(self, name: str, value: str) -> bool:
        """Is the value secret, by its name or by a name inside it? A value may be an object as text."""
        return self.hide_payloads or self.redaction.covers(name) or self.redaction(value) != value

    def payload(self, text: str | None) -> str | None:
        """A payload as this site shows it: hidden, or without secret values, and encrypted ones by their key's name."""
        return None if text is None or self.hide_payloads else self.redaction(shown(text))

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self.feed.closed

    def open(self) -> None:
        """Take requests, also after an end."""
        self.feed.closed = self.store.closed = False
        for each in list(self.inboxes.values()):
            each.open()
        if self.hosts is not None:
            self.hosts.closed = False

    def close(self) -> None:
        """End every stream and change now, and start to end every stage; call it from any thread."""
        for each in list(self.inboxes.values()):  # each has a feed of its own, also the one whose store is ours
            each.close()
        self.feed.close()
        if not self.inboxes:
            self.store.close()
        if self.hosts is not None:
            self.hosts.close()

    async def aclose(self) -> None:
        """Close everything."""
        self.close()
        for each in list(self.inboxes.values()):
            await each.aclose()
        await self.feed.aclose()
        await self.store.aclose()
        if self.hosts is not None:
            await in_thread(self.hosts.end)


def redaction_of(names: Iterable[str]) -> Redaction:
    """The default names and these."""
    return Redaction((*NAMES, *(name.strip() for name in names if name.strip())))
