"""The registry of endpoints: whom a tenant wants to be told, with which secret, and what is sent to one again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

from ...app.inbox import Inbox
from ...errors import BadSettings
from ...postgres.callers import awaits
from ...postgres.runner import run
from ...verbs import endpoints
from ...verbs.endpoints import QUEUE, State
from ...verbs.statement import Statement, insisting
from .guard import Guard
from .sealing import seal
from .setting_checks import check_seconds
from .signing import check_secret, new_secret

OVERLAP_SECONDS = 86_400.0
OVERLAP_SECONDS_MAX = 30 * 86_400.0
KINDS_MAX = 100  # of an endpoint
_UNSTORED = re.compile("[\0\ud800-\udfff]")
WORD = re.compile(r"[!-~]{1,200}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A new endpoint. Its secret is shown here, and never again."""

    id: UUID
    secret: str = field(repr=False)


class Registry:
    """What operators do with endpoints. A method that ends in -ing makes the statement, the other one runs it."""

    def __init__(self, inbox: Inbox, *, guard: Guard | None = None, queue: str = QUEUE) -> None:
        if not isinstance(guard, Guard | None):
            raise BadSettings(f"guard={str(guard)[:60]!r} must be a Guard(…): leave it out for the strict one")
        self._inbox, self._queue = inbox, queue
        self.guard = guard or Guard()

    def add(self, conn: Any, *, tenant: str, url: str, kinds: Sequence[str], secret: str | None = None) -> Any:
        """Tell this address of a tenant's webhooks; awaitable if the connection is. Its secret is shown once.

        ForbiddenUrl if the address is not called. Kinds are names such as order.paid, or begin one: order.*
        """
        return self._run(conn, self.adding(tenant=tenant, url=url, kinds=kinds, secret=secret))

    def adding(self, *, tenant: str, url: str, kinds: Sequence[str], secret: str | None = None) -> Statement[Endpoint]:
        """BadSettings when it is run and the tenant has as many as it may."""
        self.guard.target(url)
        made = Endpoint(uuid4(), check_secret(secret or new_secret()))
        kept = seal(self._inbox.codec, made.secret, "secret", str(made.id))
        asked = endpoints.add_endpoint(made.id, check_tenant(tenant), url, check_kinds(kinds), kept)
        return Statement(asked.name, asked.params, lambda rows: _added(bool(rows), tenant, made))

    def rotate(
        self, conn: Any, endpoint: UUID | str, *, overlap_seconds: float = OVERLAP_SECONDS, secret: str | None = None
    ) -> Any:
        """Another secret, shown once; the one before signs too for a while, and BadSettings if two sign already.

        With overlap_seconds=0 no other secret signs from now on, also while two do: for one that has leaked.
        """
        return self._run(conn, self.rotating(endpoint, overlap_seconds=overlap_seconds, secret=secret))

    def rotating(
        self, endpoint: UUID | str, *, overlap_seconds: float = OVERLAP_SECONDS, secret: str | None = None
    ) -> Statement[Endpoint]:
        """BadSettings when it is run while a rotation is open, unless overlap_seconds is 0."""
        check_seconds("overlap_seconds", overlap_seconds, 0, OVERLAP_SECONDS_MAX)
        made = Endpoint(_id(endpoint, "endpoint"), check_secret(secret or new_secret()))
        kept = seal(self._inbox.codec, made.secret, "secret", str(made.id))
        asked = endpoints.rotate_secret(made.id, kept, overlap_seconds)
        return Statement(asked.name, asked.params, lambda rows: _rotated(asked.read(rows), made))

    def set(
        self,
        conn: Any,
        endpoint: UUID | str,
        state: State | None = None,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
    ) -> Any:
        """Pause, disable or activate an endpoint, or change what it is; how many of its rows are due now.

        BadSettings if there is no such endpoint.
        """
        return self._run(conn, self.setting(endpoint, state, url=url, kinds=kinds))

    def setting(
        self,
        endpoint: UUID | str,
        state: State | None,
        *,
        url: str | None = None,
        kinds: Sequence[str] | None = None,
        note: str | None = None,
    ) -> Statement[int | None]:
        """What is None stays as it is."""
        if url is not None:
            self.guard.target(url)
        if state not in (None, "active", "paused", "disabled"):
            raise BadSettings(f"state={state!r} is not known: choose from active, paused, disabled")
        wanted = None if kinds is None else check_kinds(kinds)
        id = _id(endpoint, "endpoint")
        asked = endpoints.set_endpoint(id, state, queue=self._queue, url=url, kinds=wanted, note=note)
        return insisting(asked, _missing(id))

    def replay(self, conn: Any, endpoint: UUID | str, webhooks: Sequence[UUID | str]) -> Any:
        """Send webhooks that are kept to one endpoint again, under their own ids, UUIDs or as text; how many.

        0 if the endpoint is disabled; BadSettings if there is no such endpoint.
        """
        if isinstance(webhooks, str) or not isinstance(webhooks, Iterable):
            raise BadSettings(f"webhooks={str(webhooks)[:60]!r} must be a list of ids")
        ids = [_id(each, "webhook") for each in webhooks]
        id = _id(endpoint, "endpoint")
        again = endpoints.resend_webhook(id, ids, queue=self._queue)
        return self._run(conn, _known(Statement(again.name, again.params, len), id, 0))

    def test(self, conn: Any, endpoint: UUID | str) -> Any:
        """Send one webhook of the kind tenure.test; its id, None if the endpoint is disabled.

        BadSettings if there is no such endpoint.
        """
        id = _id(endpoint, "endpoint")
        return self._run(conn, _known(endpoints.try_endpoint(id, queue=self._queue), id, None))

    def _run(self, conn: Any, statement: Statement[T]) -> Any:
        if awaits(conn):
            return self._run_awaiting(conn, statement)
        return run(conn, statement, self._inbox.schema)

    async def _run_awaiting(self, conn: Any, statement: Statement[T]) -> Any:
        return await run(conn, statement, self._inbox.schema)


def check_tenant(tenant: Any) -> str:
    """The tenant itself, or BadSettings."""
    if (
        not isinstance(tenant, str)
        or not 1 <= len(tenant.encode("utf-8", "replace")) <= 256
        or _UNSTORED.search(tenant)
    ):
        raise BadSettings(f"tenant={str(tenant)[:60]!r} must be text of 1 to 256 bytes")
    return tenant


def check_kinds(kinds: Any) -> list[str]:
    """The kinds themselves, or BadSettings."""
    named = list(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else []
    if not 1 <= len(named) <= KINDS_MAX or not all(isinstance(each, str) and WORD.fullmatch(each) for each in named):
        raise BadSettings(f"kinds={str(kinds)[:60]!r} must be a list of 1 to {KINDS_MAX} names, such as ['order.*']")
    if any("*" in each[:-1] for each in named):
        raise BadSettings(f"kinds={str(kinds)[:60]!r}: a star stands at the end, as in order.*")
    return named


def _added(added: bool, tenant: str, made: Endpoint) -> Endpoint:
    if not added:
        raise BadSettings(
            f"tenant {tenant[:60]!r} has {endpoints.ENDPOINTS_MAX} endpoints, which is the limit: disable one"
        )
    return made


def _rotated(found: Any, made: Endpoint) -> Endpoint:
    if found is None:
        raise _missing(made.id)
    if found.until is None:
        raise BadSettings(
            f"endpoint {made.id}: a rotation is open, two secrets sign until {found.open_until}: wait until then, or "
            "give overlap_seconds=0 (--overlap 0s), which ends both at once"
        )
    return made


def _known(asked: Statement[T], id: UUID, otherwise: T) -> Statement[T]:
    """The same statement; where it finds nothing it looks whether the endpoint is there."""
    looked = insisting(Statement("endpoints", endpoints.endpoints(id=id).params, lambda _: otherwise), _missing(id))
    return Statement(asked.name, asked.params, lambda rows: asked.read(rows) if rows else looked)


def _missing(id: UUID) -> BadSettings:
    return BadSettings(f"there is no endpoint {id}: `tenure hooks` lists them")


def _id(id: Any, what: str) -> UUID:
    """The id, also from text; BadSettings if it is none."""
    try:
        return id if isinstance(id, UUID) else UUID(id)
    except (ValueError, TypeError, AttributeError):
        raise BadSettings(f"{what}={str(id)[:60]!r} must be an id, as text or UUID") from None
