"""What keeps a due row from being claimed: the first cause that applies, and what to do about it."""

from __future__ import annotations

from ..model.shell import command
from .why_facts import Facts, Peer, counted, spoken

SOON_SECONDS = 10.0  # what is due for longer should have been claimed: a worker polls every 2 seconds
MOMENT_SECONDS = 1.0  # a claim under limits has the settings of its queue locked for less
NAME_CHARS = 63  # the server cuts the name of a session here
MANY = 1000  # rows before it are counted up to here


def obstacle(row: Facts) -> str:
    """The end of the sentence about a due row that nobody holds."""
    return standstill(row) or _locked(row) or _limit(row) or _slots(row)


def standstill(row: Facts) -> str:
    """Why nobody would claim it, even if it were due: its queue is paused, or no worker can take it."""
    if row.paused:
        return f", but the queue {row.queue!r} is paused: `{command('tenure', 'queues', 'resume', row.queue)}`"
    works = [peer for peer in row.peers if peer.works]
    serving = [peer for peer in works if peer.serves]
    if not works:
        draining = sum(peer.here for peer in row.peers)
        leaving = f" ({draining} draining)" if draining else ""
        return f", but no worker is alive{leaving}: start one with `tenure worker`"
    if not serving:
        return f", but no worker serves the queue {row.queue!r} ({len(works)} alive): start one with --queues"
    if not _able(row):
        has = f"no worker of its queue has a handler of kind {row.kind!r}"
        return f", but {has} ({len(serving)} alive): deploy one"
    return ""


def locked(row: Facts) -> str:
    """Who has locked the row in a transaction that is still open."""
    if row.locked_queue and (row.locked_seconds or 0.0) < MOMENT_SECONDS:
        return ""  # as every claim from a queue with limits does
    since = f" for {spoken(max(0.0, row.locked_seconds))}" if row.locked_seconds is not None else ""
    what = "the settings of its queue" if row.locked_queue else "it"
    if row.locked_in is not None:
        return f"the prepared transaction {row.locked_in!r} has locked {what}{since}"
    return f"{_session(row)} has locked {what}{since}" if row.locked_by is not None else ""


def _locked(row: Facts) -> str:
    if (worker := _thread(row, "claimer")) and not row.locked_queue:
        return f", and worker {worker} is claiming it at this moment"
    then = "claims from it wait" if row.locked_queue else "claims pass it by"
    return f", but {who}: {then} until that ends" if (who := locked(row)) else ""


def _session(row: Facts) -> str:
    """Who has locked it: a part of Tenure by what it is, anybody else by process."""
    for name in ("claimer", "lease_keeper", "housekeeper"):
        if worker := _thread(row, name):
            return f"worker {worker} ({name.replace('_', ' ')})"
    process = f"process {row.locked_by} of the server"
    ours, _, part = (row.locked_name or "").partition(" ")
    if ours != "tenure" or not part:
        return process
    return f"a handler ({process})" if part == "handler" else f"`tenure {part.split(' ')[0]}`"


def _thread(row: Facts, name: str) -> str:
    """The worker whose thread this session is, if it is one."""
    told = row.locked_name or ""
    _, ours, worker = told.partition(f"tenure {name} ")
    if not ours or len(told) < NAME_CHARS:
        return worker
    return next((peer.id for peer in row.peers if peer.id.startswith(worker)), worker)


def _able(row: Facts) -> list[Peer]:
    return [peer for peer in row.peers if peer.works and peer.serves and peer.has_kind]


def _limit(row: Facts) -> str:
    if row.max_running == 0:
        return f", but the queue {row.queue!r} has no share of its limit over all inboxes here: see `tenure queues`"
    if row.max_running is not None and row.running >= row.max_running:
        return f", but the queue {row.queue!r} is at its limit: {row.running} of {row.max_running} are processing"
    if row.max_per_key is not None and row.running_of_key >= row.max_per_key:
        room = f"{row.running_of_key} of {row.max_per_key} are processing"
        return f", but the key {row.partition_key!r} is at its limit: {room}"
    if row.tokens is not None and row.tokens < 1 and row.rate_per_second:
        rate = f"{row.rate_per_second:g} rows a second"
        next_one = spoken((1 - row.tokens) / row.rate_per_second)
        return f", but the queue {row.queue!r} starts no more than {rate}: the next one in {next_one}"
    return ""


def _slots(row: Facts) -> str:
    """Who could take it, and what they have to do first."""
    able = _able(row)
    of_whom = counted(len(able), "worker")
    if any(peer.slots is None for peer in able):
        return f" and waits for a free slot of {of_whom}{_ahead(row)}"
    slots, taken = sum(peer.slots or 0 for peer in able), sum(peer.slots_taken for peer in able)
    if taken >= slots:
        return f", but all {slots} slots of {of_whom} are taken{_ahead(row)}: more workers or slots start it sooner"
    if row.urgent or row.before:
        return f" and waits for one of {slots} slots{_ahead(row)}"
    if row.owners and not any(owner.here for owner in row.owners):
        lost = f"worker {row.owners[0].id}, whose session is gone"
        return f", but its bucket {row.bucket} is with {lost}: the others find it at their next poll"
    if row.arrived:
        return ", and its key has just changed: it starts with the next claim"
    if row.due_seconds <= SOON_SECONDS:
        return f" and starts with the next claim: {slots - taken} of {slots} slots are free"
    return _unknown(row, able, slots)


def _unknown(row: Facts, able: list[Peer], slots: int) -> str:
    """It should have been claimed long ago: what the workers themselves say, and where to look."""
    if sum(peer.slots_used or 0 for peer in able) >= slots:
        told = f"{spoken(max(peer.seen_seconds for peer in able))} ago all {slots} slots were taken"
        return f", but {told}, some of them by handlers that have lost their rows and not returned"
    who = next((owner.id for owner in row.owners if owner.here), able[0].id)
    look = f"see `tenure doctor` and the log of worker {who}"
    return f", and nothing known stands in its way: if it was not committed a moment ago, {look}"


def _ahead(row: Facts) -> str:
    """How many due rows of its queue come first."""
    n = min(row.urgent + row.before, MANY)
    if not n:
        return ""
    urgent = f", {min(row.urgent, MANY)} of a higher priority" if row.urgent else ""
    return f", behind {n}{'+' if n == MANY else ''} due row{'s' * (n != 1)} of its queue{urgent}"
