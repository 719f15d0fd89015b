"""Several connections that do the same thing at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

import psycopg

from ...postgres.connection import QueueConnection
from .actor import DrillFailed

CONNECT_SECONDS_MAX = 20.0

T = TypeVar("T")


def at_once(n: int, connect: Callable[[], QueueConnection], do: Callable[[QueueConnection], T]) -> list[T]:
    """The results, each from its own connection and thread; DrillFailed, and no more waiting, if one fails."""
    together = Barrier(n)

    def each() -> T:
        try:
            with closing(connect()) as conn:
                together.wait(CONNECT_SECONDS_MAX)
                return do(conn)
        except BaseException:
            together.abort()
            raise

    with ThreadPoolExecutor(n) as threads:
        asked = [threads.submit(each) for _ in range(n)]
    troubles = [trouble for answer in asked if (trouble := answer.exception())]
    for trouble in sorted(troubles, key=lambda trouble: isinstance(trouble, BrokenBarrierError)):
        if not isinstance(trouble, psycopg.Error | BrokenBarrierError):
            raise trouble
        said = " ".join(str(trouble).split()) or f"not all of them had a connection within {CONNECT_SECONDS_MAX:.0f} s"
        raise DrillFailed(f"{n} transactions at once could not be run ({said})") from trouble
    return [answer.result() for answer in asked]
