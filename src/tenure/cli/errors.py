"""What an error means to the person at the terminal: one sentence, and the exit code that goes with it."""

from __future__ import annotations

import contextlib
import traceback

import psycopg
from psycopg import errors as pg

from ..console import terminal
from ..errors import BAD_SETTINGS, BUG, IO, NOT_ALLOWED, TRY_LATER, UNREACHABLE, USAGE, TenureError
from ..postgres.sqlstates import trouble_of

_BY_STATE = {
    pg.InsufficientPrivilege: (NOT_ALLOWED, "ask its owner for the right, or connect as another user"),
    pg.InvalidPassword: (NOT_ALLOWED, "check the user and password in the URL"),
    pg.InvalidAuthorizationSpecification: (NOT_ALLOWED, "check the user in the URL"),
    pg.InvalidCatalogName: (UNREACHABLE, "create the database, or correct its name in the URL"),
    pg.DatabaseDropped: (UNREACHABLE, "create the database, or correct its name in the URL"),
    pg.UndefinedTable: (BAD_SETTINGS, "run `tenure migrate`"),
    pg.InvalidSchemaName: (BAD_SETTINGS, "run `tenure migrate`"),
    pg.InvalidParameterValue: (USAGE, "correct the value"),
    pg.ProgramLimitExceeded: (USAGE, "this is more than Postgres can take; make it smaller"),
    pg.StatementTooComplex: (USAGE, "this is more than Postgres can take; make it smaller"),
    pg.LockNotAvailable: (TRY_LATER, "another session holds the lock; try again"),
    pg.QueryCanceled: (TRY_LATER, "a statement_timeout or an administrator stopped it; try again, or allow it longer"),
    pg.ReadOnlySqlTransaction: (UNREACHABLE, "this server is read-only; connect to the primary"),
}

_NO_ROOM = (UNREACHABLE, "all connections are taken; close some, or raise the limit")

# A refused connection has no SQLSTATE in libpq, only its words.
_BY_WORDS = {
    "password authentication failed": _BY_STATE[pg.InvalidPassword],
    "no password supplied": _BY_STATE[pg.InvalidPassword],
    "pg_hba.conf": _BY_STATE[pg.InvalidAuthorizationSpecification],
    'FATAL: role "': _BY_STATE[pg.InvalidAuthorizationSpecification],
    "does not exist": _BY_STATE[pg.InvalidCatalogName],
    "too many clients": _NO_ROOM,
    "too many connections": _NO_ROOM,
    "remaining connection slots": _NO_ROOM,
    "the database system is": (UNREACHABLE, "wait until it accepts connections, and try again"),
}

_LIBPQ_ASKS = " Is the server running on that host and accepting TCP/IP connections?"


def tell(error: BaseException) -> int:
    """Print the error on stderr, a bug with its traceback; the exit code."""
    sentence, code = explain(error)
    with contextlib.suppress(OSError):  # stderr is closed: the exit code still counts
        terminal.sentence(f"tenure: {sentence}", err=True)
        if code == BUG:
            terminal.echo("".join(traceback.format_exception(error)).rstrip("\n"), err=True)
    return code


def explain(error: BaseException) -> tuple[str, int]:
    """One sentence with the next step, and the exit code; an unexpected error is a bug to report."""
    sentence, code = _explain(error)
    where = [note for note in getattr(error, "__notes__", []) if note.startswith("inbox ")]  # of several
    return ": ".join([*where, sentence]), code


def _explain(error: BaseException) -> tuple[str, int]:
    if isinstance(error, TenureError):
        return str(error), error.exit_code
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None  # without CONTEXT and DETAIL
    said = " ".join((primary or str(error)).split()).removesuffix(_LIBPQ_ASKS) or type(error).__name__
    for kind, (code, advice) in _BY_STATE.items():
        if isinstance(error, kind):
            return f"{said}: {advice}", code
    if isinstance(error, psycopg.Error):
        return _of_database(error, said)
    if isinstance(error, OSError):
        return f"{_place(error)}: {error.strerror or said}", IO
    return _bug(error, said)


def _of_database(error: psycopg.Error, said: str) -> tuple[str, int]:
    """Busy, away, or neither. Only where no server answered do we ask whether it runs."""
    trouble, state = trouble_of(error), error.sqlstate
    if trouble == "again":
        return f"{said}: another session was in the way; try again", TRY_LATER
    if trouble == "away" and state:
        return f"the server cannot go on ({said}): see its log, and try again when it can", UNREACHABLE
    if trouble == "away":
        return _unanswered(said)
    if state:
        return f"the database refused this ({said}, SQLSTATE {state}): please report it with the lines below", BUG
    return _bug(error, said)


def _unanswered(said: str) -> tuple[str, int]:
    """No session was opened, or it broke: libpq's message is all there is."""
    for words, (code, advice) in _BY_WORDS.items():
        if words in said:
            return f"{said}: {advice}", code
    return f"the database does not answer ({said}): is it running, and is the URL right?", UNREACHABLE


def _bug(error: BaseException, said: str) -> tuple[str, int]:
    return f"this is a bug in Tenure ({type(error).__name__}: {said}): please report it with the lines below", BUG


def _place(error: OSError) -> str:
    """The file that could not be read or written; without a name, the output of the command."""
    return f"{str(error.filename)!r} cannot be used" if error.filename else "the answer could not be written"
