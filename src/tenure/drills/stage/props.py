"""The props of a stage: what a scene, a plan or a reader may set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Props:
    """How long leases and handlers take, and whether e-mails have an idempotency key."""

    lease_seconds: float = 3.0
    handler_seconds: float = 0.5
    dedupe: bool = True
    grace_seconds: float = 1.0
    slots: int = 4
    drain_seconds: float = 5.0  # at most: a hand uses no more than nine tenths of its lease
