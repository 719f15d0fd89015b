"""Login by link: a link lets one browser in, once; only those who see what the command prints know it."""

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
from .http_errors import Refused

LINK = "link"  # the name of the link's secret in the address
SESSIONS_MAX = 32
_SECRET_BYTES = 24
_LOOKING_AHEAD = ("sec-purpose", "purpose", "x-purpose", "x-moz")


class ByLink:
    """Whoever opened a printed link is "local" and admin, as long as this process runs.

    Every user of a machine can connect to its loopback, so a local connection proves nothing. The first GET with a
    link's secret uses it up; `on_next_link` is called with the next one. Only digests of secrets and sessions are kept.
    """

    def __init__(self, command: str, on_next_link: Callable[[str], None], hosts: Iterable[str] = ()) -> None:
        self._command, self._on_next_link, self._hosts = command, on_next_link, names_of_this_machine(hosts)
        self._token = b""  # digest of the secret that is valid now
        self._sessions: list[bytes] = []  # digests, the oldest first

    def token(self) -> str:
        """A new secret for a link; the one before it is no longer valid."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        self._token = _digest(token)
        return token

    def __call__(self, request: Request) -> Access:
        """Let in a browser that sends our cookie."""
        check_local(request, self._hosts)
        if self._session_of(request) is None:
            sentence = f"this dashboard opens by a link: open the one that `{self._command}` printed last"
            raise Refused(401, sentence, {"www-authenticate": "Link"}, door="link")
        return Access("local", "admin")

    def enter(self, request: Request) -> Response:
        """Redirect to the page's address without the secret; a valid secret is used up and gives a cookie.

        An invalid secret leads to the same page: it opens for a browser with a cookie, and tells others what to do.
        """
        check_local(request, self._hosts)
        if any("pre" in request.headers.get(name, "") for name in _LOOKING_AHEAD):
            raise Refused(503, "this link works once, so a preview must not use it: open it")
        answer = RedirectResponse(_without_token(request), 303, {"cache-control": "no-store"})
        if hmac.compare_digest(_digest(request.query_params[LINK]), self._token):
            cookie.give(answer, request, _cookie_of(request), self._new_session(), None)
            self._on_next_link(self.token())
        return answer

    def leave(self, request: Request, answer: Response) -> None:
        """End this browser's session, here and in the browser."""
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
        # Compare every one, so that the time taken says nothing about them.
        same = [each for each in self._sessions if hmac.compare_digest(each, shown)]
        return same[0] if same else None


def _cookie_of(request: Request) -> str:
    """The cookie's name has the port in it: browsers send a host's cookies to all of its ports."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"tenure-{port if port.isascii() and port.isdigit() else '80'}"


def _without_token(request: Request) -> str:
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != LINK]
    return quote(request.scope["path"]) + (f"?{urlencode(rest)}" if rest else "")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
