"""The dashboard's files: one index.html for all pages, other files by name, and a strict content security policy."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from .by_link import LINK, ByLink
from .http_errors import Refused, response

STATIC = Path(__file__).parent / "static"
PAGES = (
    "/",
    "/rows",
    "/rows/{id}",
    "/workers",
    "/ring",
    "/dead",
    "/queues",
    "/schedules",
    "/outbox",
    "/flows",
    "/flows/{id}",
    "/projections",
    "/batches",
    "/batches/{id}",
    "/hooks",
    "/hooks/{id}",
    "/audit",
    "/shards",
)
NOT_PAGES = ("api", "static", "health", "metrics")  # by the first part of the path
BASE = '<base href="/">'
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def routes(*, drills: bool) -> list[Route]:
    """Pages and files."""
    pages = (*PAGES, "/drills") if drills else PAGES
    return [
        *(Route(path, _page, methods=["GET"]) for path in pages),
        Route("/favicon.ico", _favicon, methods=["GET"]),
        Route("/static/{path:path}", _file, methods=["GET"]),
    ]


def wants_page(request: Request) -> bool:
    """Did a person type this address? Then a page helps more than a JSON sentence."""
    first, _, _ = request.scope["path"].removeprefix(request.scope.get("root_path", "")).strip("/").partition("/")
    accepts = {kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "").split(",")}
    return request.method in ("GET", "HEAD") and "text/html" in accepts and first not in NOT_PAGES


def without_slash(request: Request) -> Response | None:
    """A redirect to the same path without its last slash, if only that is there; never to another host."""
    path = request.scope["path"]
    better = path.rstrip("/")
    if better == path or path.startswith("//") or _is_known(request, path) or not _is_known(request, better):
        return None
    query = request.url.query
    return RedirectResponse(quote(better) + (f"?{query}" if query else ""), 307)


def _is_known(request: Request, path: str) -> bool:
    scope = {**request.scope, "path": path}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)


def no_page(request: Request) -> Response:
    """The dashboard, which says that there is no such page."""
    page = _shell(request)
    page.status_code, page.headers["vary"] = 404, "accept"
    return page


async def _page(request: Request) -> Response:
    door = request.app.state.site.door
    # Not for HEAD: a program that checks a link must not use it up.
    if isinstance(door, ByLink) and LINK in request.query_params and request.method == "GET":
        try:
            return door.enter(request)
        except Refused as refused:
            return response(refused)
    return _shell(request)


def _shell(request: Request) -> Response:
    """index.html, with the prefix of this app as the base of its links."""
    try:
        text = (STATIC / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HTTPException(404) from None
    prefix = request.scope.get("root_path", "").rstrip("/")
    page = text.replace(BASE, f'<base href="{escape(prefix)}/">', 1)
    return HTMLResponse(page, headers={"cache-control": "no-cache"})


async def _file(request: Request) -> Response:
    """A file of a known type below static, and nothing else."""
    path = STATIC / request.path_params["path"]
    kind = TYPES.get(path.suffix)
    if kind is None or not _is_ours(path):
        raise HTTPException(404)
    found = path.stat()
    etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
    headers = {"cache-control": "no-cache", "etag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, headers=headers, media_type=kind)


def _is_ours(path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(STATIC.resolve()) and path.is_file()
    except (OSError, ValueError):  # no file can have this name
        return False


async def _favicon(request: Request) -> Response:
    request.path_params["path"] = "favicon.ico" if (STATIC / "favicon.ico").is_file() else "favicon.svg"
    return await _file(request)
