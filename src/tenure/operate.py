"""What operators do over a filter: the exact count first, then batch by batch, and every step of it in the audit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg import Connection, IsolationLevel, pq
from psycopg.errors import LockNotAvailable

from .errors import NO, USAGE, BadSettings, TenureError
from .model.filter import IDS_MAX, Filter
from .operator_verbs import ON_ROWS, OperatorVerb
from .postgres.runner import run
from .settings import DEFAULT_SCHEMA
from .verbs import operators, search
from .verbs.operators import Noted as Noted
from .verbs.operators import audit as audit
from .verbs.operators import drain_worker as drain_worker
from .verbs.operators import free_key as free_key
from .verbs.statement import Statement

T = TypeVar("T")
BATCH = 500
LOCK_SECONDS = 0.5  # how long a batch waits for the rows that somebody has locked, all of them together
STEP = 4000  # ids asked for at once


class NoSuchVerb(TenureError, ValueError):
    """Operators have no verb of this name."""

    exit_code = USAGE

    def __init__(self, verb: str) -> None:
        super().__init__(f"operators have no verb {verb[:60]!r}: there are {', '.join(ON_ROWS)}")


class CountChanged(TenureError):
    """More rows match than the operator was shown; nothing was changed."""

    exit_code = NO

    def __init__(self, verb: str, matched: int, expected: int) -> None:
        self.verb, self.matched, self.expected = verb, matched, expected
        super().__init__(
            f"{verb} would change {matched} rows by now, not {expected}: look again, then confirm that number"
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and through what: cli, http or python."""

    name: str
    via: str = "python"


class Done(NamedTuple):
    """What an action did.

    `action` is its line in the audit, `matched` how many rows were counted when it began: no others were touched.
    Each of them was changed or `skipped`: locked, or no longer a match, or gone.
    """

    action: int
    verb: str
    matched: int
    changed: int
    skipped: int
    done: bool

    @property
    def looked(self) -> int:
        """Rows behind it, changed or not."""
        return self.changed + self.skipped


def would(conn: Connection[Any], verb: str, filter: Filter, schema: str = DEFAULT_SCHEMA) -> int:
    """The exact number of rows that the verb would change now."""
    narrowed = narrow(verb, filter)
    if narrowed is None:
        return 0
    with conn.transaction():
        return run(conn, search.count(narrowed, cap=None), schema).n


def narrow(verb: str, filter: Filter) -> Filter | None:
    """The filter with the states that the verb takes rows from; None if it takes from none of those named."""
    if verb not in ON_ROWS:
        raise NoSuchVerb(verb)
    takes = ON_ROWS[verb].statuses
    if not filter.statuses:
        return replace(filter, statuses=takes)
    both = dict.fromkeys(met for named in filter.statuses for taken in takes if (met := _meet(named, taken)))
    return replace(filter, statuses=tuple(both)) if both else None


def _meet(one: str, other: str) -> str | None:
    """What two states have in common: pending is runnable and scheduled, all others stand alone."""
    halves = ("runnable", "scheduled")
    if one == other or (other == "pending" and one in halves):
        return one
    return other if one == "pending" and other in halves else None


def act(
    conn: Connection[Any],
    verb: str,
    filter: Filter,
    actor: Actor,
    *,
    schema: str = DEFAULT_SCHEMA,
    reason: str = "",
    batch: int = BATCH,
    progress: Callable[[int], None] | None = None,
    began: Callable[[int], None] | None = None,
    expect: int | None = None,
) -> Done:
    """Change every row that matches, newest first, in batches that each commit with their part of the audit line.

    The connection must be in no transaction. `began` is told the number of the audit line, `progress` how many rows
    each batch looked at. With `expect`, CountChanged is raised if more rows match than that, before any is changed.
    Broken off between two batches, the audit line says how many rows were changed and is never done.
    """
    with _read_committed(conn):
        narrowed = narrow(verb, filter)
        counted = b"".join(id.bytes for id in _every(conn, narrowed, schema)) if narrowed else b""
        matched = len(counted) // 16
        if expect is not None and matched > expect:
            raise CountChanged(verb, matched, expect)
        with conn.transaction():
            action = run(conn, operators.note(actor.name, actor.via, verb, str(narrowed or filter), reason), schema)
        if began is not None:
            began(action)
        so_far = Done(action, verb, matched, 0, 0, False)
        while not so_far.done:
            some = range(so_far.looked, min(so_far.looked + min(batch, IDS_MAX), matched))
            ids = tuple(UUID(bytes=counted[16 * n : 16 * n + 16]) for n in some)
            so_far = _batch(conn, so_far, replace(narrowed or filter, ids=ids), reason, schema)
            if progress is not None:
                progress(len(ids))
        return so_far


@contextlib.contextmanager
def _read_committed(conn: Connection[Any]) -> Iterator[None]:
    """A batch changes what it has found: it must see what others commit in between, whatever the caller works with."""
    if conn.info.transaction_status != pq.TransactionStatus.IDLE:
        raise BadSettings("act() needs a connection that is in no transaction: open it with autocommit=True, or commit")
    before, conn.isolation_level = conn.isolation_level, IsolationLevel.READ_COMMITTED
    try:
        yield
    finally:
        if not conn.closed:
            conn.isolation_level = before


def _every(conn: Connection[Any], filter: Filter, schema: str) -> Iterator[UUID]:
    """The rows that match, newest first; in steps, none of which keeps a snapshot for long."""
    found = search.Ids([], None, 0, False)
    while not found.done:
        with conn.transaction():
            found = run(conn, search.ids(filter, before=found.next, n=STEP), schema)
        yield from found.ids


def _batch(conn: Connection[Any], so_far: Done, filter: Filter, reason: str, schema: str) -> Done:
    """Those of some rows that still match are changed; the audit says so with them, and at the end that it is done."""
    n = len(filter.ids)
    over = so_far.looked + n == so_far.matched
    with conn.transaction():
        ids = run(conn, search.ids(filter, n=n, search_max=n, search_seconds=None), schema).ids if n else []
    done = _at_once(conn, so_far, ids, reason, schema)
    changed = len(done) + _late(conn, so_far, [id for id in ids if id not in done], reason, schema)
    if over:
        with conn.transaction():
            run(conn, operators.mark(so_far.action, 0, done=True), schema)
    return so_far._replace(changed=so_far.changed + changed, skipped=so_far.skipped + n - changed, done=over)


def _at_once(conn: Connection[Any], so_far: Done, ids: list[UUID], reason: str, schema: str) -> set[UUID]:
    """Those that nobody has locked are changed in one transaction, which waits for no other row."""
    verb = ON_ROWS[so_far.verb]
    with contextlib.suppress(LockNotAvailable), conn.transaction():
        run(conn, operators.lock_within(LOCK_SECONDS), schema)
        free = run(conn, operators.lock_free(ids), schema) if verb.waits else ids
        changed = set(run(conn, _statement(verb, free, reason), schema))
        run(conn, operators.mark(so_far.action, len(changed), done=False), schema)
        return changed
    return set()


def _late(conn: Connection[Any], so_far: Done, ids: Sequence[UUID], reason: str, schema: str) -> int:
    """How many could be changed after all, each in a transaction of its own: who waits for a lock holds no other."""
    until = time.monotonic() + LOCK_SECONDS
    return sum(_alone(conn, so_far, id, reason, until - time.monotonic(), schema) for id in ids)


def _alone(conn: Connection[Any], so_far: Done, id: UUID, reason: str, seconds: float, schema: str) -> int:
    with contextlib.suppress(LockNotAvailable), conn.transaction():
        run(conn, operators.lock_within(max(0.001, seconds)), schema)
        changed = len(run(conn, _statement(ON_ROWS[so_far.verb], [id], reason), schema))
        run(conn, operators.mark(so_far.action, changed, done=False), schema)
        return changed
    return 0


def noted(
    conn: Connection[Any],
    statement: Statement[T],
    actor: Actor,
    verb: str,
    target: str,
    schema: str = DEFAULT_SCHEMA,
    *,
    reason: str = "",
) -> T:
    """Run one mutation and write its line of the audit, both or neither; an answer of False counts as no change."""
    with conn.transaction():
        action = run(conn, operators.note(actor.name, actor.via, verb, target, reason), schema)
        answer = run(conn, statement, schema)
        run(conn, operators.mark(action, 0 if answer is False else 1, done=True), schema)
    return answer


def _statement(verb: OperatorVerb, ids: Sequence[UUID], reason: str) -> Statement[Any]:
    """The verb on these rows; those that are told why remember it as their last error."""
    make: Callable[..., Statement[Any]] = getattr(operators, verb.statement)
    if not verb.told:
        return make(ids)
    by = f"{verb.past} by an operator"
    return make(ids, reason=f"{by}: {reason}" if reason else by)
