"""Durable work in Postgres: a job with tenure is never lost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.batch import Batch
    from .app.clock_times import TICK, Cron
    from .app.codec import Codec
    from .app.fence import fenced
    from .app.inbox import Inbox
    from .app.job import Job
    from .app.key_ring import keys_from_env, keys_from_file
    from .app.kind_limits import Limits
    from .app.provider import injected
    from .app.unique import Unique
    from .embedded.script import connect, connect_async
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
    from .model.backoff import Exponential, Fixed, Linear
    from .model.ended import BatchEnd, Ended
    from .model.outcome import Completed, DeadLetter, Fail, Release, Retry, Snooze
    from .model.rows import Claimed, Enqueued, Lane, Lease, NewRow, Row, Settled
    from .model.shards import shard, shards, unsharded
    from .postgres import migrate as migrate
    from .postgres.runner import run
    from .verbs import questions as questions
    from .verbs import settle as settle
    from .worker.config import Terms
    from .worker.worker import Worker

__version__ = "0.2.0.dev0"

_HOME_OF = {
    **dict.fromkeys(("Exponential", "Fixed", "Linear"), "model.backoff"),
    **dict.fromkeys(("Claimed", "Enqueued", "Lane", "Lease", "NewRow", "Row", "Settled"), "model"),
    **dict.fromkeys(("Completed", "DeadLetter", "Fail", "Release", "Retry", "Snooze"), "model.outcome"),
    **dict.fromkeys(("shard", "shards", "unsharded"), "model.shards"),
    **dict.fromkeys(("Cancelled", "IdempotencyConflict", "InvalidPayload", "SchemaMismatch"), "errors"),
    **dict.fromkeys(("RolledBack", "StaleFence", "StaleLease", "TenureError"), "errors"),
    **dict.fromkeys(("keys_from_env", "keys_from_file"), "app.key_ring"),
    **dict.fromkeys(("BatchEnd", "Ended"), "model.ended"),
    "Batch": "app.batch",
    "Codec": "app.codec",
    **dict.fromkeys(("Cron", "TICK"), "app.clock_times"),
    "Inbox": "app.inbox",
    "Job": "app.job",
    "Limits": "app.kind_limits",
    "Terms": "worker.config",
    "Unique": "app.unique",
    "Worker": "worker.worker",
    **dict.fromkeys(("connect", "connect_async"), "embedded.script"),
    "fenced": "app.fence",
    "injected": "app.provider",
    "run": "postgres",
}
_MODULES = {"migrate": "postgres.migrate", "questions": "verbs.questions", "settle": "verbs.settle"}

__all__ = [
    "TICK",
    "Batch",
    "BatchEnd",
    "Cancelled",
    "Claimed",
    "Codec",
    "Completed",
    "Cron",
    "DeadLetter",
    "Ended",
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
    "Limits",
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
    "Unique",
    "Worker",
    "connect",
    "connect_async",
    "fenced",
    "injected",
    "keys_from_env",
    "keys_from_file",
    "run",
    "shard",
    "shards",
    "unsharded",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `tenure --help` must not pay for the database driver."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
