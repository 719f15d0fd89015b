"""Who asks, and what they may do: three roles, what each verb needs, and the rules that keep other sites out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from ..console.loopback import is_loopback
from ..operator_verbs import OPERATOR_VERBS, ROLES, Role
from .http_errors import Refused

# Which role a verb needs. A route names its verb, and no route can be made without one.
VERBS: Mapping[str, Role] = {
    "read": "read",
    "act": "operate",  # POST /api/actions; its body names the verb
    "enqueue": "operate",
    "reveal": "read",  # and the right of its own
    **{name: verb.role for name, verb in OPERATOR_VERBS.items()},
    "drill": "admin",  # it starts and stops processes; only where drills are served
}
PUBLIC = "public"  # probes, pages and the login: open to somebody who is not logged in
COOKIE = "tenure"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
FORWARDED = ("forwarded", "via", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Access:
    """Somebody who may come in: a name for the audit, and a role.

    `reveal` is the right to see payloads, one by one and audited; False: never; None: as the server shows them to all.
    `queues`: only these; None: all.
    """

    actor: str
    role: Role
    reveal: bool | None = None
    queues: frozenset[str] | None = None

    def may(self, verb: str) -> bool:
        """Is the role enough for this verb? Payloads need the right of their own."""
        if verb == "reveal":
            return bool(self.reveal)
        return ROLES.index(self.role) >= ROLES.index(VERBS[verb])

    @property
    def verbs(self) -> list[str]:
        """The verbs that change something and that this role may use."""
        return [verb for verb in VERBS if verb not in ("read", "act", "reveal") and self.may(verb)]

    def sees(self, queue: str) -> bool:
        """Is this queue among those it may see?"""
        return self.queues is None or queue in self.queues


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
    return old or any(name in FORWARDED or name.startswith("x-forwarded-") for name in request.headers)


def host_named(request: Request) -> str:
    """The name in the Host header, without its port."""
    name = request.headers.get("host", "").strip().lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
