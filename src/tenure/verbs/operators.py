"""What operators may do to rows, keys and workers, each as a Statement, and the lines of the audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..errors import BadSettings, InvalidPayload
from ..model.limits import KEY_BYTES_MAX, NAME_BYTES_MAX
from ..model.payload import check_name, check_text, clean_error
from .lifecycle import cancel as cancel
from .lifecycle import redrive as redrive
from .statement import Rows, Statement, array

REASON_BYTES_MAX = 2000
POSTPONED_MAX = 50_000  # rows of one statement


class AuditLine(NamedTuple):
    """One line of the audit. `done_at` is None while the action runs, and stays None if it was interrupted."""

    id: int
    at: datetime
    done_at: datetime | None
    actor: str
    via: str
    verb: str
    target: str  # a filter, or a name
    reason: str
    rows: int  # how many were changed so far
    database_user: str


def retry_now(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Make scheduled rows due now; locked rows are skipped."""
    return Statement("retry_now", {"ids": array(sorted(ids))}, _ids)


def release_held(ids: Sequence[UUID], *, reason: str = "released by an operator") -> Statement[list[UUID]]:
    """Take rows from their holders: pending at once, the attempt does not count; a later write of a holder is refused.

    A row whose holder was asked to cancel it ends as cancelled. Locked rows are skipped.
    """
    return Statement("release_held", {"ids": array(sorted(ids)), "reason": clean_error(reason)}, _ids)


def delete(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Delete rows that nobody holds, in any state, with their tape, their effects and the ordered key they blocked.

    Their idempotency keys stay until retention ends, as those of other rows: a late duplicate is still a duplicate.
    Rows that are held or locked are skipped, and flows that have begun, dead letters too until what they did is
    undone: cancel_flow undoes it.
    """
    return Statement("delete", {"ids": array(sorted(ids))}, _ids)


def erase(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Delete rows that nobody holds with all that is known of them, their idempotency keys too.

    A late duplicate of an erased row is a new row. Rows that are held or locked are skipped.
    """
    return Statement("erase", {"ids": array(sorted(ids))}, _ids)


def erase_rest(ids: Sequence[UUID], idempotency_key: str | None = None) -> Statement[int]:
    """Erase what retention has left of rows that are gone; how many entries that were."""
    params = {"ids": array(sorted(ids)), "idempotency_key": idempotency_key}
    return Statement("erase_rest", params, lambda rows: int(rows[0][0]))


def free_key(queue: str, key: str) -> Statement[bool]:
    """Let an ordered key go on that waits for an operator; its first row stays ended. False if it does not wait."""
    params = {"queue": check_name(queue, "queue"), "partition_key": _within(key, "key", KEY_BYTES_MAX)}
    return Statement("free_key", params, bool)


def postpone(
    queue: str, key: str | None, until: datetime, *, kind: str | None = None, n: int = POSTPONED_MAX
) -> Statement[int]:
    """Make the pending rows of a key due at this time, or those of a kind; how many. None is made due sooner."""
    if (key is None) == (kind is None):
        raise BadSettings("postpone which rows? Name one: a key, or a kind")
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise BadSettings(f"until={until!r} must be a datetime with a zone: the database's clock plus a span")
    params = {
        "queue": check_name(queue, "queue"),
        "partition_key": None if key is None else _within(key, "key", KEY_BYTES_MAX),
        "kind": None if kind is None else check_name(kind, "kind"),
        "until": until,
        "n": n,
    }
    return Statement("postpone", params, lambda rows: int(rows[0][0]))


def drain_worker(worker: str) -> Statement[bool]:
    """Ask a worker to drain; False if no such worker is alive."""
    return Statement("drain_worker", {"worker": check_name(worker, "worker")}, bool)


def begin_audit(actor: str, via: str, verb: str, target: str, reason: str = "") -> Statement[int]:
    """Begin a line of the audit; returns its number."""
    params = {
        "actor": _within(actor, "actor", 2 * NAME_BYTES_MAX),
        "via": check_name(via, "via"),
        "verb": check_name(verb, "verb"),
        "target": check_text(target, "target"),
        "reason": _within(reason, "reason", REASON_BYTES_MAX, least=0),
    }
    return Statement("begin_audit", params, lambda rows: int(rows[0][0]))


def mark(action: int, rows: int, *, done: bool) -> Statement[bool]:
    """Add to an audit line how many rows were changed, and whether it is done; False if it was done already."""
    return Statement("mark", {"action": action, "rows": rows, "done": done}, bool)


def lock_within(seconds: float) -> Statement[None]:
    """Until the transaction ends, wait at most this long for any lock."""
    return Statement("lock_within", {"seconds": seconds}, lambda _rows: None)


def lock_free(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Lock those of these rows that nobody else has locked, until the transaction ends; the others are left out."""
    return Statement("lock_free", {"ids": array(sorted(ids))}, _ids)


def audit(n: int = 100, before: int | None = None) -> Statement[list[AuditLine]]:
    """The audit, the latest line first; `before` is the last number of the previous page."""
    return Statement("audit", {"n": n, "before": before}, lambda rows: [AuditLine(*row) for row in rows])


def _ids(rows: Rows) -> list[UUID]:
    return [row[0] for row in rows]


def _within(text: str, name: str, most: int, least: int = 1) -> str:
    if not least <= len(check_text(text, name).encode()) <= most:
        raise InvalidPayload(f"{name}={text[:60]!r} has {len(text.encode())} bytes: it must have {least} to {most}")
    return text
