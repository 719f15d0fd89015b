"""Login by OpenID Connect: code flow with PKCE, state and nonce; a claim with groups says the role."""

from __future__ import annotations

import hmac
from html import escape
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..errors import BadSettings
from ..events import Bus, LoginFailed
from . import cookie
from .access import COOKIE, Access
from .groups import Groups, clean_name, is_ours, not_theirs
from .guesses import Tries
from .oidc_flow import FLOW_SECONDS, Flows
from .oidc_provider import BadLogin, Provider, challenge_of, check_address
from .peer import address_of
from .sessions import SESSION_SECONDS, Sessions

FLOW_COOKIE = "tenure-login"
CALLBACK = "/api/oidc/callback"
SCOPE = "openid profile email"


class OidcSettings(NamedTuple):
    """Of TENURE_WEB_OIDC_…; `url` is where browsers reach this server."""

    issuer: str
    client: str
    secret: str
    url: str
    user: str
    groups: str
    scope: str


class Oidc:
    """Logs people in by their provider. Sessions are kept here, as those of secrets."""

    def __init__(self, given: OidcSettings, groups: Groups, bus: Bus) -> None:
        for name, value in (("CLIENT", given.client), ("URL", given.url)):
            if not value:
                raise BadSettings(f"TENURE_WEB_OIDC_ISSUER is set: set TENURE_WEB_OIDC_{name} too")
        self._back = check_address(given.url.rstrip("/"), "TENURE_WEB_OIDC_URL") + CALLBACK
        self._given, self._groups, self._bus = given, groups, bus
        self._provider = Provider(given.issuer, given.client, given.secret)
        self._flows, self._sessions = Flows(), Sessions[Access]()
        self._tries = Tries()

    def __call__(self, request: Request) -> Access | None:
        """Whose session the cookie names."""
        return self._sessions.find(request.cookies.get(COOKIE, ""))

    def leave(self, request: Request) -> None:
        """End the session of this browser."""
        self._sessions.end(request.cookies.get(COOKIE, ""))

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        try:
            endpoint = await self._provider.endpoint("authorization_endpoint")
        except BadLogin as error:
            return self._failed(request, error, 503)
        state, flow = self._flows.begin()
        asked = {
            "response_type": "code",
            "client_id": self._given.client,
            "redirect_uri": self._back,
            "scope": self._given.scope or SCOPE,
            "state": state,
            "nonce": flow.nonce,
            "code_challenge": challenge_of(flow.verifier),
            "code_challenge_method": "S256",
        }
        there = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
        answer = RedirectResponse(there, 303, {"cache-control": "no-store"})
        # Lax: the way back begins at another site, which a strict cookie would not survive.
        cookie.give(answer, request, FLOW_COOKIE, state, FLOW_SECONDS, samesite="lax", secure=self._is_secure)
        return answer

    async def finish(self, request: Request) -> Response:
        """The browser came back: check everything, and begin a session."""
        try:
            access = await self._found(request)
        except BadLogin as error:
            return self._failed(request, error, error.status)
        # Not a redirect: it would still count as coming from the provider, and the strict cookie would not be sent.
        answer = HTMLResponse(_page("Logged in.", "Go on", refresh=True), headers={"cache-control": "no-store"})
        cookie.give(answer, request, COOKIE, self._sessions.begin(access), SESSION_SECONDS, secure=self._is_secure)
        cookie.give(answer, request, FLOW_COOKIE, "", 0, samesite="lax", secure=self._is_secure)
        return answer

    async def _found(self, request: Request) -> Access:
        state = request.query_params.get("state", "")
        begun = request.cookies.get(FLOW_COOKIE, "")
        is_own = hmac.compare_digest(state.encode(errors="surrogatepass"), begun.encode(errors="surrogatepass"))
        flow = self._flows.take(state) if is_own else None  # good once, whatever comes of it
        if flow is None:
            raise BadLogin("this login was not begun in this browser, or too long ago: begin again")
        if "error" in request.query_params:
            raise BadLogin(f"the provider refused: {request.query_params['error'][:100]!a}")
        code = request.query_params.get("code", "")
        claims = await self._provider.claims(code, self._back, flow.verifier, flow.nonce)
        return self._access(claims)

    def _access(self, claims: dict[str, object]) -> Access:
        claim = self._given.user or "email"
        name = clean_name(claims.get(claim))
        if name is None:
            raise BadLogin(f"the provider sent no usable claim {claim!r}: choose another by TENURE_WEB_OIDC_USER")
        if claim == "email" and claims.get("email_verified") is not True:
            raise BadLogin("the provider has not verified the address: choose another claim by TENURE_WEB_OIDC_USER")
        if is_ours(name):
            raise BadLogin(not_theirs(name), 403)
        listed = claims.get(self._given.groups or "groups")
        groups = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
        access = self._groups.access(name, groups)
        if access is None:
            raise BadLogin(f"{name} has no role here: none of their groups is in TENURE_WEB_GROUPS")
        return access

    def _failed(self, request: Request, error: BadLogin, status: int) -> Response:
        n = self._tries.count(address_of(request))
        if n is not None and status != 503:
            self._bus.emit(LoginFailed(address_of(request), "", n))
        page = _page(f"{str(error)[:1].upper()}{str(error)[1:]}.", "Back to the dashboard")
        return HTMLResponse(page, status, {"cache-control": "no-store"})

    @property
    def _is_secure(self) -> bool:
        return self._back.startswith("https:")

    def routes(self) -> list[Route]:
        """Where a login begins and ends."""
        return [Route("/api/oidc/login", self.begin, methods=["GET"]), Route(CALLBACK, self.finish, methods=["GET"])]


def oidc_of(given: OidcSettings, groups: str, bus: Bus) -> Oidc | None:
    """The login of the settings; None if there is no issuer."""
    return Oidc(given, Groups.read(groups), bus) if given.issuer else None


def _page(sentence: str, link: str, *, refresh: bool = False) -> str:
    go = '<meta http-equiv="refresh" content="0;url=../../">' if refresh else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tenure</title>{go}</head>'
        f'<body><main><h1>Tenure</h1><p>{escape(sentence)}</p><p><a href="../../">{link}</a></p></main></body></html>'
    )
