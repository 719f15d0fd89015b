"""The cookie of this app: for its own path, unread by scripts, sent by no other site."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response


def give(answer: Response, request: Request, name: str, value: str, seconds: int | None) -> None:
    """Put a cookie into an answer: for so long, or for as long as the browser runs."""
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=str(request.scope.get("root_path", "")).rstrip("/") or "/",
        secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
        httponly=True,
        samesite="strict",
    )
