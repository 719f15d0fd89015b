"""What operators do to all rows of a filter: count exactly first, then change in batches, each step in the audit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg import Connection, Error, IsolationLevel, pq
from psycopg.errors import LockNotAvailable

from .errors import USAGE, BadSettings, LineLocked, TenureError
from .errors import CountChanged as CountChanged
from .model.filter import IDS_MAX, Filter, without_content
from .operator_verbs import ON_ROWS, OperatorVerb
from .postgres.runner import run
from .settings import DEFAULT_SCHEMA
from .verbs import operators, search, witness
from .verbs.operators import AuditLine as AuditLine
from .verbs.operators import audit as audit
from .verbs.operators import drain_worker as drain_worker
from .verbs.operators import free_key as free_key
from .verbs.operators import postpone as postpone
from .verbs.statement import Statement

T = TypeVar("T")
BATCH = 500
LOCK_SECONDS = 0.5  # how long a batch waits for all its locked rows together
LINE_SECONDS = 10.0  # how long for its line in the audit
STEP = 4000  # ids read at once


class NoSuchVerb(TenureError, ValueError):
    """There is no operator's verb of this name."""

    exit_code = USAGE

    def __init__(self, verb: str) -> None:
        super().__init__(f"operators have no verb {verb[:60]!r}: there are {', '.join(ON_ROWS)}")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and how: cli, http or python."""

    name: str
    via: str = "python"


class Done(NamedTuple):
    """What an action did.

    `action` is its line in the audit, `matched` the number of rows counted at its start; no other row was changed.
    Each row was changed or `skipped`: it was locked, did not match any more, or was gone.
    """

    action: int
    verb: str
    matched: int
    changed: int
    skipped: int
    done: bool

    @property
    def looked(self) -> int:
        """Rows done so far, changed or skipped."""
        return self.changed + self.skipped


def would(conn: Connection[Any], verb: str, filter: Filter, schema: str = DEFAULT_SCHEMA) -> int:
    """The exact number of rows that the verb would change now."""
    narrowed = narrow(verb, filter)
    if narrowed is None:
        return 0
    with conn.transaction():
        return run(conn, search.count(narrowed, cap=None), schema).n


def left_out(conn: Connection[Any], verb: str, filter: Filter, schema: str = DEFAULT_SCHEMA) -> int:
    """How many rows match that a verb on ended and waiting rows leaves because a worker holds them."""
    if "processing" in ON_ROWS[verb].statuses or (filter.statuses and "processing" not in filter.statuses):
        return 0
    with conn.transaction():
        return run(conn, search.count(replace(filter, statuses=("processing",)), cap=None), schema).n


def narrow(verb: str, filter: Filter) -> Filter | None:
    """The filter with the statuses that the verb changes; None if it changes none of those in the filter."""
    if verb not in ON_ROWS:
        raise NoSuchVerb(verb)
    takes = ON_ROWS[verb].statuses
    if not filter.statuses:
        return replace(filter, statuses=takes)
    both = dict.fromkeys(met for named in filter.statuses for taken in takes if (met := _meet(named, taken)))
    return replace(filter, statuses=tuple(both)) if both else None


def _meet(one: str, other: str) -> str | None:
    """What two statuses have in common: pending is runnable and scheduled, all others have nothing in common."""
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
    """Change every row that matches, the newest first, in batches; each batch commits with its count in the audit.

    The connection must not be in a transaction. `began` gets the number of the audit line, `progress` how many rows
    each batch had. With `expect`, CountChanged is raised if more rows match, before any row is changed. If it is
    interrupted between two batches, the audit line says how many rows were changed and is never done.
    """
    with _read_committed(conn):
        narrowed = narrow(verb, filter)
        counted = b"".join(id.bytes for id in _every(conn, narrowed, schema)) if narrowed else b""
        matched = len(counted) // 16
        if expect is not None and matched > expect:
            raise CountChanged(verb, matched, expect)
        with conn.transaction():
            target = _target(verb, narrowed or filter)
            action = run(conn, operators.begin_audit(actor.name, actor.via, verb, target, reason), schema)
        if began is not None:
            began(action)
        so_far = Done(action, verb, matched, 0, 0, False)
        while not so_far.done:
            some = range(so_far.looked, min(so_far.looked + min(batch, IDS_MAX), matched))
            ids = tuple(UUID(bytes=counted[16 * n : 16 * n + 16]) for n in some)
            so_far = _batch(conn, so_far, replace(narrowed or filter, ids=ids), reason, schema)
            if progress is not None:
                progress(len(ids))
        if verb == "erase" and filter == Filter(ids=filter.ids, idempotency_key=filter.idempotency_key):
            with conn.transaction():  # what is left of rows that are gone has no queue, kind or status to match
                run(conn, operators.erase_rest(filter.ids, filter.idempotency_key), schema)
        sealed(conn, schema)
        return so_far


def _target(verb: str, filter: Filter) -> str:
    return str(without_content(filter) if ON_ROWS[verb].private else filter)


@contextlib.contextmanager
def _read_committed(conn: Connection[Any]) -> Iterator[None]:
    """Use READ COMMITTED, whatever the caller uses: a batch must see what others commit between its statements."""
    if conn.info.transaction_status != pq.TransactionStatus.IDLE:
        raise BadSettings("act() needs a connection outside a transaction: open it with autocommit=True, or commit")
    before, conn.isolation_level = conn.isolation_level, IsolationLevel.READ_COMMITTED
    try:
        yield
    finally:
        if not conn.closed:
            conn.isolation_level = before


def _every(conn: Connection[Any], filter: Filter, schema: str) -> Iterator[UUID]:
    """The rows that match, the newest first; read in steps, so that no snapshot is held for long."""
    found = search.Ids([], None, 0, False)
    while not found.done:
        with conn.transaction():
            found = run(conn, search.ids(filter, before=found.next, n=STEP), schema)
        yield from found.ids


def _batch(conn: Connection[Any], so_far: Done, filter: Filter, reason: str, schema: str) -> Done:
    """Change those of these rows that still match, and add their count to the audit; at the end, mark it done."""
    n = len(filter.ids)
    over = so_far.looked + n == so_far.matched
    with conn.transaction():
        ids = run(conn, search.ids(filter, n=n, search_max=n, search_seconds=None), schema).ids if n else []
    done = _at_once(conn, so_far, ids, reason, schema)
    changed = len(done) + _late(conn, so_far, [id for id in ids if id not in done], reason, schema)
    if over:
        with conn.transaction():
            _mark(conn, so_far, schema, done=True)
    return so_far._replace(changed=so_far.changed + changed, skipped=so_far.skipped + n - changed, done=over)


def _mark(conn: Connection[Any], so_far: Done, schema: str, *, done: bool = False) -> None:
    """Lock its line in the audit before any row: a line that is locked is no row to skip."""
    run(conn, operators.lock_within(LINE_SECONDS), schema)
    try:
        run(conn, operators.mark(so_far.action, 0, done=done), schema)
    except LockNotAvailable as error:
        raise LineLocked(so_far.action, so_far.changed) from error


def _at_once(conn: Connection[Any], so_far: Done, ids: list[UUID], reason: str, schema: str) -> set[UUID]:
    """Change the rows that nobody has locked, in one transaction that waits for no other row."""
    verb = ON_ROWS[so_far.verb]
    with contextlib.suppress(LockNotAvailable), conn.transaction():
        _mark(conn, so_far, schema)
        run(conn, operators.lock_within(LOCK_SECONDS), schema)
        free = run(conn, operators.lock_free(ids), schema) if verb.waits else ids
        changed = set(run(conn, _statement(verb, free, reason), schema))
        run(conn, operators.mark(so_far.action, len(changed), done=False), schema)
        return changed
    return set()


def _late(conn: Connection[Any], so_far: Done, ids: Sequence[UUID], reason: str, schema: str) -> int:
    """Change the locked rows, one per transaction: never hold a row lock while waiting for another; how many."""
    until = time.monotonic() + LOCK_SECONDS
    return sum(_alone(conn, so_far, id, reason, until - time.monotonic(), schema) for id in ids)


def _alone(conn: Connection[Any], so_far: Done, id: UUID, reason: str, seconds: float, schema: str) -> int:
    with contextlib.suppress(LockNotAvailable), conn.transaction():
        _mark(conn, so_far, schema)
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
    seal: bool = True,
) -> T:
    """Run one statement and write its audit line, both or neither; an answer of False counts as no change.

    Then the line is linked into the chain, unless the caller does that later for many.
    """
    with conn.transaction():
        action = run(conn, operators.begin_audit(actor.name, actor.via, verb, target, reason), schema)
        answer = run(conn, statement, schema)
        run(conn, operators.mark(action, 0 if answer is False else 1, done=True), schema)
    if seal:
        sealed(conn, schema)
    return answer


def sealed(conn: Connection[Any], schema: str = DEFAULT_SCHEMA) -> bool:
    """Link the lines of the audit that are not in its chain yet; False if another session does it, or it must wait.

    What was done is done: a line that cannot be linked now is linked by whoever comes next.
    """
    if conn.info.transaction_status != pq.TransactionStatus.IDLE:
        return False  # the chain would be locked until the caller's transaction ends
    with contextlib.suppress(Error):
        while True:
            with conn.transaction():
                n = run(conn, witness.seal(), schema)
            if n is None or n < witness.SEALED_MAX:
                return n is not None
    return False


def _statement(verb: OperatorVerb, ids: Sequence[UUID], reason: str) -> Statement[Any]:
    """The verb on these rows. Rows that are told why keep it as their last error."""
    make: Callable[..., Statement[Any]] = getattr(operators, verb.statement)
    if not verb.told:
        return make(ids)
    by = f"{verb.past} by an operator"
    return make(ids, reason=f"{by}: {reason}" if reason else by)
