"""Why the database refused a holder's write: a rule, without a clock and without a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..model.rows import Held, Settled
from .statement import array

# The outcome on the tape after each verb. If the tape already has it, the write succeeded and only the reply was lost.
_OUTCOMES = {
    "complete": "completed",
    "retry": "retried",
    "release": "released",
    "fail": "failed",
    "dead_letter": "dead_lettered",
}


def lease_params(leases: Sequence[Held]) -> dict[str, Any]:
    """Ids, tokens and fences of these leases; every guarded statement compares them all."""
    return {
        "ids": array([lease.id.hex for lease in leases]),
        "generations": array([lease.generation for lease in leases]),
        "fences": array([lease.fence for lease in leases]),
    }


@dataclass(frozen=True, slots=True)
class Found:
    """The row after its write was refused."""

    status: str
    lease_generation: int
    fence_token: int
    expired: bool
    outcome: str | None  # of the refused lease's attempt, if the tape has one


def judge(lease: Held, verb: str, found: Found | None) -> Settled:
    """Why a write was refused, judged from the row as it was found afterwards."""
    if found is None:
        return Settled(lease, verb, "unknown", reason="no_such_row")
    current = found.lease_generation
    if found.outcome is not None and found.outcome == _OUTCOMES.get(verb):
        return Settled(lease, verb, "already_mine", found.status, current=current)
    if (found.lease_generation, found.fence_token) != (lease.generation, lease.fence):
        return Settled(lease, verb, "stale", found.status, reason="token_mismatch", current=current)
    if found.status == _OUTCOMES.get(verb):
        return Settled(lease, verb, "already_mine", found.status, current=current)
    if found.outcome == "expired" or (found.status == "processing" and found.expired):
        return Settled(lease, verb, "stale", found.status, reason="lease_expired", current=current)
    if found.status == "processing":
        return Settled(lease, verb, "unknown", found.status, reason="try_again", current=current)
    return Settled(
        lease, verb, "stale", found.status, reason=f"already_{found.outcome or found.status}", current=current
    )
