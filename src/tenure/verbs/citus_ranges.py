"""What inboxes of a Citus cluster ask each other when a range of ordered keys moves, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model.handoff import Decision, Left, Waiting
from .statement import Statement, array, text_array


class Neighbour(NamedTuple):
    """Another inbox of the cluster; without an address if the cluster knows it no more."""

    inbox: int
    host: str | None
    port: int | None


class Adopted(NamedTuple):
    """How many ranges are at home from now on, and how many rows have become due."""

    ranges: int
    rows: int


def neighbours() -> Statement[list[Neighbour]]:
    """Every inbox that the door has ever led to, but this one."""
    return Statement("neighbours", {}, lambda rows: [Neighbour(*each) for each in rows])


def waiting_ranges() -> Statement[list[Waiting]]:
    """The ranges that have come here and are not at home, and those that rows wait for."""
    return Statement("waiting_ranges", {}, lambda rows: [Waiting(*each) for each in rows])


def left_of_ranges(ranges: Sequence[int]) -> Statement[list[Left]]:
    """What this inbox still has of these ranges."""
    return Statement("left_of_ranges", {"ranges": array(ranges)}, lambda rows: [Left(*each) for each in rows])


def adopt_ranges(decision: Decision) -> Statement[Adopted]:
    """Make due what may begin, and at home what is free."""
    params = {
        "ranges": array([each.range for each in decision.steps]),
        "placed": array([each.placed for each in decision.steps]),
        "free": array([each.free for each in decision.steps]),
        "upto": text_array([each.upto.isoformat() for each in decision.steps]),
        "theirs": decision.theirs,
    }
    return Statement("adopt_ranges", params, lambda rows: Adopted(*rows[0]))


def note_waiting(reasons: Mapping[int, str]) -> Statement[int]:
    """Write down at rows that wait why they do; how many did not have it yet."""
    params = {"ranges": array(list(reasons)), "reasons": text_array(list(reasons.values()))}
    return Statement("note_waiting", params, lambda rows: int(rows[0][0]))


class Shard(NamedTuple):
    """One inbox of the cluster, in numbers."""

    epoch: int
    home: int
    waiting: int
    depth: int
    dead: int
    oldest_seconds: float | None
    workers: int
    reason: str | None


def shard() -> Statement[Shard]:
    """The inbox of this connection."""
    return Statement("shard", {}, lambda rows: Shard(*rows[0]))


def takers(inbox: int) -> Statement[int]:
    """On the coordinator: how many other nodes may have ranges."""
    return Statement("takers", {"inbox": inbox}, lambda rows: int(rows[0][0]))


def drain_node(inbox: int) -> Statement[tuple[str, int]]:
    """On the coordinator: every range of a node goes elsewhere; where the node is."""
    return Statement("drain_node", {"inbox": inbox}, lambda rows: (str(rows[0][0]), int(rows[0][1])))


def gets_ranges(inbox: int) -> Statement[bool]:
    """On the coordinator: whether the node of this inbox may have ranges; a drain takes that from it."""
    return Statement("gets_ranges", {"inbox": inbox}, lambda rows: bool(rows[0][0]))


class LastLook(NamedTuple):
    """Whether nobody is about to send this inbox a row, and how many ranges are there."""

    alone: bool
    ranges: int


def last_look() -> Statement[LastLook]:
    """In a transaction: if nobody sends a row to this inbox, nobody does until the transaction ends."""
    return Statement("last_look", {}, lambda rows: LastLook(*rows[0]))


def forget_inbox(inbox: int) -> Statement[bool]:
    """The door leads there no more; False if it did not."""
    return Statement("forget_inbox", {"inbox": inbox}, bool)
