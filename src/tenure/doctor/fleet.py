"""Checks of the workers: what they do, what they leave undone, and what they cannot run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..model.envelope import ENCRYPTED_WITH
from ..model.filter import Filter
from ..model.rows import NO_HANDLER, BlockedKey, Row
from ..model.shell import command, quoted
from ..verbs.questions import Member, spoken, waiting_of
from ..verbs.queues import Queue
from ..verbs.search import Overview
from .finding import Finding
from .questions import Chore

LATE_SECONDS_MIN = 60.0  # a chore may be this late, however often it runs
LAG_SECONDS = 300.0
KEYS_MAX = 10_000  # of all blocked ordered keys; most of them only wait for their time
LEFT = Filter(statuses=("pending",), error=ENCRYPTED_WITH)
TURNED_AWAY = Filter(statuses=("pending",), error=NO_HANDLER)


def housekeeping(found: list[Chore], alive: int) -> Finding:
    """Whether every chore was done in time."""
    late = [
        each
        for each in found
        if each.ran_seconds is None or each.ran_seconds > 3 * each.every_seconds + LATE_SECONDS_MIN
    ]
    value = {each.name: each.ran_seconds for each in found}
    if not late:
        return Finding("housekeeping", "ok", value, f"{len(found)} chores, each done in its time")
    first = late[0]
    ago = "never done" if first.ran_seconds is None else f"last done {spoken(first.ran_seconds)} ago"
    said = f"{', '.join(each.name for each in late)}: {first.name} {ago}"
    if not alive:
        return Finding("housekeeping", "warn", value, f"{said}; no worker is alive to do it", "start a worker")
    return Finding(
        "housekeeping",
        "fault",
        value,
        said,
        "start a worker without --no-housekeeping; `tenure tail --filter chore_failed`",
    )


def leases(n: int, oldest_seconds: float) -> Finding:
    """Rows whose lease is over and that no sweep has ended."""
    if not n:
        return Finding("leases", "ok", 0, "no row is long past its lease")
    said = f"{n} rows are past their lease, the first since {spoken(oldest_seconds)}, and no sweep has ended them"
    return Finding("leases", "fault", n, said, "see `housekeeping`; `tenure why ID` for one of them")


def paused(queues: list[Queue]) -> Finding:
    """Queues that an operator has paused."""
    names = [queue.queue for queue in queues if queue.paused]
    if not names:
        return Finding("paused", "ok", [], "no queue is paused")
    said = f"paused: {', '.join(map(quoted, names))}"
    step = f"`{command('tenure', 'queues', 'resume', names[0])}`, if it should run"
    return Finding("paused", "warn", names, said, step)


def fleet(workers: list[Member]) -> Finding:
    """Which workers are alive, and whether they have one version."""
    alive = [worker for worker in workers if worker.status == "alive"]
    versions = sorted({_version(worker) for worker in alive})
    value = {"alive": len(alive), "versions": versions}
    if not alive:
        return Finding("fleet", "warn", value, "no worker is alive", "`tenure worker MODULE:INBOX`")
    gone = [worker.id for worker in alive if worker.present is False or worker.seen_seconds > 30]
    if gone:
        return Finding(
            "fleet",
            "warn",
            value,
            f"{len(alive)} alive, but not heard from lately: {', '.join(map(quoted, gone[:3]))}",
            "`tenure workers`",
        )
    if len(versions) > 1:
        said = f"{len(alive)} alive, of versions {', '.join(versions)}"
        return Finding("fleet", "warn", value, said, "fine during a deploy; after it, restart the older ones")
    return Finding("fleet", "ok", value, f"{len(alive)} alive, all of version {versions[0]}")


def schedules(workers: list[Member]) -> Finding:
    """Whether a schedule waits for its home, one of several inboxes, because that is away."""
    waiting = waiting_of(workers)
    if not waiting:
        return Finding("schedules", "ok", {}, "no schedule waits for an inbox that is away")
    said = ", ".join(f"{quoted(name)} in {quoted(home)}" for name, home in list(waiting.items())[:3])
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    told = f"schedules wait for their home, which does not answer the workers: {said}{more}"
    return Finding("schedules", "warn", waiting, told, "they go on when it is back: see its log")


def fires_twice(also_in: Mapping[str, list[str]], unseen: list[str]) -> Finding:
    """Whether schedules that fire in this inbox fire in others too; by the name of each, which those are.

    Of inboxes that did not answer nobody can know it.
    """
    twice = {name: inboxes for name, inboxes in also_in.items() if inboxes}
    if not twice and unseen:
        told = f"not known whether schedules of this inbox fire in {', '.join(map(quoted, unseen))} too: no answer"
        return Finding("homes", "warn", {}, told, "look again when all inboxes answer")
    if not twice:
        return Finding("homes", "ok", {}, "no schedule of this inbox fires in another one")
    said = ", ".join(f"{quoted(name)} in {', '.join(inboxes)}" for name, inboxes in list(twice.items())[:3])
    more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
    told = f"schedules fire here and in another inbox, so each tick comes twice: {said}{more}"
    return Finding("homes", "warn", twice, told, "start a worker with all of these inboxes: it keeps one home for each")


def unserved(lags: Mapping[str, float], queues: list[Queue], workers: list[Member]) -> dict[str, float]:
    """The queues with due rows that no living worker serves, and for how long; paused ones are meant to wait."""
    paused = {queue.queue for queue in queues if queue.paused}
    there = alive(workers)
    if any("queues" not in worker.metadata for worker in there):
        return {}  # one that does not say what it serves may serve all
    taken = paused.union(*(worker.metadata["queues"] for worker in there))
    return {queue: seconds for queue, seconds in lags.items() if queue not in taken}


def served(lags: Mapping[str, float], alone: Mapping[str, float]) -> Finding:
    """Whether some worker serves each queue with due rows."""
    if not alone:
        said = "every queue with due rows is served" if lags else "no row is due"
        return Finding("served", "ok", {}, said)
    first = max(alone, key=lambda queue: alone[queue])
    more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
    names = ", ".join(map(repr, sorted(alone)[:3])) + more
    said = f"no worker serves {names}, where rows have been due for {spoken(alone[first])}"
    step = f"`tenure worker MODULE:INBOX --queues {shlex.quote(','.join(sorted(alone)[:3]))}`"
    return Finding("served", "warn", dict(alone), said, step)


def _version(worker: Member) -> str:
    """What the worker says of itself: whoever may write its row may write anything."""
    said = str(worker.metadata.get("version", "?"))[:20]
    return said if said == "?" else quoted(said)


def alive(workers: list[Member]) -> list[Member]:
    """Those that are there."""
    return [worker for worker in workers if worker.status == "alive" and worker.present is not False]


def kinds(turned_away: list[Row], workers: list[Member], alone: Mapping[str, float]) -> Finding:
    """Whether rows are given back again and again because no worker of their queue has a handler for them.

    Of queues that no worker serves nobody can know it.
    """
    there = alive(workers)
    lost = [row for row in turned_away if _nobody_has(row, there)]
    names = sorted({row.kind for row in lost})
    if not names and alone:
        said = f"not known for queues that no worker serves ({len(alone)})"
        return Finding("kinds", "warn", [], said, "see `served`")
    if not names:
        return Finding("kinds", "ok", [], "no row waits for a handler that no worker has")
    said = f"rows cannot run: no worker of their queue has a handler for {', '.join(map(repr, names[:3]))}"
    return Finding("kinds", "warn", names, said, f"deploy one; `tenure why {lost[0].id}`")


def _nobody_has(row: Row, alive: list[Member]) -> bool:
    """Whether workers serve the row's queue and none has its kind; a worker that lists no kinds may have any."""
    serving = [worker.metadata for worker in alive if row.queue in worker.metadata.get("queues", [row.queue])]
    return bool(serving) and not any(row.kind in said.get("kinds", [row.kind]) for said in serving)


def encryption(left: list[Row]) -> Finding:
    """Rows that a worker gave back because it could not open their payload."""
    reasons = sorted({(row.last_error or "").splitlines()[0] for row in left})
    if not left:
        return Finding("encryption", "ok", [], "no row waits for an encryption key")
    rows = "1 row waits" if len(left) == 1 else f"{len(left)} rows wait"
    said = f"{rows} for an encryption key: {'; '.join(reasons[:3])}"
    step = f"give the key to the workers, then `tenure retry 'error:\"{ENCRYPTED_WITH}\"'`"
    return Finding("encryption", "fault", reasons, said, step)


def keys(stand_still: list[BlockedKey]) -> Finding:
    """Ordered keys that wait for an operator."""
    found = [each for each in stand_still if each.reason == "waits_for_operator"]
    value = [{"queue": each.queue, "key": each.partition_key, "waiting": each.waiting} for each in found]
    if not found:
        return Finding("keys", "ok", value, "no ordered key waits for an operator")
    who, behind = "1 key waits" if len(found) == 1 else f"{len(found)} keys wait", sum(each.waiting for each in found)
    names = ", ".join(f"{each.partition_key!r} of queue {each.queue!r}" for each in found[:3])
    said = f"{who} for an operator, {behind} row{'s' * (behind != 1)} behind: {names}"
    return Finding("keys", "warn", value, said, "`tenure queues blocked`, then redrive its head or free the key")


def lag(seen: Overview, alone: Mapping[str, float]) -> Finding:
    """How long the oldest runnable row has been due; not well if nobody will take it."""
    runnable = f"{seen.runnable.n}{'+' if seen.runnable.more else ''}"
    oldest_seconds = seen.oldest_runnable_seconds
    if oldest_seconds is None and seen.runnable.n:
        said = f"{runnable} due, none found runnable: other rows of their keys come first"
        return Finding("lag", "ok", None, said)
    if oldest_seconds is None:
        return Finding("lag", "ok", None, "no row is due")
    said = f"{runnable} runnable, the oldest for {spoken(oldest_seconds)}"
    if alone:
        return Finding("lag", "warn", oldest_seconds, f"{said}, and some that no worker serves", "see `served`")
    if oldest_seconds > LAG_SECONDS:
        return Finding("lag", "warn", oldest_seconds, said, "`tenure why ID` for one of `tenure rows status:runnable`")
    return Finding("lag", "ok", oldest_seconds, said)
