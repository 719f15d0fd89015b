"""Login and logout: an access token buys a session, in a cookie that no script can read; logout ends it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from ..model import web_token
from . import cookie
from .access import COOKIE, PUBLIC
from .by_link import ByLink
from .http_errors import Refused
from .route import Ask, Asked, Error, Route
from .sessions import SESSION_SECONDS


class LoginAsked(Asked, frozen=True):
    """An access token; or the name of a user, with the password as token."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


async def login(ask: Ask[Any, LoginAsked]) -> Response:
    """Begin a session of 12 hours, in a cookie, in exchange for an access token."""
    known = ask.site.credentials
    if known is None:
        raise Refused(
            404,
            "there is no login by token here: open the link that the server printed, or log in to the app around it",
        )
    value = await known.login(ask.request, ask.body.name, ask.body.token)
    if value is None:
        raise Refused(401, _unknown(ask.body))
    answer = _done()
    cookie.give(answer, ask.request, COOKIE, value, SESSION_SECONDS)
    return answer


def _unknown(asked: LoginAsked) -> str:
    if asked.name is not None:
        return "this name and password do not belong together: check them, or ask whoever runs the server"
    if asked.token.startswith(web_token.PREFIX):
        return "tokens of `tenure tokens` are for scripts, not for this page: send it as `authorization: Bearer TOKEN`"
    return "this access token is unknown: check it, or ask whoever runs the server"


async def logout(ask: Ask[Any, None]) -> Response:
    """End the session of this browser, and delete its cookie."""
    answer, door = _done(), ask.site.door
    if isinstance(door, ByLink):
        door.leave(ask.request, answer)
    else:
        for each in (ask.site.credentials, ask.site.oidc):
            if each is not None:
                each.leave(ask.request)
        cookie.give(answer, ask.request, COOKIE, "", 0)
    return answer


def _done() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})


ROUTES = (
    Route("POST", "/api/login", PUBLIC, login, {204: None, 401: Error, 404: Error, 429: Error}, body=LoginAsked),
    Route("POST", "/api/logout", PUBLIC, logout, {204: None}),
)
