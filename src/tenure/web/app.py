"""The app: each request is let in, checked and answered by its route, and every error is one sentence."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import settings
from ..errors import BadSettings
from . import overview, pages
from .access import PUBLIC, Access, Door, Open, check_not_embedded, check_same_site
from .credentials import Credentials, credentials
from .feed import Feed
from .forwarded import Proxy, proxy_of
from .groups import Groups
from .http_errors import Refused, refusal, response
from .inboxes import run_in_all, with_inboxes
from .route import Ask, Route, encoded, require, require_all_queues, understood
from .routes import routes
from .site import Site, redaction_of
from .store import ASKING, Store

if TYPE_CHECKING:
    from ..drills.host import Hosts
    from .oidc import Oidc

NOBODY = Access("", "read")
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def app(
    *,
    database_url: str | None = None,
    schema: str | None = None,
    access: Door | None = None,
    redact: Iterable[str] = (),
    hide_payloads: bool = False,
    read_only: bool = False,
    drills: bool = False,
    shards: Mapping[str, str] | None = None,
    citus: bool = False,
) -> Starlette:
    """The HTTP API and the dashboard as an ASGI app, to be mounted under any prefix.

    `access` says who asks: access(request) -> Access(actor, role), or None for nobody; it may be async.
    Without it, the access tokens and users of the settings decide; without those there is no app, because it would be
    open to everybody. Connections are opened when they are needed; `tenure.web.lifespan(app)` closes them. With
    `drills`, admins on this machine may start processes that play drills in schemas of their own; not together
    with `access=tenure.web.local`, which lets in every user of the machine. `shards` are the URLs of several inboxes by
    name, in place of `database_url`; web tokens are those of the first. With `citus` they are the nodes of a cluster.
    """
    if shards:
        settings.check_shards(shards)
        database_url = next(iter(shards.values()))
    chosen = settings.load(database_url=database_url, flag="database_url", schema=schema)
    if chosen.database_url is None:
        raise BadSettings("no database is given: pass database_url=…, or set TENURE_DATABASE_URL")
    names = [*redact, *_setting("TENURE_WEB_REDACT").split(",")]
    store, door = Store(chosen.database_url, chosen.schema), access or _door()
    site = Site(
        store,
        Feed(store, lambda: overview.tick(store)),
        door,
        redaction_of(names),
        hide_payloads,
        read_only,
        _hosts(chosen.database_url, door) if drills else None,
        None if access else _oidc(door),
        None if access else _proxy(),
        citus,
    )
    return _made(with_inboxes(site, shards) if shards else site, drills=drills)


def _made(site: Site, *, drills: bool) -> Starlette:
    own = site.oidc.routes() if site.oidc else []
    made = Starlette(
        routes=[*_paths(site, routes(drills=drills)), *own, *pages.routes(drills=drills)],
        exception_handlers={HTTPException: _http_error, Exception: _bug},
        lifespan=lambda made: lifespan(made),
    )
    made.router.redirect_slashes = False  # it would lead to whatever host the request names
    made.state.site = site
    _ = site.witness  # it hears of failed logins from now on
    made.add_middleware(Named)
    return made


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Close what the app holds when the block ends: for the lifespan of an app it is mounted in."""
    app.state.site.open()
    try:
        yield
    finally:
        await app.state.site.aclose()


def _hosts(url: str, door: Door) -> Hosts:
    settings.check_drills()
    if isinstance(door, Open):  # every user of the machine could then start processes as this user
        raise BadSettings(
            "drills need a dashboard that does not let everybody in: set TENURE_WEB_TOKEN, or give another access=…"
        )
    from ..drills.host import Hosts

    return Hosts(url)


def _door() -> Door:
    groups = _setting("TENURE_WEB_GROUPS")
    given = (_setting(f"TENURE_WEB_{name}") for name in ("TOKEN", "TOKENS", "USERS"))
    found = credentials(*given, groups_reveal=bool(groups) and Groups.read(groups).give_reveal)
    if found is None and (_proxy() is not None or _setting("TENURE_WEB_OIDC_ISSUER")):
        return Credentials((), ())  # the proxy or the provider says who asks, or a token does
    if found is None:
        raise BadSettings(
            "the web has no credentials: set TENURE_WEB_TOKEN, or give access=… (tenure.web.local opens it on loopback)"
        )
    return found


def _oidc(door: Door) -> Oidc | None:
    if not _setting("TENURE_WEB_OIDC_ISSUER") or not isinstance(door, Credentials):
        return None
    from .oidc import OidcSettings, oidc_of  # imported here: it needs an extra

    given = OidcSettings(*(_setting(f"TENURE_WEB_OIDC_{name.upper()}") for name in OidcSettings._fields))
    return oidc_of(given, _setting("TENURE_WEB_GROUPS"), door.bus)


def _proxy() -> Proxy | None:
    names = ("PROXY", "PROXY_SECRET", "PROXY_USER", "PROXY_GROUPS", "GROUPS")
    return proxy_of(*(_setting(f"TENURE_WEB_{name}") for name in names))


def _setting(name: str) -> str:
    found = settings.find(name)
    return found.value if found else ""


def _paths(site: Site, routes: Sequence[Route]) -> list[Path]:
    """One entry for each path with all its methods, so that a 405 can name them."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    return [Path(path, _endpoint(site, methods), methods=list(methods)) for path, methods in by_path.items()]


def _endpoint(site: Site, methods: dict[str, Route]) -> Any:
    async def answer(request: Request) -> Response:
        route = methods["GET" if request.method == "HEAD" else request.method]
        try:
            return encoded(await run_in_all(route, await _ask(site, request, route)))
        except Exception as error:
            return response(refusal(error))

    return answer


async def _ask(site: Site, request: Request, route: Route) -> Ask[Any, Any]:
    """Who asks for what; or a refusal, checked in this order: 401, 403, 415, 413, 400."""
    access = NOBODY
    if route.verb != PUBLIC:
        access = await site.admit(request)
        ASKING.set(access.actor)
        require(access, route.verb)
        if not route.by_queue:
            require_all_queues(access)
        check_not_embedded(request)
    if route.changes:
        check_same_site(request)
    return Ask(request, site.seen_by(access), access, *await understood(request, route, several=bool(site.inboxes)))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and (better := pages.without_slash(request)):
        return better
    path = request.scope["path"][:100]
    if error.status_code == 405:
        return response(Refused(405, f"{request.method} is not supported at {path}", error.headers))
    if error.status_code == 404 and pages.wants_page(request):
        return pages.no_page(request)
    return response(Refused(error.status_code, f"there is nothing at {path}: GET api/openapi.json lists every route"))


async def _bug(_request: Request, error: Exception) -> Response:
    return response(refusal(error))


class Named:
    """Adds the request id and the security headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI calls it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        name = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        further = [(b"x-request-id", name.encode()), *pages.HEADERS]

        async def named(event: Any) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], *further]}
            await send(event)

        await self._app(scope, receive, named)
