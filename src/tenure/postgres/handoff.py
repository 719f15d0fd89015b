"""The handoff of ordered keys on Citus: an inbox asks all others before it begins with a range that has moved to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from psycopg import Error

from ..errors import TenureError
from ..model.handoff import Decision, Left, decide
from ..verbs.citus_ranges import (
    Adopted,
    Neighbour,
    adopt_ranges,
    left_of_ranges,
    neighbours,
    note_waiting,
    waiting_ranges,
)
from .citus_door import Node, named_in_errors, node_urls
from .connection import QueueConnection, connect
from .patience import Patience
from .runner import run

CHORE, SECONDS = "door:adopt", 10.0
PATIENCE = Patience(silence_seconds=2, statement_seconds=5)


class Handoff(NamedTuple):
    """What one round did: ranges at home and rows due, and why other ranges wait."""

    adopted: Adopted
    reasons: dict[int, str]

    def __str__(self) -> str:
        said = [f"{n} {what}" for n, what in zip(self.adopted, ("ranges", "rows"), strict=True) if n]
        return ", ".join([*said, *([f"{len(self.reasons)} ranges wait"] if self.reasons else [])])


def adopt(conn: QueueConnection, url: str, schema: str, without: Collection[str] = ()) -> Handoff:
    """Adopt what can be adopted in the inbox of this connection. An inbox that does not answer is a no.

    `without` names inboxes whose silence is no no: an operator says that they are lost. One that answers is not.
    """
    waiting = run(conn, waiting_ranges(), schema)
    if not waiting:
        return Handoff(Adopted(0, 0), {})
    asked = run(conn, neighbours(), schema)
    left = {str(each.inbox): _left_in(each, url, schema, [every.range for every in waiting]) for each in asked}
    answers = {inbox: found for inbox, found in left.items() if found is not None}
    decision = decide(waiting, answers, [inbox for inbox in left if inbox not in answers and inbox not in without])
    with conn.transaction():
        adopted = run(conn, adopt_ranges(decision), schema) if decision.steps else Adopted(0, 0)
        _note(conn, schema, decision)
    return Handoff(adopted, decision.reasons)


def adopt_all(url: str, schema: str) -> dict[str, Handoff]:
    """One round in every inbox of the cluster, by name."""
    done = {}
    for inbox, place in node_urls(url, schema).items():
        with (
            named_in_errors(inbox),
            connect(place, application_name="tenure adopt", patience=PATIENCE, writes=True) as conn,
        ):
            done[inbox] = adopt(conn, place, schema)
    return done


def kept_there(conn: QueueConnection, url: str, schema: str, inbox: int) -> str | None:
    """A key that this inbox waits for and another one still has rows of; None if it has none, or does not answer."""
    ranges = [each.range for each in run(conn, waiting_ranges(), schema)]
    asked = [each for each in run(conn, neighbours(), schema) if each.inbox == inbox]
    found = [left for each in asked for left in _left_in(each, url, schema, ranges) or []] if ranges else []
    return next((left.at_work for left in found if left.at_work is not None), None)


def _note(conn: QueueConnection, schema: str, decision: Decision) -> None:
    if decision.reasons:
        run(conn, note_waiting(decision.reasons), schema)


def _left_in(inbox: Neighbour, url: str, schema: str, ranges: Sequence[int]) -> list[Left] | None:
    """What another inbox has; None if it does not say."""
    if inbox.host is None or inbox.port is None:
        return None
    place = Node(inbox.inbox, inbox.host, inbox.port).url(url)
    try:
        with connect(place, application_name="tenure adopt", patience=PATIENCE, writes=True) as conn:
            return run(conn, left_of_ranges(ranges), schema)
    except (Error, TenureError):
        return None
