"""Who asks, and what they may do: three roles, what each verb needs, and the rules that keep other sites out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from ..console.loopback import is_loopback
from ..errors import BadSettings
from ..operator_verbs import OPERATOR_VERBS, ROLES, Role
from .http_errors import Refused

# Which role a verb needs. A route names its verb, and no route can be made without one.
VERBS: Mapping[str, Role] = {
    "read": "read",
    "act": "operate",  # POST /api/actions; its body names the verb
    "enqueue": "operate",
    **{name: verb.role for name, verb in OPERATOR_VERBS.items()},
    "drill": "admin",  # it starts and stops processes; only where drills are served
}
PUBLIC = "public"  # probes, pages and the login: open to somebody who is not logged in
COOKIE = "tenure"
COOKIE_SECONDS = 12 * 3600
LOOPBACK = ("localhost", "127.0.0.1", "::1")
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Access:
    """Somebody who may come in: a name for the audit, and a role."""

    actor: str
    role: Role

    def may(self, verb: str) -> bool:
        """Is the role enough for this verb?"""
        return ROLES.index(self.role) >= ROLES.index(VERBS[verb])

    @property
    def verbs(self) -> list[str]:
        """The verbs that change something and that this role may use."""
        return [verb for verb in VERBS if verb not in ("read", "act") and self.may(verb)]


Door = Callable[[Request], "Access | Awaitable[Access | None] | None"]


def names_of_this_machine(further: Iterable[str]) -> Collection[str]:
    """This machine's names on loopback, and the given names."""
    return {*LOOPBACK, *(host.lower().strip("[]") for host in further)}


class Open:
    """Everybody is "local" and admin, but only under names of this machine and not through a proxy.

    Another site can point its own name at 127.0.0.1; the Host header shows that name.
    """

    def __init__(self, hosts: Iterable[str] = (), *, any_host: bool = False) -> None:
        self._hosts, self._any = names_of_this_machine(hosts), any_host

    def __call__(self, request: Request) -> Access | None:
        """Let in a request for this machine under its own name."""
        if not self._any:
            check_local(request, self._hosts)
        return Access("local", "admin")


local = Open()


def check_local(request: Request, hosts: Collection[str]) -> None:
    """Refuse a request for any other name than these, or one that came through a proxy."""
    if (name := host_named(request)) not in hosts:
        raise Refused(403, f"host {name!r} is not served without credentials: set TENURE_WEB_TOKEN, or allow this host")
    if by_proxy(request):
        raise Refused(403, "this came through a proxy, and there everybody looks local: set TENURE_WEB_TOKEN")


@dataclass(frozen=True, slots=True)
class Credential:
    """A name, a role and a secret; only the digest of the secret is kept."""

    name: str
    role: Role
    digest: bytes

    @classmethod
    def of(cls, name: str, role: str, secret: str, source: str) -> Credential:
        """One entry of a list; BadSettings never shows the secret."""
        if role not in ROLES:
            raise BadSettings(f"{source}: the role of {name!r} is {role!r}: choose {', '.join(ROLES)}")
        if len(secret) < 8:
            raise BadSettings(f"{source}: the secret of {name!r} must have 8 characters or more")
        return cls(name, role, _digest(secret))


class Credentials:
    """Finds who asks by an access token, a password or our cookie."""

    def __init__(self, tokens: Iterable[Credential], users: Iterable[Credential]) -> None:
        self._tokens, self._users = tuple(tokens), tuple(users)

    def __call__(self, request: Request) -> Access | None:
        """By the authorization header, else by the cookie: the header may be meant for a proxy."""
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        return self._by_header(scheme.lower(), rest.strip()) or self._by_cookie(request.cookies.get(COOKIE, ""))

    def cookie(self, name: str | None, secret: str) -> str | None:
        """A cookie for the owner of this secret; None if nobody has it."""
        found = self._find(self._tokens if name is None else self._users, name, secret)
        return self._signed(found, int(time.time()) + COOKIE_SECONDS) if found else None

    def _by_header(self, scheme: str, rest: str) -> Access | None:
        if scheme == "bearer":
            return _access(self._find(self._tokens, None, rest))
        if scheme == "basic":
            try:
                name, _, secret = base64.b64decode(rest, validate=True).decode().partition(":")
            except ValueError:  # neither base64 nor text
                return None
            return _access(self._find(self._users, name, secret))
        return None

    def _by_cookie(self, value: str) -> Access | None:
        until = value.partition(".")[0]
        if not (until.isascii() and until.isdigit()) or len(until) > 12 or int(until) < time.time():
            return None
        same = [each for each in (*self._tokens, *self._users) if _equal(self._signed(each, int(until)), value)]
        return _access(same[0] if same else None)

    @staticmethod
    def _find(among: tuple[Credential, ...], name: str | None, secret: str) -> Credential | None:
        digest = _digest(secret)
        # Compare every entry, so that the time taken says nothing about them.
        same = [each for each in among if hmac.compare_digest(each.digest, digest) and name in (None, each.name)]
        return same[0] if same else None

    @staticmethod
    def _signed(whom: Credential, until: int) -> str:
        """An expiry time and a signature made with the secret: a new secret ends every session."""
        said = f"{until}.{whom.name}.{whom.role}"
        return f"{until}.{hmac.new(whom.digest, said.encode(), hashlib.sha256).hexdigest()}"


def credentials(token: str | None, tokens: str | None, users: str | None) -> Credentials | None:
    """The credentials of TENURE_WEB_TOKEN, TENURE_WEB_TOKENS and TENURE_WEB_USERS; None if all are empty."""
    _check_sendable(f"{token or ''}{tokens or ''}")
    single = [Credential.of("token", "admin", token, "TENURE_WEB_TOKEN")] if token else []
    named = _listed(tokens, "TENURE_WEB_TOKENS", "token")
    people = _listed(users, "TENURE_WEB_USERS", "password")
    return Credentials([*single, *named], people) if single or named or people else None


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


def check_same_site(request: Request) -> None:
    """Refuse a change that another site could have sent: its forms cannot set this header or hide their origin."""
    if request.headers.get("x-tenure") != "1":
        raise Refused(403, "a change needs the header `x-tenure: 1`: a form of another site cannot send it")
    origin = request.headers.get("origin")
    if origin is not None and _host_in(origin) != request.headers.get("host", "").lower():
        raise Refused(403, f"origin {origin[:100]!r} is another site: only pages of this host may send changes")


def check_not_embedded(request: Request) -> None:
    """Refuse requests from pages of another site, even if those pages could not read the answer."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise Refused(403, "a page of another site sent this request: only pages of this host get an answer")


def _host_in(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def is_near(request: Request) -> bool:
    """Was this sent on this machine, to one of its own names, and without a proxy?"""
    client = request.client
    return (
        client is not None and is_loopback(client.host) and is_loopback(host_named(request)) and not by_proxy(request)
    )


def by_proxy(request: Request) -> bool:
    """Did this come through a proxy? One that speaks HTTP/1.1 and adds no header is not found."""
    old = request.scope.get("http_version") == "1.0"  # browsers do not speak it, proxies do by default
    return old or any(header in request.headers for header in FORWARDED)


def host_named(request: Request) -> str:
    """The name in the Host header, without its port."""
    name = request.headers.get("host", "").strip().lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


def _access(found: Credential | None) -> Access | None:
    return Access(found.name, found.role) if found else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
