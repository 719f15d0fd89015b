"""Durable work in Postgres: a job with tenure is never lost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .db import run
    from .errors import IdempotencyConflict, InvalidPayload, SchemaMismatch, StaleFence, StaleLease, TenureError
    from .fence import fenced
    from .model import Claimed, Enqueued, Lane, Lease, NewRow, Row, Settled

__version__ = "0.1.0"

__all__ = [
    "Claimed",
    "Enqueued",
    "IdempotencyConflict",
    "InvalidPayload",
    "Lane",
    "Lease",
    "NewRow",
    "Row",
    "SchemaMismatch",
    "Settled",
    "StaleFence",
    "StaleLease",
    "TenureError",
    "fenced",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `tenure --help` must not pay for the database driver."""
    if name in __all__:
        for room in ("errors", "model", "db", "fence"):
            module = importlib.import_module(f"{__name__}.{room}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
