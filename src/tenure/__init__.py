"""Durable work in Postgres: a job with tenure is never lost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backoff import Exponential, Fixed, Linear
    from .db import run
    from .errors import (
        Cancelled,
        IdempotencyConflict,
        InvalidPayload,
        RolledBack,
        SchemaMismatch,
        StaleFence,
        StaleLease,
        TenureError,
    )
    from .fence import fenced
    from .inbox import Inbox
    from .job import Job
    from .model import Claimed, Enqueued, Lane, Lease, NewRow, Row, Settled
    from .outcome import Completed, DeadLetter, Fail, Release, Retry, Snooze
    from .partition import shard, shards, unsharded
    from .terms import Terms
    from .worker import Worker

__version__ = "0.1.0"

_ROOM_OF = {
    **dict.fromkeys(("Exponential", "Fixed", "Linear"), "backoff"),
    **dict.fromkeys(("Claimed", "Enqueued", "Lane", "Lease", "NewRow", "Row", "Settled"), "model"),
    **dict.fromkeys(("Completed", "DeadLetter", "Fail", "Release", "Retry", "Snooze"), "outcome"),
    **dict.fromkeys(("Cancelled", "IdempotencyConflict", "InvalidPayload", "SchemaMismatch"), "errors"),
    **dict.fromkeys(("RolledBack", "StaleFence", "StaleLease", "TenureError"), "errors"),
    **dict.fromkeys(("shard", "shards", "unsharded"), "partition"),
    "Inbox": "inbox",
    "Job": "job",
    "Terms": "terms",
    "Worker": "worker",
    "fenced": "fence",
    "run": "db",
}

__all__ = [
    "Cancelled",
    "Claimed",
    "Completed",
    "DeadLetter",
    "Enqueued",
    "Exponential",
    "Fail",
    "Fixed",
    "IdempotencyConflict",
    "Inbox",
    "InvalidPayload",
    "Job",
    "Lane",
    "Lease",
    "Linear",
    "NewRow",
    "Release",
    "Retry",
    "RolledBack",
    "Row",
    "SchemaMismatch",
    "Settled",
    "Snooze",
    "StaleFence",
    "StaleLease",
    "TenureError",
    "Terms",
    "Worker",
    "fenced",
    "run",
    "shard",
    "shards",
    "unsharded",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `tenure --help` must not pay for the database driver."""
    if name in _ROOM_OF:
        return getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
