"""What a failover did, asked on the server that came after it, and the assertions about it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

from ... import postgres, sql, verbs
from ...model.rows import Lane, Lease
from ...verbs import settle
from ..stage.actor import DrillFailed
from ..stage.verdict import Check
from .load import BROKEN, KEPT, WORKERS, Load

WITHIN_SECONDS = 5.0  # workers are back so long after the server, at most
SEEN_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05

MISSING = (
    "SELECT count(*) FROM unnest(%s::uuid[]) AS a (id) WHERE NOT EXISTS (SELECT FROM tenure.inbox WHERE id = a.id)"
)
EPOCH = "SELECT epoch FROM tenure.incarnation"
AT_WORK = "SELECT DISTINCT worker FROM tenure.carried WHERE fence >> 40 = %s"
LEFT = "SELECT count(*) FROM tenure.live WHERE queue <> %s"
TWICE = "SELECT count(*) FROM (SELECT row_id FROM tenure.carried GROUP BY row_id HAVING count(*) > 1) AS twice"
EXPIRE = (
    "UPDATE tenure.claims SET until = LEAST(until, clock_timestamp())",
    "UPDATE tenure.live SET lease_expires_at = clock_timestamp() - interval '1 minute'"
    " WHERE queue = 'kept' AND status = 'processing'",
)
DUE = (
    "UPDATE tenure.live SET available_at = clock_timestamp() - interval '1 second'"
    " WHERE queue = 'kept' AND status = 'pending'"
)


@dataclass(slots=True)
class Failover:
    """One of them: what was seen."""

    at: float  # when the primary was killed or asked to step down, on the monotonic clock
    epoch_before: int
    gap_seconds: float = 0.0  # without an acknowledged write
    back_seconds: dict[str, float] = field(default_factory=dict)  # from `at` to a row claimed afterwards and completed
    epoch: int = 0
    acknowledged: int = 0  # since the drill began, not since the failover before
    lost: int = 0  # of them
    tokens: int = 0  # leases of before that were tried
    accepted: int = 0  # of them
    again: int = 0  # rows whose generation was handed out twice: only the fence tells the two apart
    silent_acks: int = 0  # acknowledged after the standby could no longer follow

    @property
    def late_seconds(self) -> float:
        """How much later than the server the last worker was back."""
        return max(self.back_seconds.values(), default=SEEN_SECONDS_MAX) - self.gap_seconds


def epoch_at_work(load: Load) -> int:
    """Wait until every worker has completed a row that it claimed on this server; its epoch."""
    by = time.monotonic() + SEEN_SECONDS_MAX
    with load.connect() as conn:
        while True:
            epoch = int(_ask(conn, load, EPOCH)[0][0])
            if {worker for (worker,) in _ask(conn, load, AT_WORK, epoch)} >= set(WORKERS):
                return epoch
            if time.monotonic() > by:
                raise DrillFailed(f"not every worker had work within {SEEN_SECONDS_MAX:.0f} s")
            load.check_workers()
            time.sleep(LOOK_SECONDS)


def watch(load: Load, failover: Failover, *, planned: bool = False) -> None:
    """Wait until rows are acknowledged and every worker has completed one that it claimed afterwards."""
    by = time.monotonic() + SEEN_SECONDS_MAX
    while set(failover.back_seconds) < set(WORKERS):
        if time.monotonic() > by:
            missing = sorted(set(WORKERS) - set(failover.back_seconds))
            raise DrillFailed(f"{' and '.join(missing)} did no work within {SEEN_SECONDS_MAX:.0f} s of the failover")
        load.check_workers()
        with suppress(*BROKEN):
            _look(load, failover)
        time.sleep(LOOK_SECONDS)
    failover.gap_seconds = _pause(load, failover.at) if planned else _first_ack(load, failover.at)


def _look(load: Load, failover: Failover) -> None:
    with load.connect() as conn:
        while set(failover.back_seconds) < set(WORKERS):
            failover.epoch = int(_ask(conn, load, EPOCH)[0][0])
            if failover.epoch > failover.epoch_before:
                for (worker,) in _ask(conn, load, AT_WORK, failover.epoch):
                    failover.back_seconds.setdefault(worker, time.monotonic() - failover.at)
            time.sleep(LOOK_SECONDS)


def _first_ack(load: Load, at: float) -> float:
    """Until the first answer to what was sent afterwards: an earlier one may still have come from the dead server."""
    return min(ack.answered for ack in list(load.acks) if ack.sent > at) - at


def _pause(load: Load, at: float) -> float:
    """The longest time without an answer since then."""
    answers = sorted(ack.answered for ack in list(load.acks) if ack.answered > at - 1)
    return max(later - earlier for earlier, later in pairwise(answers))


def judge(load: Load, failover: Failover) -> None:
    """Count what is lost, and try every token of before against rows that have a new holder."""
    told = [ack.id for ack in list(load.acks)]
    before = [lease for answered, lease in list(load.leases) if answered < failover.at]
    load.leases[:] = [each for each in load.leases if each[0] >= failover.at]
    with load.connect() as conn:
        failover.acknowledged, failover.lost = len(told), int(_ask(conn, load, MISSING, told)[0][0])
        for statement in EXPIRE:
            _ask(conn, load, statement)
        while postgres.run(conn, verbs.sweep()):
            pass
        _ask(conn, load, DUE)
        after = _all_kept(conn)
        failover.tokens = len(before)
        failover.accepted = sum(postgres.run(conn, settle.complete([lease]))[0].ok for lease in before)
        since = [*after, *(lease for _, lease in list(load.leases))]
        failover.again = len(_generations(before) & _generations(since))
        postgres.run(conn, settle.complete(after))


def _all_kept(conn: postgres.QueueConnection) -> list[Lease]:
    """Claim every row that the holder kept, as somebody else."""
    taken: list[Lease] = []
    claim = verbs.claim("judge", 100, buckets=verbs.ALL_BUCKETS, lanes=[Lane(KEPT)])
    while rows := postgres.run(conn, claim):
        taken += [row.lease for row in rows]
    return taken


def _generations(leases: Sequence[Lease]) -> set[tuple[UUID, int]]:
    return {(lease.id, lease.generation) for lease in leases}


def settled(load: Load) -> int:
    """Wait until no row is left but those of the holder; how many rows were carried twice."""
    by = time.monotonic() + SEEN_SECONDS_MAX
    with load.connect() as conn:
        while _ask(conn, load, LEFT, KEPT) != [(0,)]:
            if time.monotonic() > by:
                raise DrillFailed(f"rows are left {SEEN_SECONDS_MAX:.0f} s after the last was enqueued")
            load.check_workers()
            time.sleep(LOOK_SECONDS)
        return int(_ask(conn, load, TWICE)[0][0])


def checks(seen: Sequence[Failover], twice: int, within: float = WITHIN_SECONDS) -> tuple[Check, ...]:
    """The assertions about one failover or many."""
    told, lost = seen[-1].acknowledged, max(each.lost for each in seen)
    late, gap = max(each.late_seconds for each in seen), max(each.gap_seconds for each in seen)
    alone = sum(each.silent_acks for each in seen)
    return (
        Check("none_lost", f"{lost} of {told} acknowledged rows lost", lost == 0 < told),
        Check("none_alone", f"{alone} rows acknowledged while the standby was cut off", alone == 0),
        Check(
            "workers_back", f"workers back {max(late, 0.0):.1f} s after a gap of {gap:.1f} s at most", late <= within
        ),
        *_of_tokens(seen),
        Check("once", f"{twice} rows carried twice", twice == 0),
    )


def checks_of_control(seen: Sequence[Failover], twice: int) -> tuple[Check, ...]:
    """The harm, counted; what holds without a synchronous standby as well."""
    told, lost = seen[-1].acknowledged, max(each.lost for each in seen)
    again = sum(each.again for each in seen)
    return (
        Check("some_lost", f"{lost} of {told} acknowledged rows are lost", lost > 0),
        Check("tokens_again", f"{again} rows got the same token from both servers", again > 0),
        *_of_tokens(seen),
        Check("once", f"{twice} rows carried twice", twice == 0),
    )


def _of_tokens(seen: Sequence[Failover]) -> tuple[Check, ...]:
    tried, accepted = sum(each.tokens for each in seen), sum(each.accepted for each in seen)
    rose = all(each.epoch > each.epoch_before for each in seen)
    return (
        Check("epoch_rises", f"epoch {seen[0].epoch_before} before, {seen[-1].epoch} after", rose),
        Check("stale_refused", f"{accepted} of {tried} stale tokens accepted", accepted == 0 < tried),
    )


def _ask(conn: postgres.QueueConnection, load: Load, text: str, *params: object) -> list[tuple[Any, ...]]:
    cursor = conn.execute(sql.in_schema(text, load.schema).encode(), params or None)
    return cursor.fetchall() if cursor.description else []
