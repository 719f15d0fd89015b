"""How a row ended, for those who wait for it."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

RESULT_BYTES_MAX = 262_144
OPEN = ("pending", "processing")


class EndedRow(NamedTuple):
    """How the database has it: the value as JSON text, perhaps sealed, and what it was sealed with."""

    id: UUID
    status: str
    value: str | None
    error: str | None
    kind: str | None
    queue: str | None
    partition_key: str | None


class BatchEnd(NamedTuple):
    """What follows a batch is told: how many rows ended, and how many of them failed or were cancelled."""

    id: int
    ended: int
    failed: int
    cancelled: int


T = TypeVar("T")


class Ended(NamedTuple, Generic[T]):
    """How a row ended: completed with the value its handler returned, or else with its last error."""

    status: Literal["completed", "failed", "dead_letter", "cancelled"]
    value: T | None = None
    error: str | None = None
