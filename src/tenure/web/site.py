"""What one app of the web is made of: its database, its rules about payloads, who may come in, and its feed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.requests import Request

from ..model.filter import BadFilter, Filter, parse
from ..telemetry.fleet_metrics import FleetMetrics
from .access import COOKIE, Access, Credentials, Door
from .by_link import ByLink
from .feed import Feed
from .redact import NAMES, Redaction
from .refusal import Refused
from .store import Store, in_thread

if TYPE_CHECKING:
    from ..drills.host import Hosts

CHALLENGE = {"www-authenticate": 'Bearer realm="tenure"'}  # not Basic: a browser would open a window of its own


@dataclass(frozen=True)
class Site:
    """One app; `close` ends its streams at once, `aclose` gives its connections back."""

    store: Store
    feed: Feed
    door: Door
    redaction: Redaction = field(default_factory=lambda: Redaction(NAMES))
    hide_payloads: bool = False
    read_only: bool = False
    hosts: Hosts | None = None  # of the stages, where drills may be played

    @cached_property
    def metrics(self) -> FleetMetrics:
        """What the fleet adds up to."""
        return FleetMetrics(self.store.schema)

    @property
    def credentials(self) -> Credentials | None:
        """The list to log in against, if there is one."""
        return self.door if isinstance(self.door, Credentials) else None

    def logged_in(self, request: Request) -> bool:
        """Does this come by a cookie of ours, which can be given back?"""
        return isinstance(self.door, ByLink) or (self.credentials is not None and COOKIE in request.cookies)

    async def admit(self, request: Request) -> Access:
        """Who asks, or a refusal: 401 for nobody."""
        found = self.door(request)
        access = found if isinstance(found, Access) or found is None else await found
        if access is None:
            raise Refused(401, "who are you? Send a token as `authorization: Bearer …`, or log in", CHALLENGE)
        return replace(access, role="read") if self.read_only else access

    def filter(self, text: str) -> Filter:
        """A filter that asks for nothing hidden: whoever may not see a value may not find it by guessing either."""
        found = parse(text)
        for name, value in found.payload:
            if self._hides(name, value):
                raise Refused(403, f"payload.{name} is not shown here, nor can it be searched: filter by another field")
        return found

    def target(self, text: str) -> str:
        """A filter of the audit as this site shows it: whoever may not see a value does not read it there either."""
        try:
            found = parse(text)
        except BadFilter:  # written by another version: nobody knows what is in it
            return "***"
        stars = ((name, "***" if self._hides(name, value) else value) for name, value in found.payload)
        return str(replace(found, payload=tuple(stars)))

    def _hides(self, name: str, value: str) -> bool:
        """Secret by its name, or by one inside it: a value that is an object is compared as text."""
        return self.hide_payloads or self.redaction.covers(name) or self.redaction(value) != value

    def payload(self, text: str | None) -> str | None:
        """A payload as this site shows it: not at all, or with the secret names' values replaced."""
        return None if text is None or self.hide_payloads else self.redaction(text)

    @property
    def closed(self) -> bool:
        """True once it was told to end."""
        return self.feed.closed

    def open(self) -> None:
        """Take requests, again if need be."""
        self.feed.closed = self.store.closed = False
        if self.hosts is not None:
            self.hosts.closed = False

    def close(self) -> None:
        """End every stream and change now, and begin to end every stage; from any thread."""
        self.feed.close()
        self.store.close()
        if self.hosts is not None:
            self.hosts.close()

    async def aclose(self) -> None:
        """Give everything back."""
        self.close()
        await self.feed.aclose()
        await self.store.aclose()
        if self.hosts is not None:
            await in_thread(self.hosts.end)


def redaction_of(names: Iterable[str]) -> Redaction:
    """The default names and these."""
    return Redaction((*NAMES, *(name.strip() for name in names if name.strip())))
