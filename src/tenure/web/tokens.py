"""Tokens that `tenure tokens` made: found in the database at every request, so that a revoked one ends at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from ..events import Bus, LoginFailed
from ..model.web_token import PREFIX, kept
from ..operator_verbs import Role
from ..verbs import witness
from .access import Access
from .guesses import Tries
from .http_errors import Refused
from .peer import address_of

if TYPE_CHECKING:
    from .store import Store


class Tokens:
    """Knows who shows a token of the database. A wrong one is told as a failed login, seldom."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store, self._bus, self._tries = store, bus, Tries()

    async def __call__(self, request: Request) -> Access | None:
        """Whose token is in the header; None if there is none of this form, a refusal if it is wrong."""
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not rest.strip().startswith(PREFIX):
            return None
        shown = kept(rest.strip())
        found = await self._store.ask(witness.use_token(*shown)) if shown else None
        if found is None or found.expired or found.revoked:
            raise self._wrong(request, found)
        queues = None if found.queues is None else frozenset(found.queues)
        role = msgspec.convert(found.role, Role)
        return Access(f"token:{found.name}", role, reveal=found.reveal, queues=queues)

    def _wrong(self, request: Request, found: witness.Shown | None) -> Refused:
        n = self._tries.count(address_of(request))
        if n is not None:
            self._bus.emit(LoginFailed(address_of(request), f"token:{found.name}" if found else "", n))
        if found is None:
            return Refused(401, "this token is unknown: `tenure tokens` lists those there are")
        ended = "was revoked" if found.revoked else "has expired"
        return Refused(401, f"the token {found.name!r} {ended}: make another with `tenure tokens create`")
