"""Errors as HTTP answers: a status and one sentence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg
from psycopg import errors as pg
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ..errors import BAD_SETTINGS, NO, NOT_ALLOWED, TRY_LATER, UNREACHABLE, USAGE, SchemaMismatch, TenureError
from ..postgres.sqlstates import trouble_of

RETRY_SECONDS = 2
_LOG = logging.getLogger("tenure.web")
_BY_EXIT_CODE = {USAGE: 400, BAD_SETTINGS: 400, NO: 409, NOT_ALLOWED: 403, UNREACHABLE: 503, TRY_LATER: 503}


class Refused(Exception):
    """A refusal; its text is one sentence that names the value and the next step."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None, **facts: Any) -> None:
        super().__init__(sentence)
        self.status, self.headers, self.facts = status, dict(headers or {}), facts


def response(refused: Refused) -> Response:
    """As JSON: {"error": sentence} and further facts."""
    headers = {"cache-control": "no-store", **refused.headers}
    if refused.status == 503:
        headers["retry-after"] = str(RETRY_SECONDS)
    body = msgspec.json.encode({"error": str(refused), **refused.facts})
    return Response(body, refused.status, headers, "application/json")


def refusal(error: Exception) -> Refused:
    """The refusal for an error; a bug is logged with its traceback and answered without it."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException):  # from the `access` of the app around this one
        return Refused(error.status_code, str(error.detail), error.headers)
    if isinstance(error, ClientDisconnect):  # nobody reads this
        return Refused(400, "the connection was closed before the whole body had come: send it again")
    if isinstance(error, SchemaMismatch):
        return Refused(503, str(error))
    if isinstance(error, TenureError) and error.exit_code in _BY_EXIT_CODE:
        at = getattr(error, "word", None)
        return Refused(_BY_EXIT_CODE[error.exit_code], str(error), **({"at": at} if at else {}))
    if isinstance(error, psycopg.Error):
        return _of_database(error)
    return _bug(error)


def _of_database(error: psycopg.Error) -> Refused:
    said = " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__
    if isinstance(error, pg.QueryCanceled):
        return Refused(503, "the database took too long for this: narrow the filter, or try again")
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName | pg.UndefinedFunction | pg.UndefinedColumn):
        return Refused(503, f"{said}: run `tenure migrate`")
    if isinstance(error, pg.InsufficientPrivilege):
        return Refused(403, f"{said}: grant it to the server's database user")
    if isinstance(error, psycopg.DataError):
        return Refused(400, f"{said}: correct the value")
    if trouble_of(error) == "away":
        return Refused(503, f"the database does not answer ({said}): try again")
    return Refused(503, f"the database is busy ({said}): try again") if trouble_of(error) == "again" else _bug(error)


def _bug(error: Exception) -> Refused:
    _LOG.error("a bug in Tenure: please report it with these lines", exc_info=error)
    return Refused(500, f"this is a bug in Tenure ({type(error).__name__}): please report the lines in its log")
