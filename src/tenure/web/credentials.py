"""Credentials of the settings: access tokens and people with passwords, in plain text or hashed."""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from starlette.requests import Request

from ..errors import BadSettings
from ..events import Bus, Event, LoginFailed
from ..operator_verbs import ROLES, Role
from .access import COOKIE, Access
from .guesses import Guess, Guesses, Tries
from .hashing import PREFIX, Hashed
from .http_errors import Refused
from .peer import address_of
from .sessions import Sessions
from .store import in_thread

SECRET_MIN = 8
HASHES_AT_ONCE = 2
HASH_SECONDS_MAX = 20.0
KNOWN_MAX = 1000
_LOG = logging.getLogger("tenure.web")
_KEY = secrets.token_bytes(32)  # of this process: a digest in its memory is of no use elsewhere
_NOBODYS = Hashed.read(f"{PREFIX}16384.8.5.{'A' * 22}.{'A' * 43}")


@dataclass(frozen=True, slots=True)
class Credential:
    """A name, a role and a secret: its hash as the settings have it, or the digest of a plain one."""

    name: str
    role: Role
    secret: Hashed | bytes
    reveal: bool | None = None

    @classmethod
    def of(cls, name: str, role: str, secret: str, source: str) -> Credential:
        """One entry of a list; BadSettings never shows the secret."""
        found, reveal = role_of(role, f"{source}: the role of {name!r}")
        return replace(cls._with(name, found, secret, source), reveal=reveal or None)

    @classmethod
    def _with(cls, name: str, role: Role, secret: str, source: str) -> Credential:
        if secret.startswith(PREFIX):
            hashed = Hashed.read(secret)
            if hashed is None:
                raise BadSettings(f"{source}: the hash of {name!r} is not complete: make it with `tenure serve --hash`")
            return cls(name, role, hashed)
        if len(secret) < SECRET_MIN:
            raise BadSettings(f"{source}: the secret of {name!r} must have {SECRET_MIN} characters or more")
        _warn_of_plain_text(source)
        return cls(name, role, _digest(secret))

    @property
    def access(self) -> Access:
        """Whom it lets in."""
        return Access(self.name, self.role, self.reveal)


class Credentials:
    """Finds who asks by an access token, a password or a session. Wrong secrets are slowed, and told on the bus."""

    def __init__(self, tokens: Iterable[Credential], users: Iterable[Credential]) -> None:
        self._tokens, self._users = tuple(tokens), tuple(users)
        self._sessions: Sessions[Access] = Sessions()
        self._guesses, self._tries = Guesses(), Tries()
        self._known: dict[bytes, Access] = {}  # secrets that were right: a hash is computed once, and no guess
        self._hashing = asyncio.Semaphore(HASHES_AT_ONCE)
        self.bus = Bus()
        self.bus.subscribe(_tell)

    def __call__(self, request: Request) -> Access | Awaitable[Access | None] | None:
        """By the authorization header, else by the session: the header may be meant for a proxy."""
        shown = _shown(request)
        known = self._known.get(_digest(*shown)) if shown else None
        if known is None:
            known = self._sessions.find(request.cookies.get(COOKIE, ""))
        return self._check(request, *shown) if known is None and shown else known

    async def login(self, request: Request, name: str | None, secret: str) -> str | None:
        """The secret of a new session for the owner of this secret; None if nobody has it."""
        access = self._known.get(_digest(secret, name)) or await self._check(request, secret, name)
        return self._sessions.begin(access) if access else None

    def leave(self, request: Request) -> None:
        """End the session of this browser."""
        self._sessions.end(request.cookies.get(COOKIE, ""))

    async def _check(self, request: Request, secret: str, name: str | None) -> Access | None:
        guess = Guess(address_of(request), name, _digest(secret, name))
        try:
            found = await self._find(guess, secret)
        except Refused:
            self._tell_failed(guess)
            raise
        if found is None:
            self._guesses.wrong(guess)
            self._tell_failed(guess)
            return None
        self._guesses.right(guess)
        self._known[guess.digest] = found.access
        while len(self._known) > KNOWN_MAX:
            self._known.pop(next(iter(self._known)))
        return found.access

    async def _find(self, guess: Guess, secret: str) -> Credential | None:
        """Who has this secret. Plain ones are compared at once, hashes a few at a time, in threads."""
        self._guesses.check(guess)
        among = self._tokens if guess.name is None else self._users
        named = [each for each in among if guess.name in (None, each.name)]
        # Compare every entry, so that the time taken says nothing about them.
        plain = [each for each in named if isinstance(each.secret, bytes) and _same(each.secret, _digest(secret))]
        if plain or not any(isinstance(each.secret, Hashed) for each in among):
            return plain[0] if plain else None
        try:
            async with asyncio.timeout(HASH_SECONDS_MAX), self._hashing:
                self._guesses.check(guess)  # others may have been wrong meanwhile
                return await in_thread(lambda: _hashed_one(named, secret))
        except TimeoutError:
            raise Refused(503, "too many logins at once: try again") from None

    def _tell_failed(self, guess: Guess) -> None:
        n = self._tries.count(guess.address)
        if n is not None:
            self.bus.emit(LoginFailed(guess.address, (guess.name or "")[:128], n))


def credentials(
    token: str | None, tokens: str | None, users: str | None, *, groups_reveal: bool = False
) -> Credentials | None:
    """The credentials of TENURE_WEB_TOKEN, TENURE_WEB_TOKENS and TENURE_WEB_USERS; None if all are empty.

    `groups_reveal`: an entry of TENURE_WEB_GROUPS has the right to see payloads.
    """
    _check_sendable(f"{token or ''}{tokens or ''}")
    single = [Credential.of("token", "admin", token, "TENURE_WEB_TOKEN")] if token else []
    named = _listed(tokens, "TENURE_WEB_TOKENS", "token")
    people = _listed(users, "TENURE_WEB_USERS", "password")
    if groups_reveal or any(each.reveal for each in (*named, *people)):  # then it is a right: others see no payloads
        single, named, people = (
            [replace(each, reveal=bool(each.reveal)) for each in some] for some in (single, named, people)
        )
    return Credentials([*single, *named], people) if single or named or people else None


def role_of(text: str, whose: str) -> tuple[Role, bool]:
    """A role, and whether it comes with the right to see payloads: operate, or operate+reveal."""
    role, plus, right = text.partition("+")
    for each in ROLES:
        if role == each and (right == "reveal" or not plus):
            return each, bool(plus)
    raise BadSettings(
        f"{whose} is {text!r}: choose {', '.join(ROLES)}, or one with the right to see payloads: read+reveal"
    )


def _check_sendable(tokens: str) -> None:
    if not tokens.isascii():
        raise BadSettings("TENURE_WEB_TOKEN and TENURE_WEB_TOKENS must be plain ASCII: a header carries nothing else")


def _listed(text: str | None, source: str, secret: str) -> list[Credential]:
    found = []
    for number, entry in enumerate((text or "").replace("\n", ",").split(","), 1):
        if not entry.strip():
            continue
        name, role, rest = (*entry.strip().split(":", 2), "", "")[:3]
        if not name or not rest:
            raise BadSettings(f"entry {number} of {source} must be name:role:{secret}: write e.g. ann:operate:…")
        found.append(Credential.of(name, role, rest, source))
    return found


def _shown(request: Request) -> tuple[str, str | None] | None:
    """Secret and name of the authorization header; no name for an access token."""
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip(), None
    if scheme.lower() == "basic":
        try:
            name, _, secret = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        except ValueError:  # neither base64 nor text
            return None
        return secret, name
    return None


def _hashed_one(among: list[Credential], secret: str) -> Credential | None:
    """The one with this secret; for an unknown name a hash is computed too, so that the time does not tell it."""
    hashed = [each for each in among if isinstance(each.secret, Hashed)]
    same = [each for each in hashed if isinstance(each.secret, Hashed) and each.secret.matches(secret)]
    if not hashed and _NOBODYS is not None:
        _NOBODYS.matches(secret)
    return same[0] if same else None


@cache
def _warn_of_plain_text(source: str) -> None:
    """Once for each setting."""
    _LOG.warning("%s has a secret in plain text: `tenure serve --hash` makes an entry that hides it", source)


def _tell(event: Event) -> None:
    """One line in the log."""
    if isinstance(event, LoginFailed):
        times, who = ("a wrong login", "as") if event.n == 1 else (f"{event.n} wrong logins", "the last as")
        _LOG.warning("%s from %s%s", times, event.address or "here", f", {who} {event.user!a}" if event.user else "")


def _digest(secret: str, name: str | None = None) -> bytes:
    said = secret if name is None else f"{name}\0{secret}"
    return hmac.digest(_KEY, said.encode(errors="surrogatepass"), "sha256")


def _same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
