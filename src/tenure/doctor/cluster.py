"""Checks of a Citus cluster: can it commit on two nodes, has every node an inbox, does the door lead there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ..model.handoff import SILENT
from ..postgres import migrate
from ..postgres.citus_door import check_cluster, door_of, text_of
from ..postgres.connection import connect
from ..postgres.patience import Patience
from .finding import Finding

DELEGATED = {"put", "put_many", "take_key", "note_key"}
STATEMENT_SECONDS = 10.0
CLOCK_SECONDS_MAX = 1.0
HANDOFF_SECONDS_MAX = 30.0  # the chore comes every ten seconds; what takes longer waits for somebody
WORK_OFF = "let workers work off what is named; a dead letter that keeps its key is redriven or deleted"
GIVE_UP = (
    f"bring that inbox back; {WORK_OFF}; if it is lost for good, `tenure shards adopt --without` goes on without it"
)
MIGRATE = "run `tenure migrate --citus` on the coordinator"


class NodeFacts(NamedTuple):
    """What one node says of itself."""

    group: int
    place: str
    has_rows: bool
    answers: bool | None
    facts: dict[str, Any]
    migration: int | None
    here: datetime
    waiting: dict[str, Any] | None = None


def examine_cluster(url: str, schema: str) -> Iterator[Finding]:
    """Every finding about the cluster; raises if the coordinator does not answer."""
    patience = Patience(statement_seconds=STATEMENT_SECONDS)
    with connect(url, application_name="tenure doctor", patience=patience) as conn:
        has_door, _ = check_cluster(conn, schema)
        unlisted = [place for (place,) in conn.execute(text_of("unlisted", schema))] if has_door else []
        nodes = [NodeFacts(*each) for each in conn.execute(text_of("facts", schema, named=schema)).fetchall()]
        yield nodes_there(nodes)
        yield preparing(nodes)
        yield prepared_left(nodes)
        yield clocks(nodes)
        if closed := [node.place for node in _answering(nodes) if node.facts.get("closed")]:
            yield may_not_look(closed)
        else:
            yield inboxes(nodes, unlisted)
            yield ranges(nodes)
        yield door(schema, {name for (name,) in conn.execute(text_of("delegated", schema))} if has_door else None)


def nodes_there(nodes: Sequence[NodeFacts]) -> Finding:
    """Does every node answer?"""
    away = [node.place for node in nodes if not node.answers]
    if away:
        said = f"{_named(away)} of {len(nodes)} nodes does not answer the coordinator"
        return Finding("nodes", "fault", away, said, "rows of its keys wait until it is back: see its log")
    return Finding("nodes", "ok", len(nodes), f"{len(nodes)} nodes answer")


def preparing(nodes: Sequence[NodeFacts]) -> Finding:
    """Can a transaction be committed on two nodes?"""
    without = [node.place for node in _answering(nodes) if not node.facts["can_prepare"]]
    if without:
        said = f"max_prepared_transactions is 0 on {_named(without)}: no transaction can have two nodes"
        return Finding("prepared", "fault", without, said, "set it to 200 or more there, and restart the server")
    return Finding("prepared", "ok", None, "every node can prepare transactions")


def prepared_left(nodes: Sequence[NodeFacts]) -> Finding:
    """Is a transaction still prepared that nobody ends? Its rows are hidden or locked, and ordered ones are refused."""
    left = {node.place: node.facts["left"] for node in _answering(nodes) if node.facts["left"]}
    if left:
        since = "for over a minute, or since before the server's restart"
        said = f"{sum(left.values())} transactions are prepared {since}, on {_named(list(left))}"
        return Finding("prepared_left", "warn", left, said, "run SELECT recover_prepared_transactions() on every node")
    return Finding("prepared_left", "ok", 0, "no transaction was left prepared")


def clocks(nodes: Sequence[NodeFacts]) -> Finding:
    """Leases of an inbox go by the clock of its node; rows are merged by time."""
    told = [float(node.facts["clock"]) for node in _answering(nodes)]
    apart = max(told, default=0.0) - min(told, default=0.0)
    if apart > CLOCK_SECONDS_MAX:
        return Finding("clocks", "warn", apart, f"the clocks of the nodes are {apart:.1f} s apart", "synchronise them")
    return Finding("clocks", "ok", apart, f"the clocks of the nodes are within {CLOCK_SECONDS_MAX:g} s")


def inboxes(nodes: Sequence[NodeFacts], unlisted: Sequence[str] = ()) -> Finding:
    """Has every node with rows an inbox of this version, that workers know? `unlisted` have none of those."""
    need, at = migrate.newest(), {node.place: node.migration for node in _answering(nodes) if node.has_rows}
    if missing := [place for place, migration in at.items() if migration is None]:
        said = f"{_named(missing)} has rows of the cluster and no inbox: what goes there is refused"
        return Finding("inboxes", "fault", at, said, MIGRATE)
    if unlisted:
        said = f"{_named(unlisted)} has ranges of keys, or is to have some, and its inbox is not known to workers"
        return Finding("inboxes", "fault", at, f"{said}: what goes there is refused", MIGRATE)
    if other := [place for place, migration in at.items() if migration != need]:
        return Finding("inboxes", "fault", at, f"{_named(other)} is not at migration {need}", MIGRATE)
    return Finding("inboxes", "ok", at, f"{len(at)} inboxes at migration {need}")


def may_not_look(places: Sequence[str]) -> Finding:
    """This login has no right to see what is in the inboxes: nothing is said of them."""
    said = f"this login may not look into the inbox on {_named(places)}: inboxes and ranges were not checked"
    return Finding("rights", "warn", list(places), said, "run this as the owner, or as a member of the role readonly")


def ranges(nodes: Sequence[NodeFacts]) -> Finding:
    """Do ordered rows wait because the range of their key has moved, and for whom?"""
    if without := [node.place for node in _answering(nodes) if node.migration is not None and node.waiting is None]:
        said = f"{_named(without)} does not hand over the order of keys"
        return Finding("ranges", "fault", without, said, MIGRATE)
    waits = {node.place: node.waiting for node in nodes if node.waiting and node.waiting["rows"]}
    long = {place: each for place, each in waits.items() if each["seconds"] > HANDOFF_SECONDS_MAX}
    told = "; ".join(
        f"{each['rows']} ordered rows wait on {place}, {each['seconds']:.0f} s so far: {each['reason']}"
        for place, each in (long or waits).items()
    )
    if long:
        lost = any(SILENT in each["reason"] for each in long.values())
        return Finding("ranges", "warn", waits, told, GIVE_UP if lost else WORK_OFF)
    return Finding("ranges", "ok", waits, told or "no ordered row waits for the range of its key")


def door(schema: str, delegated: set[str] | None) -> Finding:
    """Does Citus still run the door's functions on the node of their key?"""
    name = door_of(schema)
    if delegated is None:
        return Finding("door", "fault", None, f"there is no schema {name}", MIGRATE)
    if lost := sorted(DELEGATED - delegated):
        said = f"{' and '.join(f'{name}.{each}' for each in lost)} is not delegated: rows of other nodes are refused"
        return Finding("door", "fault", lost, said, MIGRATE)
    return Finding("door", "ok", sorted(delegated), f"{name} leads each row to the node of its key")


def _answering(nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    return [node for node in nodes if node.answers and node.facts]


def _named(places: Sequence[str]) -> str:
    return ", ".join(places)
