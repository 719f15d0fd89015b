"""A door that opens by a link: each lets one browser in, once, and known only to who sees what the command prints."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from . import cookie
from .access import Access, check_local, names_of_this_machine
from .refusal import Refused

LINK = "link"  # what the token is called in the address
SESSIONS_MAX = 32
_SECRET_BYTES = 24
_LOOKING_AHEAD = ("sec-purpose", "purpose", "x-purpose", "x-moz")


class ByLink:
    """Who has opened the link printed last is "local" and admin, as long as this process runs.

    Everybody on a machine can connect to its loopback, so being there proves nothing. A token is used up by the first
    GET that shows it; `told` hears the next one. Of tokens and sessions only digests are kept.
    """

    def __init__(self, command: str, told: Callable[[str], None], hosts: Iterable[str] = ()) -> None:
        self._command, self._told, self._hosts = command, told, names_of_this_machine(hosts)
        self._token = b""  # digest of the one that is good now
        self._sessions: list[bytes] = []  # digests, the oldest first

    def token(self) -> str:
        """A new token for a link; the one before it is good no more."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        self._token = _digest(token)
        return token

    def __call__(self, request: Request) -> Access:
        """Let in who shows our cookie."""
        check_local(request, self._hosts)
        if self._session_of(request) is None:
            sentence = f"this dashboard opens by a link: open the one that `{self._command}` printed last"
            raise Refused(401, sentence, {"www-authenticate": "Link"}, door="link")
        return Access("local", "admin")

    def enter(self, request: Request) -> Response:
        """The way to the page without the token in its address, with a cookie if the token is good: it is then used up.

        One that is not good leads to the same page: who has a cookie sees it, everybody else what to do.
        """
        check_local(request, self._hosts)
        if any("pre" in request.headers.get(name, "") for name in _LOOKING_AHEAD):
            raise Refused(503, "this link is good once, and not for looking ahead: open it")
        answer = RedirectResponse(_without_token(request), 303, {"cache-control": "no-store"})
        if hmac.compare_digest(_digest(request.query_params[LINK]), self._token):
            cookie.give(answer, request, _cookie_of(request), self._new_session(), None)
            self._told(self.token())
        return answer

    def leave(self, request: Request, answer: Response) -> None:
        """End the session of who asks, here and in the browser."""
        session = self._session_of(request)
        if session is not None:
            self._sessions.remove(session)
        cookie.give(answer, request, _cookie_of(request), "", 0)

    def _new_session(self) -> str:
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions = [*self._sessions, _digest(secret)][-SESSIONS_MAX:]
        return secret

    def _session_of(self, request: Request) -> bytes | None:
        shown = _digest(request.cookies.get(_cookie_of(request), ""))
        # Every one is compared, so that the time taken does not tell which one was near.
        same = [each for each in self._sessions if hmac.compare_digest(each, shown)]
        return same[0] if same else None


def _cookie_of(request: Request) -> str:
    """Its name has the port in it, as the browser sees it: browsers give cookies to all ports of a host alike."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"tenure-{port if port.isascii() and port.isdigit() else '80'}"


def _without_token(request: Request) -> str:
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != LINK]
    return quote(request.scope["path"]) + (f"?{urlencode(rest)}" if rest else "")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
