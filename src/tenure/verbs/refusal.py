"""What it means when the database does not take a holder's write: a rule, without a clock and without a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..model.rows import Held, Settled
from .statement import array

# What the tape calls an attempt that this verb ended: found there, an unanswered write has been applied before.
_OUTCOMES = {
    "complete": "completed",
    "retry": "retried",
    "release": "released",
    "fail": "failed",
    "dead_letter": "dead_lettered",
}


def lease_params(leases: Sequence[Held]) -> dict[str, Any]:
    """The tokens of these leases; every guarded statement compares them all."""
    return {
        "ids": array([lease.id.hex for lease in leases]),
        "generations": array([lease.generation for lease in leases]),
        "fences": array([lease.fence for lease in leases]),
    }


@dataclass(frozen=True, slots=True)
class Found:
    """What the inbox says of a row whose write was refused."""

    status: str
    lease_generation: int
    fence_token: int
    expired: bool
    outcome: str | None  # how the tape says the refused lease's attempt ended, if it did


def judge(lease: Held, verb: str, found: Found | None) -> Settled:
    """Why a write was refused, from what was found afterwards; a rule without a clock and without a database."""
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
