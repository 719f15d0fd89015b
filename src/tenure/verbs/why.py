"""Why a row runs or does not run: one question, answered in one sentence for people."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple
from uuid import UUID

from ..errors import telling_line
from ..sql import in_schema, text
from .statement import Statement


def why(id: UUID) -> Statement[str]:
    """One sentence: who holds the row, or what it waits for, and what happens next."""
    return Statement("why", {"id": id}, lambda rows: Facts(*rows[0]).sentence() if rows else f"There is no row {id}.")


def why_in_sql(id: UUID, schema: str) -> str:
    """The SQL of the question, for psql."""
    return re.sub(r":id\b", f"'{id}'", in_schema(text("why"), schema)).rstrip() + ";"


def spoken(seconds: float) -> str:
    """A duration for people."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Facts(NamedTuple):
    """The facts from which the sentence is made."""

    status: str
    kind: str
    queue: str
    partition_key: str
    attempts: int
    max_attempts: int
    worker: str | None
    seconds_left: float | None
    seconds_to_wait: float
    last_error: str | None
    worker_status: str | None
    cancel_asked: bool
    head: UUID | None
    head_status: str | None
    paused: bool
    running: int
    max_running: int | None
    running_of_key: int
    max_per_key: int | None
    tokens: float | None
    rate_per_second: float | None
    workers: int
    serving: int
    able: int
    gone: bool

    def sentence(self) -> str:
        """The answer for people."""
        ended = {
            "completed": f"It was completed by {self.worker} on attempt {self.attempts}.",
            "cancelled": f"It was cancelled ({self.last_error}); it will not run.",
            "failed": f"It failed for good on attempt {self.attempts} ({self._error()}); redrive brings it back.",
            "dead_letter": f"It is a dead letter after {self.attempts} of {self.max_attempts} attempts "
            f"({self._error()}); redrive brings it back.",
        }
        if self.status in ended:
            return ended[self.status]
        return self._held() if self.status == "processing" else self._waiting()

    def _held(self) -> str:
        asked = ", which was asked to cancel it" if self.cancel_asked else ""
        holder = f"worker {self.worker}" + (
            f" ({self.worker_status})" if self.worker_status not in (None, "alive") else ""
        )
        attempt = f"attempt {self.attempts} of {self.max_attempts}"
        left = self.seconds_left or 0.0
        if left > 0 and self.gone:
            return f"It is held by {holder}{asked}, whose session is gone, {attempt}; it comes back within the grace."
        if left > 0:
            return f"It is held by {holder}{asked} for another {spoken(left)}, {attempt}; a living worker renews that."
        then = "ends it as a dead letter" if self.attempts >= self.max_attempts else "returns it to pending"
        return f"Its lease under {holder}{asked} ran out {spoken(-left)} ago, {attempt}; the next sweep {then}."

    def _waiting(self) -> str:
        if self.head is not None:
            row = f"row {self.head} ({self.head_status}) of the ordered key {self.partition_key!r}"
            return f"It waits behind {row}; {self._next_of_head()}."
        so_far = f" after {self.attempts} of {self.max_attempts} attempts ({self._error()})" if self.attempts else ""
        paused = f", but the queue {self.queue!r} is paused" if self.paused else ""
        if self.seconds_to_wait > 0:
            return f"It becomes runnable in {spoken(self.seconds_to_wait)}{so_far}{paused or self._nobody()}."
        return f"It has been runnable for {spoken(-self.seconds_to_wait)}{so_far}{paused or self._obstacle()}."

    def _next_of_head(self) -> str:
        """What lets the key go on."""
        if self.head_status in ("pending", "processing"):
            return f"`tenure why {self.head}` says why"
        free = shlex.join(["tenure", "queues", "free", self.queue, self.partition_key])
        return f"redrive or delete that one, or `{free}`"

    def _nobody(self) -> str:
        """Why no worker would claim it, even if it were due."""
        if self.workers == 0:
            return ", but no worker is alive"
        if self.serving == 0:
            return f", but no worker serves the queue {self.queue!r} ({self.workers} alive)"
        if self.able == 0:
            return f", but no worker of its queue has a handler of kind {self.kind!r} ({self.serving} alive)"
        return ""

    def _obstacle(self) -> str:
        """Why a due row is not claimed yet, the first cause that applies."""
        if nobody := self._nobody():
            return nobody
        if self.max_running is not None and self.running >= self.max_running:
            return f", but the queue {self.queue!r} is at its limit: {self.running} of {self.max_running} are running"
        if self.max_per_key is not None and self.running_of_key >= self.max_per_key:
            room = f"{self.running_of_key} of {self.max_per_key} are running"
            return f", but the key {self.partition_key!r} is at its limit: {room}"
        if self.tokens is not None and self.tokens < 1:
            return f", but the queue {self.queue!r} starts no more than {self.rate_per_second:g} rows a second"
        return f" and waits for a free slot of {self.able} worker{'s' * (self.able != 1)}"

    def _error(self) -> str:
        return telling_line(self.last_error)[:200] or "no error recorded"
