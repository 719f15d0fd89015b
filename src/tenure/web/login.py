"""Login and logout: a token for a cookie that no script can read."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from .access import COOKIE, COOKIE_SECONDS, PUBLIC
from .http_errors import Refused
from .route import Ask, Asked, Error, Route


class LoginAsked(Asked, frozen=True):
    """A token; or the name of a user, and the password as token."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


async def login(ask: Ask[Any, LoginAsked]) -> Response:
    """Take a token, give a cookie for half a day."""
    known = ask.site.credentials
    if known is None:
        raise Refused(404, "there is no login here: access is decided by the app this is mounted in, or it is open")
    cookie = known.cookie(ask.body.name, ask.body.token)
    if cookie is None:
        raise Refused(401, "this token is nobody's: check it, or ask whoever runs the server")
    return _with_cookie(ask, cookie, COOKIE_SECONDS)


async def logout(ask: Ask[Any, None]) -> Response:
    """Forget the cookie."""
    return _with_cookie(ask, "", 0)


def _with_cookie(ask: Ask[Any, Any], value: str, seconds: int) -> Response:
    answer = Response(status_code=204, headers={"cache-control": "no-store"})
    answer.set_cookie(
        COOKIE,
        value,
        max_age=seconds,
        path=str(ask.request.scope.get("root_path", "")).rstrip("/") or "/",
        secure="https" in (ask.request.url.scheme, ask.request.headers.get("x-forwarded-proto")),
        httponly=True,
        samesite="strict",
    )
    return answer


ROUTES = (
    Route("POST", "/api/login", PUBLIC, login, {204: None, 401: Error, 404: Error}, body=LoginAsked),
    Route("POST", "/api/logout", PUBLIC, logout, {204: None}),
)
