"""A verb is a value: which SQL, with what, and how to read the answer. Running it is somebody else's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One verb or question, ready to run; `read` may answer with a further Statement when one reply is not enough."""

    name: str
    params: Mapping[str, Any]
    read: Callable[[Rows], T | Statement[T]]


def array(values: Iterable[object]) -> str:
    """Numbers or UUIDs as one Postgres array literal.

    A tenth of what psycopg spends on adapting a list element by element: a fifth of the loop at batch 100.
    """
    return "{" + ",".join(["NULL" if v is None else v.hex if type(v) is UUID else str(v) for v in values]) + "}"
