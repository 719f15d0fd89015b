"""The cookie of this app: for its own path, hidden from scripts, never sent from another site."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from .peer import is_https


def give(
    answer: Response,
    request: Request,
    name: str,
    value: str,
    seconds: int | None,
    *,
    samesite: Literal["strict", "lax"] = "strict",
    secure: bool = False,
) -> None:
    """Set a cookie in an answer, for so many seconds or until the browser closes."""
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=str(request.scope.get("root_path", "")).rstrip("/") or "/",
        secure=secure or is_https(request),
        httponly=True,
        samesite=samesite,
    )
