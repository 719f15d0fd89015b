"""What operators do over a filter: the exact count first, then batch by batch, and every step of it in the audit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from . import acts, finding, verbs
from .acts import Noted as Noted
from .acts import audit as audit
from .acts import drain_worker as drain_worker
from .acts import free_key as free_key
from .db import run
from .errors import NO, USAGE, TenureError
from .filter import Filter
from .settings import DEFAULT_SCHEMA
from .statement import Statement

T = TypeVar("T")
BATCH = 500
LOCK_SECONDS = 0.5  # how long a batch waits for a row that somebody has locked, with all its own rows locked meanwhile
NOTHING = finding.Ids([], None, 0, True)


class Verb(NamedTuple):
    """A verb over rows: the states it takes them from, and the statement for some of them, with a reason or without."""

    statuses: tuple[str, ...]
    on: Callable[[Sequence[UUID], str], Statement[Any]]


VERBS = {
    "redrive": Verb(("failed", "dead_letter"), lambda ids, _: verbs.redrive(ids)),
    "retry": Verb(("scheduled",), lambda ids, _: acts.retry_now(ids)),
    "release": Verb(
        ("processing",), lambda ids, why: acts.release_held(ids, **_because("released by an operator", why))
    ),
    "cancel": Verb(
        ("pending", "processing"), lambda ids, why: verbs.cancel(ids, **_because("cancelled by an operator", why))
    ),
    "delete": Verb(("pending", "completed", "failed", "dead_letter", "cancelled"), lambda ids, _: acts.delete(ids)),
}


class NoSuchVerb(TenureError, ValueError):
    """Operators have no verb of this name."""

    exit_code = USAGE

    def __init__(self, verb: str) -> None:
        super().__init__(f"operators have no verb {verb[:60]!r}: there are {', '.join(VERBS)}")


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

    `action` is its line in the audit, `matched` how many rows were counted when it began: no more were touched, and
    none that was enqueued later. Those `skipped` were locked, or no longer in a state that the verb takes.
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
        return run(conn, finding.count(narrowed, cap=None), schema).n


def narrow(verb: str, filter: Filter) -> Filter | None:
    """The filter with the states that the verb takes rows from; None if it takes from none of those named."""
    if verb not in VERBS:
        raise NoSuchVerb(verb)
    takes = VERBS[verb].statuses
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
    narrowed = narrow(verb, filter) or filter
    before = _above(conn, narrowed, schema)
    matched = would(conn, verb, filter, schema)
    if expect is not None and matched > expect:
        raise CountChanged(verb, matched, expect)
    with conn.transaction():
        action = run(conn, acts.note(actor.name, actor.via, verb, str(narrowed), reason), schema)
    if began is not None:
        began(action)
    so_far = Done(action, verb, matched, 0, 0, False)
    while not so_far.done:
        looked = so_far.looked
        so_far, before = _batch(conn, so_far, narrowed, before, batch, reason, schema)
        if progress is not None:
            progress(so_far.looked - looked)
    return so_far


def _above(conn: Connection[Any], filter: Filter, schema: str) -> UUID | None:
    """Just above the newest row that matches: what is enqueued from here on was not counted and is left alone."""
    found = finding.Ids([], None, 0, False)
    while not found.ids and not found.done:
        with conn.transaction():
            found = run(conn, finding.ids(filter, before=found.next, n=1), schema)
    return UUID(int=found.ids[0].int + 1) if found.ids else None


def _batch(
    conn: Connection[Any], so_far: Done, filter: Filter, before: UUID | None, n: int, reason: str, schema: str
) -> tuple[Done, UUID | None]:
    """One batch and what the audit says of it, both or neither; and where the next one begins."""
    left = so_far.matched - so_far.looked
    with conn.transaction():
        found = run(conn, finding.ids(filter, before=before, n=min(n, left)), schema) if left else NOTHING
        changed = _change(conn, so_far.verb, found.ids, reason, schema) if found.ids else 0
        over = found.done or len(found.ids) == left
        run(conn, acts.mark(so_far.action, changed, done=over), schema)
    skipped = so_far.skipped + len(found.ids) - changed
    return so_far._replace(changed=so_far.changed + changed, skipped=skipped, done=over), found.next


def _change(conn: Connection[Any], verb: str, ids: Sequence[UUID], reason: str, schema: str) -> int:
    """How many of these were changed; if one stays locked, each by itself: it must not cost others their leases."""
    run(conn, acts.lock_within(LOCK_SECONDS), schema)
    on, n = VERBS[verb].on, 0
    with contextlib.suppress(LockNotAvailable), conn.transaction():
        return len(run(conn, on(ids, reason), schema))
    for id in ids:
        with contextlib.suppress(LockNotAvailable), conn.transaction():
            n += len(run(conn, on([id], reason), schema))
    return n


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
        action = run(conn, acts.note(actor.name, actor.via, verb, target, reason), schema)
        answer = run(conn, statement, schema)
        run(conn, acts.mark(action, 0 if answer is False else 1, done=True), schema)
    return answer


def _because(otherwise: str, reason: str) -> dict[str, str]:
    """What the row remembers as its last error."""
    return {"reason": f"{otherwise}: {reason}" if reason else otherwise}
