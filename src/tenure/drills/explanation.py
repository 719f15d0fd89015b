"""What a run of the explorer showed, in one sentence: which guard stopped the stale write, or why none did."""

from __future__ import annotations

from typing import Literal, Protocol

# What happens when a stopped worker returns: it still holds the row; its write is refused; its write counts instead
# of the current holder's; or both writes count.
Harm = Literal["no race", "stopped", "stolen", "duplicate"]

# While worker-B worked.
REFUSED = {
    "owner": "the row was worker-B's by then, and worker-A's name did not match",
    "generation": "the row was at token 2, and worker-A could show only token 1",
    "downstream": "token 2 had written, and an older one is not let in after it",
    "fence": "the row was at token 2, and worker-A could show only token 1",
}
# After worker-B had completed the row.
GONE = {
    "owner": "no row of that name was left, for worker-B had completed it; while it is still at work, the name decides",
    "generation": "no row with token 1 was left, for worker-B had completed it with token 2",
    "lease_time": "no lease was left to be current, for worker-B had completed the row; while it is still at work, its "
    "fresh lease would let worker-A in",
    "downstream": REFUSED["downstream"],
    "fence": "the row was completed with token 2, and worker-A could show only token 1",
}
PASSED = {
    "none": "nothing was asked before the write, so both holders wrote",
    "owner": "the row's owner bore worker-A's own name, so the second process lost its row to the first",
    "lease_time": "the lease was current, but it was worker-B's: worker-A finished a row that it did not hold, and "
    "worker-B was refused",
    "downstream": "token 1 came before token 2 had written, so the ledger let both in: it keeps the order of writes, "
    "not their number",
}


class Played(Protocol):
    """The settings of a run that the sentence needs."""

    @property
    def guard(self) -> str:
        """What is checked before a late write counts."""

    @property
    def lease_seconds(self) -> float:
        """The lease of the first holder."""

    @property
    def stall_seconds(self) -> float:
        """How long the first holder stood still."""

    @property
    def second(self) -> str:
        """What the second holder does when the first comes back."""

    @property
    def kept(self) -> bool:
        """Was the lease renewed during the stall?"""


def explanation(explore: Played, harm: Harm | None, reason: str) -> str:
    """The sentence for what happened; `reason` is the reason of the refusal."""
    if harm is None:
        return "The run was not played to its end, so it shows nothing."
    if harm == "no race":
        return f"There was no race: {_no_race(explore)}."
    if harm == "stopped":
        why = (GONE if explore.second == "done" else REFUSED).get(explore.guard, explore.guard)
        return f"The stale write was stopped by {explore.guard} ({reason}): {why}."
    return f"Nothing stopped the stale write: {PASSED.get(explore.guard, f'{explore.guard} let it through')}."


def _no_race(explore: Played) -> str:
    if explore.kept:
        return (
            f"worker-A's process lived, and renewed its lease of {explore.lease_seconds:g} s through a stall of"
            f" {explore.stall_seconds:g} s, so nobody could take the row"
        )
    return (
        f"the stall of {explore.stall_seconds:g} s ended within the lease of {explore.lease_seconds:g} s, so worker-A"
        " held the row when it wrote"
    )
