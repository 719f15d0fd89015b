"""Why a row runs or does not run: one question, answered in one sentence for people."""

from __future__ import annotations

import math
import re
from datetime import UTC
from uuid import UUID

from ..errors import telling_line
from ..model.envelope import ENCRYPTED_WITH
from ..model.handoff import MOVED
from ..model.rows import NO_HANDLER
from ..model.shell import command
from ..model.times import day_and_time
from ..sql import in_schema, text
from .obstacles import locked, obstacle, standstill
from .statement import Statement
from .why_facts import Facts, counted
from .why_facts import spoken as spoken

NO_ROW = "it was deleted, its retention is over, or its transaction is not committed yet"  # nobody can tell which
GIVEN_BACK = {ENCRYPTED_WITH: "give its workers that key", NO_HANDLER: "start a worker that has it"}
OF_THE_CODE = ("definition differs:", "no worker for version ")  # of a flow, which waits for a deploy
LATE_SECONDS = 60.0  # a sweep that was last done this long ago is not about to come


def why(id: UUID) -> Statement[str]:
    """One sentence: who holds the row, or what it waits for, and what happens next."""
    return Statement("why", {"id": id}, lambda rows: sentence(Facts(*rows[0])) if rows else no_row(id))


def no_row(id: UUID) -> str:
    """The answer about an id that no row has."""
    return f"There is no row {id}: {NO_ROW}."


def why_in_sql(id: UUID, schema: str) -> str:
    """The SQL of the question, for psql."""
    return re.sub(r":id\b", f"'{id}'", in_schema(text("why"), schema)).rstrip() + ";"


def sentence(row: Facts) -> str:
    """The answer for people."""
    if row.status == "processing":
        return _in_run(row) if row.head is not None else _held(row)
    if row.status == "pending":
        return _behind(row) if row.head is not None else _waiting(row)
    back = f"{_back(row)}{_blocked(row)}"
    return {
        "completed": f"It was completed by {row.worker} on attempt {row.attempts}.",
        "cancelled": f"It was cancelled ({row.last_error}); it will not run.",
        "failed": f"It failed for good on attempt {row.attempts} ({row.error}); {back}.",
        "dead_letter": f"It is a dead letter after {row.attempts} of {row.max_attempts} attempts "
        f"({row.error}); {back}.",
    }[row.status]


def _back(row: Facts) -> str:
    """What a redrive does; and of a flow that has not undone what it did, what does that instead."""
    if row.flow == "undone":
        return "what it did is undone, and redrive begins it again, as its next run"
    if row.flow == "undoing":
        return "redrive goes on undoing where it stopped"
    if row.flow is None:
        return "redrive brings it back"
    goes = "redrive goes on from its records"
    if row.failed_of:
        how, _, kind = row.failed_of.partition(":")
        goes = f"redrive what failed of its {how} of {kind} and let it end, then this one, which looks at it again"
    elif row.failed:
        goes = f"redrive tries step {row.failed} again"
    return f"{goes}, `tenure flow cancel` undoes what it did" if row.status == "dead_letter" else goes


def _blocked(row: Facts) -> str:
    return f", and its ordered key waits until then, or for `{_free(row)}`" if row.blocks else ""


def _free(row: Facts) -> str:
    return command("tenure", "queues", "free", row.queue, row.partition_key)


# -- a processing row


def _holder(row: Facts) -> str:
    status = f" ({row.worker_status})" if row.worker_status not in (None, "alive") else ""
    return f"worker {row.worker}{status}" + (", which was asked to cancel it" if row.cancel_asked else "")


def _in_run(row: Facts) -> str:
    """Claimed together with earlier rows of its key, which are done first."""
    before = f"row {row.head} of the ordered key {row.partition_key!r}"
    return f"It waits for its turn in a run of {_holder(row)}, behind {before}; `tenure why {row.head}` says more."


def _held(row: Facts) -> str:
    holder, attempt, left = _holder(row), f"attempt {row.attempts} of {row.max_attempts}", row.seconds_left or 0.0
    if left <= 0:
        return f"Its lease under {holder} ran out {spoken(-left)} ago, {attempt}; {_sweep(row)}."
    if row.gone or row.worker_status == "dead":
        back = f"it comes back after the grace (6 s by default), or when its lease ends in {spoken(left)}"
        return f"It is held by {holder}, whose session is gone, {attempt}; {_nobody_else(row) or back}."
    ends = "it ends the row or gives it back" if row.worker_status == "draining" else "a living worker renews that"
    heard = "" if row.seen_seconds is None else f", and this one was last heard from {spoken(row.seen_seconds)} ago"
    return f"It is held by {holder} for another {spoken(left)}, {attempt}; {ends}{heard}."


def _sweep(row: Facts) -> str:
    """What ends the attempt of a lease that is over."""
    then = "ends it as a dead letter" if row.attempts >= row.max_attempts else "returns it to pending"
    if row.cancel_asked:
        then = "ends it as cancelled"
    if nobody := _nobody_else(row):
        return f"{nobody}, and the sweep {then}"
    if who := locked(row):
        return f"{who}: the next sweep after that {then}"
    every, swept = row.sweep_every_seconds or 0.0, row.swept_seconds
    if swept is not None and swept > 3 * every + LATE_SECONDS:
        return f"the last sweep was {spoken(swept)} ago: see `tenure doctor`; the next one {then}"
    return f"the next sweep, every {spoken(every)}, {then}"


def _nobody_else(row: Facts) -> str:
    """Whether anybody is there to take a row back from a worker that is not."""
    return "" if any(peer.here for peer in row.peers) else "no worker is alive to take it back: start one"


# -- a pending row


def _behind(row: Facts) -> str:
    """Another row of its ordered key comes first."""
    first = f"It waits behind row {row.head} ({row.head_status}) of the ordered key {row.partition_key!r}"
    more = f"`tenure why {row.head}` says more"
    late = ", which had begun before this one was committed" if row.head_later else ""
    if row.head_status == "processing":
        return f"{first}{late}, held by worker {row.head_worker}; {more}."
    if row.head_status != "pending":
        return f"{first}, which keeps its key; redrive or delete that one, or `{_free(row)}`."
    again = f"{'tried again' if row.head_attempts else 'due'}"
    wait = row.head_seconds_to_wait or 0.0
    if wait > 0:
        when = "never due" if wait == math.inf else f"{again} in {spoken(wait)}"
        return f"{first}{late}, which is {when}; {more}."
    return f"{first}{late}, which is {again} now{standstill(row)}; {more}."


def _waiting(row: Facts) -> str:
    so_far = f" after {row.attempts} of {row.max_attempts} attempts ({row.error})" if row.attempts else ""
    for reason, mend in GIVEN_BACK.items():
        if (row.last_error or "").startswith(reason):
            so_far += f"; a worker gave it back ({row.error}): {mend}, then `tenure retry` makes it due"
    if (row.last_error or "").startswith(OF_THE_CODE) and row.seconds_to_wait > 0:
        return f"It is looked at again in {spoken(row.seconds_to_wait)}, because {telling_line(row.last_error)}."
    if row.batch is not None and row.seconds_to_wait > 0:
        rest = f"{row.batch_open or 0:,} of {row.batch_size:,}"
        return f"It waits for {rest} of its batch; `tenure batch {row.batch}` says more."
    if (row.last_error or "").startswith(MOVED) and row.seconds_to_wait > 0:
        return f"It waits, because {row.last_error}; `tenure doctor --citus` says more."
    if row.step is not None and row.step_until is not None and row.seconds_to_wait > 0:
        return f"It {_step(row)}; `tenure flow show` says more."
    if row.seconds_to_wait == math.inf:
        return f"It is never due{so_far}: its time is infinity; `tenure retry` makes it due."
    if row.seconds_to_wait > 0:
        return f"It is due in {spoken(row.seconds_to_wait)}{so_far}{standstill(row)}."
    return f"It has been due for {spoken(row.due_seconds)}{so_far}{obstacle(row)}."


def _step(row: Facts) -> str:
    """What a flow waits for: a signal, a time, or the next try of a step."""
    word, _, name = (row.step or "").partition(":")
    assert row.step_until is not None
    since, until = spoken(row.step_seconds or 0.0), day_and_time(row.step_until.astimezone(UTC), clock="%H:%M UTC")
    if row.step_tried:
        return f"tries step {row.step} again at {until}, after {counted(row.step_tries or 1, 'attempt')}"
    if word == "wait":
        return f"waits for signal {name} since {since}, until {until}"
    return f"sleeps since {since}, until {until}"
