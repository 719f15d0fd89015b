"""Every error that Tenure raises, each with the exit code of a command that it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

NO = 1
USAGE = 2
UNREACHABLE = 69
BUG = 70
IO = 74
TRY_LATER = 75
NOT_ALLOWED = 77
BAD_SETTINGS = 78
INTERRUPTED = 130


def telling_line(error: str | None) -> str:
    """The line of an error that says what went wrong: the first after the frames of a traceback, else the first.

    `tenure.fingerprint` and the dashboard follow the same rule.
    """
    text = "\n" + (error or "").strip(" \t\r\n")
    after = text.rpartition('\n  File "')[2].split("\n")[1:]
    found = next((line for line in after if line and line[0] not in " \t\r"), text.split("\n")[1])
    return found.rstrip(" \t\r")


class TenureError(Exception):
    """The base of all errors of Tenure; the text is one sentence that names the value and the next step."""

    exit_code: ClassVar[int] = BUG


_words = {"tenure": "tenure", "tenure migrate": "tenure migrate"}


def reached_by(tenure: str, migrate: str) -> None:
    """From now on advice names these commands: of a framework, which has a way of its own to the database."""
    _words.update({"tenure": tenure, "tenure migrate": migrate})


def same_place(command: str, schema: str, flag: str = "") -> str:
    """A command for the same schema of the same database; an address is never repeated, it may have a password."""
    given = flag if not flag or " " in flag else f"{flag} …"
    command = _words.get(command) or _words["tenure"] + command.removeprefix("tenure")
    return command + ("" if schema == "tenure" else f" --schema {schema}") + (f" {given}" if given else "")


class BadSettings(TenureError, ValueError):
    """A setting is unknown, malformed, or contradicts another."""

    exit_code = BAD_SETTINGS


class NoDatabase(TenureError):
    """No database is configured, or it does not answer."""

    exit_code = UNREACHABLE


class NoConnection(TenureError, TypeError):
    """What was given in place of a connection is none that Tenure knows."""

    exit_code = USAGE


class SchemaMismatch(TenureError):
    """The schema in the database has another version than this package needs."""

    exit_code = BAD_SETTINGS

    def __init__(self, found: int, need: int, schema: str, flag: str = "") -> None:
        self.found, self.need, self.schema = found, need, schema
        run = f"run `{same_place('tenure migrate', schema, flag)}`"
        super().__init__(
            f"schema {schema!r} is missing: {run}"
            if found == 0
            else f"schema {schema!r} is at migration {found}, this package needs {need}: {run}"
            if found < need
            else f"schema {schema!r} is at migration {found}, newer than the {need} this package knows: "
            "upgrade it with `pip install -U tenure`"
        )

    def at(self, flag: str) -> SchemaMismatch:
        """The same, whose command has this option too."""
        return SchemaMismatch(self.found, self.need, self.schema, flag)


class OldWorkersAlive(TenureError):
    """Workers are alive that use what a missing migration removes; nothing was migrated."""

    exit_code = TRY_LATER

    def __init__(self, workers: Sequence[str], migration: int, schema: str, flag: str = "") -> None:
        self.workers, self.migration, self.schema = list(workers), migration, schema
        named = ", ".join(workers[:5]) + (f" and {len(workers) - 5} more" if len(workers) > 5 else "")
        drain = same_place("tenure workers drain ID", schema, flag)
        super().__init__(
            f"workers of an older version are alive ({named}), and migration {migration} removes what they use: drain "
            f"each with `{drain}`, and try again when they have left; --force does not wait"
        )

    def at(self, flag: str) -> OldWorkersAlive:
        """The same, whose command has this option too."""
        return OldWorkersAlive(self.workers, self.migration, self.schema, flag)


class InvalidPayload(TenureError, ValueError):
    """A payload, key or option that cannot be stored, or not read back; nothing was written."""

    exit_code = USAGE


class PayloadTooLarge(InvalidPayload):
    """A payload of more bytes than a row may have."""


class NoEndpoint(TenureError):
    """There is no such endpoint of webhooks, or nothing of it that could be changed; nothing was."""

    exit_code = NO


class CountChanged(TenureError):
    """More rows match than the operator confirmed; nothing was changed."""

    exit_code = NO

    def __init__(self, verb: str, matched: int, expected: int) -> None:
        self.verb, self.matched, self.expected = verb, matched, expected
        super().__init__(
            f"{verb} would now change {matched} rows, not {expected}: check them, then confirm that number"
        )


class LineLocked(TenureError):
    """Another session keeps the line of an action in the audit locked; what was changed before is in the line."""

    exit_code = TRY_LATER

    def __init__(self, line: int, changed: int) -> None:
        self.line, self.changed = line, changed
        super().__init__(
            f"line {line} of the audit is locked by another session: after {changed} rows the action stopped, "
            "run it again when that session has ended"
        )


class IdempotencyConflict(TenureError):
    """The idempotency key is taken by a row with another kind or payload; nothing was written."""

    exit_code = NO

    def __init__(self, key: str, row_id: object) -> None:
        self.key, self.row_id = key, row_id
        super().__init__(
            f"idempotency key {key!r} belongs to row {row_id} with another kind or payload: "
            "send the same content again, or choose another key"
        )


class Held(Protocol):
    """The lease under which a write was refused: a Lease or a claimed row, both in model/rows.py."""

    @property
    def id(self) -> UUID:
        """The row."""

    @property
    def worker(self) -> str:
        """The worker that held it."""

    @property
    def generation(self) -> int:
        """The token: 1 for the first holder of the row, +1 for each later one."""

    @property
    def fence(self) -> int:
        """The number that other stores compare: it grows across rows and servers."""


class StaleLease(TenureError):
    """The lease is no longer current; the refused write changed nothing."""

    exit_code = NO

    def __init__(self, lease: Held, verb: str, reason: str, current: int | None = None) -> None:
        self.lease, self.verb, self.reason, self.current = lease, verb, reason, current
        now = f", current token {current}" if current is not None else ""
        where = " in the database of this connection" if reason == "no_such_row" else ""
        super().__init__(f"{verb} refused for row {lease.id}: token {lease.generation} is stale ({reason}{where}{now})")


class RolledBack(TenureError):
    """The body of fenced() rolled its transaction back: nothing was written, and the row is still held."""

    exit_code = NO

    def __init__(self, lease: Held) -> None:
        self.lease = lease
        super().__init__(
            f"the body of fenced() rolled back, so nothing was written and row {lease.id} is not completed: "
            "raise an error that says why, or catch RolledBack and return an outcome"
        )


class Cancelled(TenureError):
    """Somebody asked to cancel this job; its handler should stop."""

    exit_code = NO

    def __init__(self, row_id: object) -> None:
        self.row_id = row_id
        super().__init__(f"somebody asked to cancel row {row_id}")


class UnknownHandler(TenureError):
    """No handler is registered for this kind."""

    exit_code = USAGE


class StaleFence(TenureError):
    """A newer fence has already written to this resource."""

    exit_code = NO

    def __init__(self, resource: str, fence: int, current: int) -> None:
        self.resource, self.fence, self.current = resource, fence, current
        super().__init__(f"resource {resource!r} has seen fence {current}: fence {fence} is older and was refused")


class LifespanFailed(TenureError):
    """A resource that an application opens in each worker could not be opened; the worker has claimed nothing."""

    exit_code = TRY_LATER

    def __init__(self, lifespan: str, why: str) -> None:
        self.lifespan = lifespan
        super().__init__(f"lifespan {lifespan!r} could not be opened, so nothing was claimed: {why}")


class WrongVersion(TenureError):
    """The stream has another last version than the caller expected; nothing was appended."""

    exit_code = NO

    def __init__(self, stream: str, expected: int, found: int) -> None:
        self.stream, self.expected, self.found = stream, expected, found
        super().__init__(
            f"stream {stream!r} is at version {found}, not {expected}, and nothing was appended: "
            "read it again and decide anew"
        )


class WorkerEvicted(TenureError):
    """This worker was declared dead; it must register again under a new id."""

    exit_code = TRY_LATER

    def __init__(self, worker: str) -> None:
        self.worker = worker
        super().__init__(f"worker {worker!r} was declared dead: register again under a new id")


class ServerBehind(TenureError):
    """This server is behind one that was already seen: it is a stale primary."""

    sqlstate: ClassVar[str] = "TN001"
    exit_code = UNREACHABLE
