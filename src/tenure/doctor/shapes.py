"""Checks of batches, of the journal, of projections and of webhooks."""

from __future__ import annotations

import shlex

from ..verbs.batches import FoundLost
from ..verbs.endpoints import EndpointStates
from ..verbs.journal import JournalFacts
from ..verbs.projections import ENDED, ShardLag
from ..verbs.questions import spoken
from .finding import Finding

HELD_SECONDS_MAX = 60.0  # how long an open transaction may hold readers back
LAG_SECONDS_MAX = 300.0


def batches(seen: FoundLost, schema: str) -> Finding:
    """Whether every open batch can end: a row that was deleted in the table itself was not counted."""
    value = {"batches": len(seen.found), "rows": sum(each.lost for each in seen.found)}
    if not seen.found:
        said = "no open batch waits for a row that is gone"
        if seen.more:
            said = f"none of the oldest {seen.looked_at} open batches waits for a row that is gone; more are open"
        return Finding("batches", "ok", value, said)
    first = seen.found[0]
    said = f"batch {first.id} waits for rows that are gone: {first.lost} were deleted by SQL, not by `tenure delete`"
    marks, n = ",".join(map(str, first.marks)), len(first.marks)
    count = f"SELECT {schema}.count_ends('{{{marks}}}', array_fill('cancelled'::text, '{{{n}}}'))"
    return Finding("batches", "fault", value, said, f"count them as cancelled, once: {count}; then run doctor again")


def journal(facts: JournalFacts) -> Finding:
    """Whether every event will be read, and who keeps readers waiting."""
    value = {"held_back": facts.held_back, "pid": facts.pid, "seconds": round(facts.held_seconds or 0.0, 1)}
    if facts.cache != 1:
        said = f"the sequence of positions has CACHE {facts.cache}: sessions would keep numbers below the horizon"
        return Finding("journal", "fault", value, said, "ALTER SEQUENCE journal_position CACHE 1, in its schema")
    if facts.open_partitions:
        said = f"others than the owner may insert into {', '.join(facts.open_partitions)}"
        return Finding(
            "journal", "fault", value, said, "REVOKE INSERT there: events are appended by the function alone"
        )
    if facts.held_seconds is None:
        return Finding("journal", "ok", value, f"readable up to its last position, {facts.last}")
    who = "a prepared transaction" if facts.prepared else f"session {facts.pid}"
    said = (
        f"{who} has appended and been open for {spoken(facts.held_seconds)}: {facts.held_back} positions wait behind it"
    )
    if facts.held_seconds > HELD_SECONDS_MAX:
        step = "COMMIT PREPARED or ROLLBACK PREPARED it" if facts.prepared else "let it commit, or end it"
        return Finding("journal", "warn", value, said, f"{step}: readers and projections wait")
    return Finding("journal", "ok", value, said)


def projections(shards: list[ShardLag]) -> Finding:
    """Whether projections keep up."""
    stopped = [each for each in shards if each.state == "stopped"]
    failing = [each for each in shards if each.error and each.state != "stopped"]
    late = [each for each in shards if each.shard >= 0 and each.lag_seconds > LAG_SECONDS_MAX and not each.paused]
    rowless = [each for each in shards if each.state == "no_row"]
    unserved = [each for each in shards if each.state == "no_worker" and not each.paused]
    value = {"shards": len(shards), "stopped": len(stopped), "failing": len(failing), "late": len(late)}
    value |= {"no_row": len(rowless), "no_worker": len(unserved)}
    if stopped:
        first = stopped[0]
        said = f"{first.projection} has stopped at event {first.stopped_at}: {(first.error or '')[:80]}"
        step = f"mend it, then `tenure projections resume {first.projection}`, or skip the event"
        return Finding("projections", "fault", value, said, step)
    if rowless:
        return Finding("projections", "fault", value, *_rowless(rowless[0]))
    if unserved and not any(each.state in ENDED for each in failing):
        names = ", ".join(sorted({each.projection for each in unserved})[:3])
        queues = ",".join(sorted({each.queue for each in unserved})[:3])
        step = f"`tenure worker MODULE:INBOX --queues {shlex.quote(queues)}`"
        return Finding("projections", "warn", value, f"no worker serves {names}: no event is applied", step)
    if failing:
        failing.sort(key=lambda each: each.state not in ENDED)
        return Finding("projections", "warn", value, *_failing(failing[0]))
    if late:
        worst = max(late, key=lambda each: each.lag_seconds)
        said = f"{worst.projection} is {spoken(worst.lag_seconds)} behind"
        step = "run a worker that serves its queue, give it more shards, or end the append that `journal` names"
        return Finding("projections", "warn", value, said, step)
    return Finding("projections", "ok", value, f"{len(shards)} shards, none stopped, none late")


def _failing(shard: ShardLag) -> tuple[str, str]:
    """What is said of a job that fails, though no event stops it, and the next step."""
    name, error = shard.projection, (shard.error or "")[:80]
    who = f"the rebuild of {name}" if shard.shard < 0 else f"shard {shard.shard} of {name}"
    if shard.state == "waiting":
        return (
            f"{who} waits: {error}",
            f"mend it: it is tried again by itself, and now by `tenure projections resume {name}`",
        )
    if shard.state not in ENDED:
        return f"{who} fails: {error}", "mend it: it is tried again by itself"
    return f"{who} has ended: {error}", f"mend it, then {_again(shard)}: it goes on where it was"


def _rowless(shard: ShardLag) -> tuple[str, str]:
    who = f"the rebuild of {shard.projection}" if shard.shard < 0 else f"shard {shard.shard} of {shard.projection}"
    said = f"{who} has no row, somebody deleted it: {shard.behind} positions wait, and no worker can take it"
    return said, f"{_again(shard)}: it goes on where it was"


def _again(shard: ShardLag) -> str:
    return f"`tenure projections {'rebuild' if shard.shard < 0 else 'resume'} {shard.projection}`"


def webhooks(states: EndpointStates) -> Finding:
    """Whether endpoints are called, and whether their secrets are sealed."""
    every = states.active + states.tripped + states.paused + states.disabled
    endpoints = f"{every} endpoint{'s' * (every != 1)}"
    off = [
        f"{n} {words}" for n, words in ((states.tripped, "with an open circuit"), (states.disabled, "disabled")) if n
    ]
    said, steps = [], []
    if off:
        said.append(f"{endpoints}, {' and '.join(off)}")
        steps.append("`tenure hooks` names them with what they answered; `tenure hooks resume ID` calls one again")
    if states.in_clear:
        said.append(f"{states.in_clear} of {endpoints} with a secret in clear")
        steps.append("give the inbox a codec, then `tenure hooks rotate ID --app MODULE:INBOX`")
    if said:
        return Finding("webhooks", "warn", states._asdict(), "; ".join(said), "; ".join(steps))
    return Finding("webhooks", "ok", states._asdict(), f"{endpoints}, none failing, every secret sealed")
